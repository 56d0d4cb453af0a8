"""Tenants of `fairlane api` over real servers: no app sees or moves anything of another."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from backends.redis.view import open_view
from dispatcher.access.actions import ACTIONS
from dispatcher.access.principal import Scope
from dispatcher.channels.names import PROVIDERS
from dispatcher.model.task import PushTask
from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.web.api_server import ApiServer, api_server
from tests.integration.web.tenants import SECRET, Reply, Tenant, names_task, submit_as, tenant
from tests.integration.worker_crew import Crew, eventually, let_commands_use
from tests.unit.command_line import CommandLine
from web.routes import ROUTES
from web.routing import Route

pytestmark = pytest.mark.timeout(180)
SCOPES = (Scope.SUBMIT, Scope.READ, Scope.CONTROL)
IDS = {
    "own": "own",
    "own, by Python": "~plain",
    "foreign, as the other key names it": f"{SECRET}-own",
    "foreign, by its internal id": f"~{SECRET}--{SECRET}-own",
    "foreign, by Python": f"~{SECRET}-plain",
    "foreign, of an id with our prefix": f"{SECRET}-taken",
    "unknown": "nowhere",
    "unknown, by Python": "~nowhere",
    "longest": "x" * 100,
    "hostile": "<script>\u202e💥\x01",
}


@pytest.fixture(scope="module")
def client(module_settings: Settings, members: Crew) -> Iterator[PushClient]:
    members.await_view()
    with PushClient.connect(module_settings) as client:
        for app in ("shop", SECRET):
            client.access.set_policy(app, {"channels": ["log"], "requests_s": 10_000})
        yield client


@pytest.fixture(scope="module")
def server(
    module_settings: Settings, client: PushClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    with api_server(module_settings, tmp_path_factory.mktemp("api")) as here:
        eventually(lambda: here.ask("GET", "/readyz")[0] == 200, 30, "it is ready")
        yield here


@pytest.fixture(scope="module")
def keys(server: ApiServer, client: PushClient) -> dict[str, Tenant]:
    """Keys of the app `shop` by scope, in a service where another app has tasks, a message, a quota and a policy."""
    other = tenant(server, client, SECRET, *SCOPES)
    ours = tenant(server, client, "shop", *SCOPES)
    assert other.submit([f"{SECRET}-1", f"{SECRET}-2"], id=f"{SECRET}-own", message=SECRET, first=1).status == 201
    assert ours.submit(["shop-1", "shop-2"], id="own", first=1).status == 201
    for app, id_ in ((SECRET, f"{SECRET}-plain"), (SECRET, f"shop--{SECRET}-taken"), ("shop", "plain")):
        submit_as(client, app, id_)
    return {**{scope: tenant(server, client, "shop", scope) for scope in SCOPES}, "all": ours, "other": other}


def expected(route: Route, scopes: set[str], id_: str) -> set[int]:
    """Return the statuses that a key of an app may get."""
    action = ACTIONS[route.action]
    if not action.in_app or action.scope not in scopes:
        return {403}
    if not names_task(route):
        return {200, 400}
    return {200, 409} if id_.startswith("own") else {404}


def without(reply: Reply, id_: str) -> str:
    """Return a text without what differs from request to request."""
    return reply.text.replace(reply.headers["X-Request-Id"], "REQUEST").replace(id_, "ID")


def test_matrix_names_a_task_in_every_action_on_one() -> None:
    """A new one is classified in tests/integration/web/tenants.py."""
    of_tasks = {name for name in ACTIONS if name.startswith(("tasks.", "letters."))}
    assert of_tasks - {"tasks.submit", "tasks.preview", "tasks.list"} == {
        route.action for route in ROUTES if names_task(route)
    }


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_no_route_shows_or_changes_anything_of_another_app(
    route: Route, keys: dict[str, Tenant], client: PushClient
) -> None:
    before = [
        client.task(id_).progress() for id_ in (f"{SECRET}--{SECRET}-own", f"{SECRET}-plain", f"shop--{SECRET}-taken")
    ]
    for name in (*SCOPES, "all"):
        scopes = set[str](SCOPES) if name == "all" else {name}
        for kind, id_ in IDS.items():
            reply = keys[name].ask_route(route, id_)
            assert reply.status in expected(route, scopes, kind), (name, kind, reply)
            assert SECRET not in reply.text.replace(id_, ""), (name, kind)
    assert [client.task(view.id).progress() for view in before] == before
    assert not [entry for entry in client.audit(1_000, SECRET) if entry.task]


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if names_task(route)],
    ids=lambda route: f"{route.method} {route.path}",
)
def test_answer_for_a_foreign_task_is_that_for_an_unknown_one(route: Route, keys: dict[str, Tenant]) -> None:
    def answer(kind: str) -> tuple[str, set[str]]:
        reply = keys["all"].ask_route(route, IDS[kind])
        return without(reply, IDS[kind]), reply.headers.keys() - {"Date", "Content-Length"}

    answers = {kind: answer(kind) for kind in IDS if kind.startswith(("foreign", "unknown"))}
    assert len({text for text, _ in answers.values()}) == 1, answers


def test_lists_and_bulk_changes_have_what_the_app_owns(keys: dict[str, Tenant], client: PushClient) -> None:
    ours, listed = keys["all"], "/v1/tasks?limit=500"
    submit_as(client, "shop", "bulk-plain")
    assert ours.submit(["a", "b"], id="bulk", tier="high", first=1).status == 201
    eventually(
        lambda: {row["id"] for row in ours.ask("GET", listed).document["rows"]} >= {"bulk", "~bulk-plain"}, 30, "both"
    )
    for path in (
        listed,
        "/v1/tasks?state=cancelled",
        f"/v1/tasks?app={SECRET}",
        "/v1/invalid",
        "/v1/dead-letters?state=all",
    ):
        assert SECRET not in ours.ask("GET", path).text.replace(f"app {SECRET}", "")
    everything = {"filter": {"tier": "high"}, "weight": 0.25}
    shown = ours.ask("POST", "/v1/tasks/change", everything | {"dry_run": True})
    assert {row["id"] for row in shown.document["changes"]} >= {"bulk", "~bulk-plain"}
    assert SECRET not in shown.text
    assert "bulk" in ours.ask("POST", "/v1/tasks/change", everything).document["changed"]
    assert client.task(f"{SECRET}-plain").progress().weight == 1.0
    empty = ours.ask("POST", "/v1/tasks/change", {"filter": {}, "weight": 0.25})
    assert (empty.status, empty.document["detail"]) == (422, "The filter is empty, so it would select all tasks.")


def test_id_that_another_app_took_inside_is_refused_without_a_word_of_it(keys: dict[str, Tenant]) -> None:
    reply = keys["all"].submit(["a"], id=f"{SECRET}-taken")
    assert reply.status == 409
    assert reply.document["type"].endswith("#audience-mismatch")
    assert SECRET not in reply.text.replace(f"{SECRET}-taken", "")


# ------------------------------------------------------------------ idempotency
def test_same_submission_again_has_an_equal_answer_and_sends_nothing(keys: dict[str, Tenant], members: Crew) -> None:
    ours, targets = keys["all"], [f"again-{number}" for number in range(20)]
    first, again = (ours.submit([*targets, " "], id="again") for _ in range(2))
    assert (first.status, again.status) == (201, 200)
    assert first.document == again.document
    assert ("Idempotent-Replayed" in first.headers, again.headers["Idempotent-Replayed"]) == (False, "true")
    eventually(lambda: ours.ask("GET", "/v1/tasks/again").document["state"] == "completed", 60, "it is sent")
    assert ours.submit([*targets, " "], id="again").document == first.document, "also after its end"
    assert set(members.targets("shop--again").values()) == {1}


def test_other_task_or_audience_under_a_known_id_is_a_mismatch(keys: dict[str, Tenant]) -> None:
    ours = keys["all"]
    assert ours.submit(["a", "b"], id="taken").status == 201
    for other in (ours.submit(["a", "c"], id="taken"), ours.submit(["a", "b"], id="taken", message="Other")):
        assert other.status == 409
        assert other.document["type"].endswith("#audience-mismatch")
        assert "shop--" not in other.text


def test_idempotency_key_makes_the_id(keys: dict[str, Tenant]) -> None:
    def submit(who: Tenant, key: str, **fields: str) -> Reply:
        task = {"channel": "log", "message": "Hi", "targets": ["a"]} | fields
        return who.ask("POST", "/v1/tasks", task, **{"Idempotency-Key": key})

    ours = keys["all"]
    for key in ("order 17", "r\xc3\xa9", "x" * 255):
        first, again, other = (submit(who, key) for who in (ours, ours, keys["other"]))
        assert [reply.status for reply in (first, again, other)] == [201, 200, 201]
        assert first.document == again.document
        assert first.headers["Location"] == f"/v1/tasks/{first.document['id']}"
        assert submit(ours, key, message="Other").document["type"].endswith("#audience-mismatch")
    assert submit(ours, "order 18").document["id"] != submit(ours, "order 17").document["id"]
    assert submit(ours, "x" * 256).status == 422


def test_callers_at_once_with_one_id_make_one_task(keys: dict[str, Tenant], members: Crew) -> None:
    ours, targets = keys["all"], [f"race-{number}" for number in range(500)]

    def submit(_: int) -> Reply:
        while (reply := ours.submit(targets, id="race")).status == 409:
            assert reply.document["type"].endswith("#being-submitted")
            assert reply.headers["Retry-After"]
        return reply

    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(submit, range(8)))
    assert {reply.status for reply in replies} <= {200, 201}
    assert len({reply.text for reply in replies}) == 1
    assert [reply.status for reply in replies].count(201) == 1
    eventually(lambda: ours.ask("GET", "/v1/tasks/race").document["state"] == "completed", 60, "it is sent")
    assert sorted(members.targets("shop--race").items()) == sorted((target, 1) for target in targets)


def test_task_that_is_submitted_elsewhere_now_is_said_to_be(keys: dict[str, Tenant], client: PushClient) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def audience() -> Iterator[str]:
        yield "slow-0"
        begun.set()
        may_end.wait(120)
        yield "slow-1"

    task = PushTask(id="shop--slow", app="shop", tier="medium", channel="log", message="Hi", expected_targets=2)
    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(client.submit, task, audience())
        assert begun.wait(60)
        ours = keys["all"]
        reply = ours.submit(["slow-0", "slow-1"], id="slow")
        assert (reply.status, reply.document["type"].rpartition("#")[2]) == (409, "being-submitted")
        assert reply.headers["Retry-After"]
        may_end.set()
        submitting.result(60)
    assert ours.submit(["slow-0", "slow-1"], id="slow").headers["Idempotent-Replayed"] == "true"


# ------------------------------------------------------------------ keys
def test_key_of_the_command_line_is_alone_on_stdout_and_revoked_at_once(
    server: ApiServer, module_settings: Settings, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_commands_use(module_settings, monkeypatch)
    made = cli(["key", "create", "--app", "shop", "--scopes", "submit,read,control", "--ends", "90d"])
    key = made.out.strip()
    assert made.out == f"{key}\n"
    assert key not in made.err
    new, id_ = Tenant(server, key), key.split("_")[1]
    eventually(lambda: new.ask("GET", "/v1/tasks").status == 200, 30, "the key is known")

    def used_ms() -> int:
        rows = json.loads(cli(["key", "list", "--app", "shop", "-o", "json"]).out)
        return next(int(row["used_ms"]) for row in rows if row["id"] == id_)

    eventually(used_ms, 30, "its use is listed")
    assert used_ms() % 60_000 == 0
    cli(["key", "revoke", id_])
    eventually(lambda: new.ask("GET", "/v1/tasks").status == 401, 30, "it is refused")
    assert "was revoked" in new.ask("GET", "/v1/tasks").document["detail"]


def test_operator_makes_and_revokes_keys_over_http(server: ApiServer, client: PushClient) -> None:
    operator = tenant(server, client, None, Scope.OPERATOR)
    right: dict[str, object] = {"app": "shop", "scopes": ["read"], "ends_in_s": 3_600}
    mistakes: list[tuple[str, object]] = [("app", app) for app in ("", "a b", "a--b")]
    for name, value in (*mistakes, ("scopes", []), ("scopes", ["all"]), ("ends_in_s", 1e300)):
        assert operator.ask("POST", "/v1/keys", {**right, name: value}).status == 422, (name, value)
    made = operator.ask("POST", "/v1/keys", right)
    assert made.status == 201
    new, id_ = Tenant(server, made.document["key"]), made.document["id"]
    eventually(lambda: new.ask("GET", "/v1/tasks").status == 200, 30, "the key is known")
    assert new.key not in operator.ask("GET", "/v1/keys").text
    deleted = operator.ask("DELETE", f"/v1/keys/{id_}")
    eventually(lambda: new.ask("GET", "/v1/tasks").status == 401, 30, "it is refused")
    entries = [entry for entry in client.audit(50, "shop") if entry.field == f"key:{id_}"]
    requests = [reply.headers["X-Request-Id"] for reply in (deleted, made)]
    assert [entry.request for entry in entries] == requests
    assert operator.ask("DELETE", "/v1/keys/nowhere").status == 404


def test_operator_bounds_an_app_over_http(server: ApiServer, client: PushClient) -> None:
    operator, ours = tenant(server, client, None, Scope.OPERATOR), tenant(server, client, "small", *SCOPES)
    bounds = {"tasks": 1, "policy": {"channels": ["log"], "targets": 2}}
    for wrong in ({"weight": -1}, {"policy": {"targets": 0}}):
        assert operator.ask("PATCH", "/v1/apps/small", {**bounds, **wrong}).status == 422
    unchanged = operator.ask("GET", "/v1/apps/small").document
    assert (unchanged["task_limit"], unchanged["policy"]["channels"]) == (0, list(PROVIDERS))
    shown = operator.ask("PATCH", "/v1/apps/small", bounds).document
    assert (shown["task_limit"], shown["policy"]["targets"]) == (1, 2)

    def refused(status: int, **fields: object) -> bool:
        reply = ours.submit(["a", "b", "c"], **fields)
        return reply.status == status and "app small allows targets up to 2" in reply.document["detail"]

    eventually(lambda: refused(422, id="large"), 30, "the policy is known")
    assert ours.submit(["a", "b"], id="one", first=1).status == 201
    full = ours.submit(["a"], id="two")
    assert (full.status, full.document["type"].rpartition("#")[2]) == (429, "limit-reached")
    assert full.headers["Retry-After"]


# ------------------------------------------------------------------ audit
def test_changes_are_kept_with_who_made_them(
    keys: dict[str, Tenant],
    client: PushClient,
    module_settings: Settings,
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_commands_use(module_settings, monkeypatch)
    ours = keys["all"]
    ours.submit(["a", "b"], id="audited", first=1)
    changed = ours.ask("PATCH", "/v1/tasks/audited", {"weight": 0.5, "cap": "100:5"})
    cli(["task", "set", "shop--audited", "weight=2", "tier=low"])
    client.task("shop--audited").set_weight(3)
    cli(["app", "cap", "shop", "500"])
    cli(["app", "cap", "shop", "none"])
    entries = list(client.audit(100, "shop"))
    made = [(entry.field, entry.before, entry.after, entry.by.partition(":")[0]) for entry in entries]
    assert made[:2] == [("cap:app:shop", "500", "0", "cli"), ("cap:app:shop", "", "500", "cli")]
    assert made[2] == ("weight", "2000", "3000", "client")
    assert set(made[3:5]) == {("weight", "500", "2000", "cli"), ("tier", "medium", "low", "cli")}
    assert set(made[5:7]) == {("weight", "1000", "500", "key"), ("cap", "0", "100:5", "key")}
    assert {entry.request for entry in entries[5:7]} == {changed.headers["X-Request-Id"]}
    assert {entry.request for entry in entries[:5]} == {""}
    rows = json.loads(cli(["audit", "list", "--app", "shop", "--limit", "7", "-o", "json"]).out)
    values = {(row["field"], row["before"], row["after"]) for row in rows}
    assert values >= {
        ("cap:app:shop", "500", "none"),
        ("weight", "2", "3"),
        ("weight", "1", "0.5"),
        ("cap", "none", "100:5"),
    }


def test_requests_beyond_the_policy_are_refused_over_all_keys_of_the_app(server: ApiServer, client: PushClient) -> None:
    one, two = tenant(server, client, "busy", "read"), tenant(server, client, "busy", "read")
    client.access.set_policy("busy", {"requests_s": 2})

    def refused() -> Reply | None:
        replies = [who.ask("GET", "/v1/tasks") for who in (one, two) * 4]
        return next((reply for reply in replies if reply.status == 429), None)

    eventually(refused, 30, "it is refused")
    eventually(lambda: one.ask("GET", "/v1/tasks").status == 200, 30, "a second later it is answered")


# ------------------------------------------------------------------ an emptied Redis
def test_emptied_redis_takes_neither_keys_nor_tasks_nor_their_owners_away(
    keys: dict[str, Tenant], module_settings: Settings
) -> None:
    """The last test here: workers rebuild the view."""
    ours, seen = keys["all"], set[int]()
    assert ours.submit(["a", "b"], id="kept", first=1).status == 201
    with closing(open_view(module_settings.redis)) as view:
        view.wipe()

    def is_back() -> bool:
        replies = ours.ask("GET", "/v1/tasks/kept"), ours.ask("PATCH", "/v1/tasks/kept", {"weight": 0.5})
        foreign, unknown = ours.ask("GET", f"/v1/tasks/~{SECRET}-plain"), ours.ask("GET", "/v1/tasks/~nowhere")
        seen.update(reply.status for reply in replies)
        assert {foreign.status, unknown.status} <= {404, 503}
        return {reply.status for reply in replies} == {200}

    eventually(is_back, 90, "the view is rebuilt")
    assert seen <= {200, 503}
