"""Tasks at the desk: a key sees and changes what its app owns, under the ids that it gave."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from dispatcher.access.principal import Scope
from dispatcher.model.errors import (
    AudienceMismatch,
    FairlaneError,
    Forbidden,
    InvalidInput,
    LimitReached,
    NotFound,
    NotReady,
    TaskEnded,
    Unreachable,
)
from dispatcher.wire.control import TaskRecord
from fairlane.figures.why_rows import why_fields
from producers.control.task_changes import Changes, TaskFilter
from producers.desk.task_desk import TaskDesk
from producers.submit.intake import AudienceRules
from tests.unit.dispatch.desk.desk_world import DeskWorld, new_task
from tests.unit.dispatch.producers.fake_service import slabs

HOSTILE = [
    *("", "<script>", "\u202eelas", "a b", "a\nb", "\x00", "t:open", "../t", "%2e", "💥", "x" * 10_000, "\udc80"),
    *("~", "~~sale", "--", "~--", "~news--sale", "news--sale", "shop--sale", "*", "{shop}", "a" * 100),
]
"""Ids that name no task of the app `shop`."""
CALLS: dict[str, Callable[[TaskDesk, str], object]] = {
    "show": lambda desk, id_: desk.task(id_),
    "message": lambda desk, id_: desk.task_and_message(id_),
    "why": lambda desk, id_: desk.why(id_),
    "failures": lambda desk, id_: desk.failures(id_),
    "by reason": lambda desk, id_: desk.failures_by_reason(id_),
    "outcomes": lambda desk, id_: desk.outcomes(id_, None),
    "weight": lambda desk, id_: desk.change(id_, Changes(weight=0.5), None),
    "edit": lambda desk, id_: desk.change(id_, None, "Other"),
    "cancel": lambda desk, id_: desk.cancel(id_, 0.0),
    "bulk": lambda desk, id_: desk.change_many(TaskFilter(ids=("own", id_)), Changes(weight=0.5)),
    "bulk preview": lambda desk, id_: desk.preview_change(TaskFilter(ids=(id_, "own")), Changes(weight=0.5)),
}
"""Everything that names a task."""


def refusal(call: Callable[..., object], *args: object) -> FairlaneError:
    with pytest.raises(FairlaneError) as refused:
        call(*args)
    return refused.value


def texts(error: FairlaneError, id_: str) -> tuple[type, str, str]:
    """An error without the id that was asked for."""
    return type(error), error.cause.replace(id_, "ID"), error.next_step.replace(id_, "ID")


@pytest.fixture
def tenants(world: DeskWorld) -> DeskWorld:
    """Two apps with tasks by key and without, some of them with confusing names."""
    for app in ("shop", "news"):
        for id_ in ("own", "both"):
            world.desks(app).tasks.submit(new_task(id=id_), ["a", "b"])
    world.submit("theirs", "news")
    world.submit("shop--taken", "news")
    world.submit("plain", "shop")
    world.submit("news--odd", "shop")
    return world


# ------------------------------------------------------------------ what there is
@pytest.mark.parametrize("name", CALLS)
def test_task_of_another_app_is_as_unknown_as_one_that_never_was(tenants: DeskWorld, name: str) -> None:
    for id_ in ("nowhere", "~nowhere", "theirs", "~theirs", "taken", "~shop--taken", "~news--own", "news--own"):
        error = refusal(CALLS[name], tenants.desks().tasks, id_)
        assert texts(error, id_) == (NotFound, "There is no task ID.", "Ended tasks are kept for days.")
    assert tenants.audit() == []


@pytest.mark.parametrize("name", CALLS)
def test_id_that_no_task_has_is_unknown_whatever_is_in_it(tenants: DeskWorld, name: str) -> None:
    for id_ in HOSTILE:
        error = refusal(CALLS[name], tenants.desks().tasks, id_)
        assert (type(error), error.cause) == (NotFound, f"There is no task {id_}.")


@pytest.mark.parametrize("name", CALLS)
def test_unknown_and_foreign_tasks_are_alike_while_the_view_is_rebuilt(tenants: DeskWorld, name: str) -> None:
    tenants.service.view.command("HSET", tenants.service.view.keys.epoch, "ready", 0)
    for id_, unknown in (("taken", "nowhere"), ("~theirs", "~nowhere")):
        error = texts(refusal(CALLS[name], tenants.desks().tasks, id_), id_)
        assert error == texts(refusal(CALLS[name], tenants.desks().tasks, unknown), unknown)
        assert error[:2] == (NotReady, "The view in Redis does not know task ID, and is not complete.")


def test_key_reads_its_own_tasks_by_their_ids(tenants: DeskWorld) -> None:
    desk = tenants.desks().tasks
    assert [desk.task(id_).id for id_ in ("own", "~shop--own", "~plain", "~news--odd")] == [
        *("own", "own", "~plain", "~news--odd"),
    ]
    view, message, _ = desk.task_and_message("own")
    assert (view.id, view.app, message["body"]) == ("own", "shop", "Hi")


def test_list_has_what_the_app_owns_under_the_ids_of_the_key(tenants: DeskWorld) -> None:
    def listed(**only: str | None) -> set[str]:
        return {view.id for view in tenants.desks().board.tasks(only, "-created", 100, None).tasks}

    assert listed() == {"own", "both", "~plain", "~news--odd"}
    assert listed(id_prefix="o") == {"own"}
    assert listed(id_prefix="~news") == {"~news--odd"}
    assert listed(app="shop") == listed()
    error = refusal(lambda: listed(app="news"))
    assert (type(error), error.cause) == (NotFound, "There is no app news.")


def test_pages_of_ended_tasks_name_nothing_of_other_apps(world: DeskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.redis.registry.tasks._PAGE", 2)
    monkeypatch.setattr("producers.desk.board_desk.MAX_LOOKS", 1)
    for id_, app in (
        ("theirs", "news"),
        ("one", "shop"),
        ("shop--taken", "news"),
        ("shop--two", "shop"),
        ("last", "news"),
    ):
        world.submit(id_, app)
        world.service.clock.advance(0.01)
        world.service.finish(id_)
    world.service.fold()

    def page(cursor: str | None) -> tuple[list[str], str | None]:
        listed = world.desks().board.tasks({"state": "completed"}, "-created", 1, cursor)
        return [view.id for view in listed.tasks], listed.cursor

    (seen, cursor), pages = page(None), 0
    while cursor is not None and pages < 30:
        assert cursor.partition(":")[2] in ("~one", "two", "~")
        found, cursor = page(cursor)
        seen, pages = seen + found, pages + 1
    assert set(seen) == {"~one", "two"}
    at_ms = world.service.clock.wall_ms()
    assert page(f"{at_ms}:~theirs") == page(f"{at_ms}:~nowhere") == page(f"{at_ms}:~")


def test_operator_sees_all_apps_and_internal_ids(tenants: DeskWorld) -> None:
    desk = tenants.operator().tasks
    assert desk.task("shop--own").app == "shop"
    assert {view.id for view in tenants.operator().board.tasks({"app": "news"}, "id", 100, None).tasks} == {
        *("news--own", "news--both", "theirs", "shop--taken"),
    }


# ------------------------------------------------------------------ submissions
def test_task_of_a_key_has_the_id_of_its_app_inside_and_its_name_in_the_record(world: DeskWorld) -> None:
    accepted = world.desks().tasks.submit(new_task(), ["a", "b"])
    (record,) = world.service.records_of(TaskRecord)
    assert (record.task, record.app, record.by, record.request) == ("shop--sale", "shop", "key:k-shop", "req-1")
    assert (accepted.result.task, accepted.result.accepted) == ("sale", 2)
    assert not accepted.is_replayed


@pytest.mark.parametrize("given", [{"id": "sale"}, {"id": None}])
def test_same_submission_again_has_an_equal_answer(world: DeskWorld, given: dict[str, Any]) -> None:
    first, again = (
        world.desks(request=request).tasks.submit(new_task(**given), ["a", "b", " "], idempotency_key="k 1")
        for request in ("req-1", "req-2")
    )
    assert (first.is_replayed, again.is_replayed) == (False, True)
    assert (again.result.task, again.result.created_ms) == (first.result.task, first.result.created_ms)
    assert (again.result.accepted, again.result.refused, again.result.refusals) == (2, 1, first.result.refusals)
    assert len(world.service.records_of(TaskRecord)) == 1


def test_empty_task_again_is_replayed(world: DeskWorld) -> None:
    rules = AudienceRules(allow_empty=True)
    assert [world.desks().tasks.submit(new_task(), [], rules).is_replayed for _ in range(2)] == [False, True]


@pytest.mark.parametrize(("fields", "audience"), [({"message": "Other"}, ["a", "b"]), ({}, ["a", "c"]), ({}, ["a"])])
def test_same_id_with_another_task_or_audience_is_a_mismatch(
    world: DeskWorld, fields: dict[str, Any], audience: list[str]
) -> None:
    world.desks().tasks.submit(new_task(), ["a", "b"])
    error = refusal(world.desks().tasks.submit, new_task(**fields), audience)
    assert isinstance(error, AudienceMismatch)
    assert "sale" in error.cause
    assert "shop--" not in str(error.cause + error.next_step)


def test_id_that_another_app_took_inside_is_a_mismatch_that_says_nothing_of_its_task(tenants: DeskWorld) -> None:
    error = refusal(tenants.desks().tasks.submit, new_task(id="taken"), ["a", "b"])
    assert (type(error), error.cause) == (AudienceMismatch, "Task taken was submitted before as another task.")
    assert error.next_step == "Choose another id."


def test_two_apps_may_choose_the_same_id_and_idempotency_key(world: DeskWorld) -> None:
    for app in ("shop", "news"):
        for given in ({"id": "sale"}, {"id": None}):
            assert not world.desks(app).tasks.submit(new_task(**given), ["a"], idempotency_key="k").is_replayed
    assert len(world.service.records_of(TaskRecord)) == 4


def test_task_for_another_app_is_refused(world: DeskWorld) -> None:
    error = refusal(world.desks().tasks.submit, new_task(app="news"), ["a"])
    assert (type(error), error.cause) == (InvalidInput, "app: is 'news'; this key is for app shop.")


def test_operator_names_the_app(world: DeskWorld) -> None:
    assert world.operator().tasks.submit(new_task(app="news"), ["a"]).app == "news"
    with pytest.raises(InvalidInput, match="app"):
        world.operator().tasks.submit(new_task(), ["a"])


def test_submission_that_was_interrupted_is_continued_by_the_same_request(world: DeskWorld) -> None:
    world.service.fail_at("append Sealed", Unreachable("Pulsar is gone."))
    error = refusal(world.desks().tasks.submit, new_task(), ["a", "b"])
    assert error.next_step == "Submit the same task with id='sale' again to go on from its last checkpoint."
    world.service.recover()
    assert world.desks().tasks.submit(new_task(), ["a", "b"]).result.accepted == 2
    assert world.desks().tasks.task("sale").sealed


@pytest.mark.parametrize(
    ("bounds", "fields", "named"),
    [
        ({}, {"channel": "http"}, "channel: is 'http'; the policy of app shop allows channels: log."),
        ({"tier": "medium"}, {}, "tier: is high"),
        ({"weight": 2.0}, {"weight": 3.0}, "weight: is 3"),
        ({"targets": 2}, {}, "audience: is 3; the policy of app shop allows targets up to 2."),
        ({"ttl_s": 60.0}, {"ttl_s": "2m"}, "ttl_s: is 120"),
    ],
)
def test_task_beyond_the_policy_is_refused_before_anything_is_stored(
    world: DeskWorld, bounds: dict[str, Any], fields: dict[str, Any], named: str
) -> None:
    if bounds:
        world.allow(**bounds)
    with pytest.raises(InvalidInput, match="policy of app shop") as refused:
        world.desks().tasks.submit(new_task(**fields), ["a", "b", "c"])
    assert refused.value.cause.startswith(named)
    assert world.service.records_of(TaskRecord) == []
    with pytest.raises(InvalidInput, match="policy of app shop"):
        world.desks().tasks.preview(new_task(**fields), ["a", "b", "c"], 1)


def test_audience_that_grows_beyond_the_policy_is_never_sealed(world: DeskWorld) -> None:
    world.allow(targets=5)
    error = refusal(world.desks().tasks.submit, new_task(), slabs(["a", "b", "c", "d", "e", "f"], 2))
    assert error.cause == "audience: is 6; the policy of app shop allows targets up to 5."
    assert not world.operator().tasks.task("shop--sale").sealed


def test_operator_is_bound_by_no_policy(world: DeskWorld) -> None:
    world.allow(tier="low", targets=1)
    result = world.operator().tasks.submit(new_task(app="shop", channel="null"), ["a", "b"]).result
    assert world.operator().tasks.task(result.task).tier == "high"


def test_limit_of_live_tasks_holds_for_keys(world: DeskWorld) -> None:
    world.client.limit_app("shop", tasks=1)
    world.desks().tasks.submit(new_task(), ["a"])
    error = refusal(world.desks().tasks.submit, new_task(id="more"), ["a"])
    assert isinstance(error, LimitReached)
    assert "task more was not created" in error.cause


def test_preview_shows_requests_and_stores_nothing(world: DeskWorld) -> None:
    stored = len(world.service.log)
    made = world.desks().tasks.preview(new_task(), ["token-1", " "], 3)
    assert (made.result.task, made.result.accepted, made.result.refused) == ("sale", 1, 1)
    assert "shop--" not in json.dumps(msgspec.to_builtins(made.requests))
    assert len(world.service.log) == stored


# ------------------------------------------------------------------ changes
def test_change_of_a_task_is_made_in_the_name_of_the_key(tenants: DeskWorld) -> None:
    desk = tenants.desks().tasks
    changed, edit = desk.change("own", Changes(weight=0.5, paused=True), "Other")
    assert edit is not None
    assert (edit.number, changed.id, changed.weight) == (1, "own", 0.5)
    view, message, _ = desk.task_and_message("own")
    assert (view.weight, view.state, message["body"]) == (0.5, "paused", "Other")
    assert {(entry.by, entry.request, entry.app, entry.task) for entry in tenants.audit()} == {
        ("key:k-shop", "req-1", "shop", "shop--own")
    }
    assert sorted(entry.field for entry in tenants.audit()) == ["override", "paused", "weight"]


def test_change_that_is_already_made_leaves_no_trace(tenants: DeskWorld) -> None:
    for _ in range(2):
        tenants.desks().tasks.change("own", Changes(weight=0.5), None)
    assert len(tenants.audit()) == 1


def test_message_that_cannot_be_changed_leaves_the_controls(tenants: DeskWorld) -> None:
    with pytest.raises(InvalidInput):
        tenants.desks().tasks.change("own", Changes(paused=True), {"body": "x" * 20_000})
    assert tenants.desks().tasks.task("own").state == "running"


def test_ended_task_takes_no_change_and_is_named_as_the_key_does(tenants: DeskWorld) -> None:
    desk = tenants.desks().tasks
    for id_ in ("own", "~plain"):
        desk.cancel(id_, 0.0)
        for call in (CALLS["weight"], CALLS["edit"]):
            error = refusal(call, desk, id_)
            assert isinstance(error, TaskEnded)
            assert error.cause.startswith(f"Task {id_} is cancelled")


def test_change_that_could_not_be_stored_may_be_tried_again(tenants: DeskWorld) -> None:
    tenants.service.fail_at("append ControlChange", Unreachable("Pulsar is gone."))
    with pytest.raises(Unreachable, match=r"Pulsar is gone\."):
        tenants.desks().tasks.change("own", Changes(weight=0.5), None)


@pytest.mark.parametrize(
    ("changes", "named"), [(Changes(tier="high"), "tiers up to medium"), (Changes(weight=3), "weight up to 2")]
)
def test_change_beyond_the_policy_is_refused(tenants: DeskWorld, changes: Changes, named: str) -> None:
    tenants.allow(tier="medium", weight=2.0)
    desk, chosen = tenants.desks().tasks, TaskFilter(tier="high")
    with pytest.raises(InvalidInput, match=named):
        desk.change("own", changes, "Other")
    for call in (desk.change_many, desk.preview_change):
        with pytest.raises(InvalidInput, match=named):
            call(chosen, changes)
    assert tenants.audit() == []


# ------------------------------------------------------------------ many tasks
def test_empty_filter_is_refused_before_it_is_clipped_to_the_app(tenants: DeskWorld) -> None:
    for call in ("change_many", "preview_change"):
        error = refusal(getattr(tenants.desks().tasks, call), TaskFilter(), Changes(weight=0.5))
        assert (type(error), error.cause) == (InvalidInput, "The filter is empty, so it would select all tasks.")


@pytest.mark.parametrize(
    "chosen", [TaskFilter(tier="high"), TaskFilter(channel="log"), TaskFilter(state="running"), TaskFilter(app="shop")]
)
def test_filter_selects_nothing_of_other_apps(tenants: DeskWorld, chosen: TaskFilter) -> None:
    result = tenants.desks().tasks.change_many(chosen, Changes(weight=0.5))
    assert set(result.changed) == {"own", "both", "~plain", "~news--odd"}
    assert {entry.app for entry in tenants.audit()} == {"shop"}


def test_filter_by_prefix_means_ids_as_the_key_sees_them(tenants: DeskWorld) -> None:
    desk = tenants.desks().tasks
    assert desk.change_many(TaskFilter(id_prefix="b"), Changes(weight=0.5)).changed == ("both",)
    assert desk.change_many(TaskFilter(id_prefix="~p"), Changes(weight=0.5)).changed == ("~plain",)
    for prefix in ("theirs", "~s", "~shop--", "~the"):
        assert desk.change_many(TaskFilter(id_prefix=prefix), Changes(weight=0.25)).changed == ()


def test_list_of_ids_with_a_foreign_one_changes_nothing(tenants: DeskWorld) -> None:
    for ids in (("own", "taken"), ("~theirs", "own"), ("own", "nowhere")):
        with pytest.raises(NotFound):
            tenants.desks().tasks.change_many(TaskFilter(ids=ids), Changes(weight=0.5))
    assert tenants.audit() == []


def test_foreign_app_in_a_filter_does_not_exist(tenants: DeskWorld) -> None:
    for app in ("news", "nowhere"):
        error = refusal(tenants.desks().tasks.change_many, TaskFilter(app=app), Changes(weight=0.5))
        assert (type(error), error.cause) == (NotFound, f"There is no app {app}.")


def test_tasks_that_could_not_be_changed_are_named_as_the_key_does(tenants: DeskWorld) -> None:
    desk = tenants.desks().tasks
    for id_ in ("own", "~plain"):
        desk.cancel(id_, 0.0)
    chosen = TaskFilter(ids=("own", "~plain", "both"))
    reasons = {id_: f"Task {id_} is cancelled and accepts no more changes." for id_ in ("own", "~plain")}
    assert desk.preview_change(chosen, Changes(weight=0.5)).plan.refused == reasons
    result = desk.change_many(chosen, Changes(weight=0.5))
    assert (result.changed, result.failed) == (("both",), reasons)


def test_preview_names_own_tasks_and_says_of_others_only_whether_there_are_any(tenants: DeskWorld) -> None:
    tenants.client.set_capacity(1)
    shown = tenants.desks().tasks.preview_change(
        TaskFilter(ids=("own", "both", "~plain", "~news--odd")), Changes(weight=0.001)
    )
    assert {step.task.id for step in shown.plan.steps} == {"own", "both", "~plain", "~news--odd"}
    assert {effect.app for effect in shown.effects} <= {"shop"}
    assert {effect.task for effect in shown.effects} <= {"own", "both", "~plain", "~news--odd"}
    assert shown.moves_others
    seen = tenants.operator().tasks.preview_change(TaskFilter(app="shop"), Changes(weight=0.001))
    assert "news" in {effect.app for effect in seen.effects}
    assert not seen.moves_others


# ------------------------------------------------------------------ why
def test_why_names_kinds_of_causes_and_no_names(tenants: DeskWorld) -> None:
    causes = "cap:quota/secret-group=50 cap:channel/log=40 cap:app_channel/shop/log=30 tier_share=10"
    view, now_ms = tenants.service.view, tenants.service.clock.wall_ms()
    tenants.service.clock.advance(1)
    times = ("why_from", now_ms, "why_ms", now_ms + 200)
    view.command("HSET", view.keys.task("shop--own"), "why", causes, *times)
    explained = tenants.desks().tasks.why("own")
    assert explained.task == "own"
    rows = why_fields(explained, advises=False)
    assert {"cap:quota", "cap:channel", "cap:app_channel", "tier_share"} <= {row["cause"] for row in rows["parts"]}
    assert "the cap of its quota group held it back" in {row["meaning"] for row in rows["parts"]}
    assert "secret-group" not in json.dumps(rows)
    assert {row["advice"] for row in rows["parts"]} <= {""}


def test_several_tasks_are_explained_as_each_of_them_is_without_those_of_others(tenants: DeskWorld) -> None:
    tenants.client.pause_channel("log", app="shop")
    desk, own = tenants.desks().tasks, ["own", "both", "~plain"]
    whys = desk.whys([*own, "nowhere", "theirs", "taken", "~news--own"])
    assert sorted(whys, key=lambda why: own.index(why.task)) == [desk.why(id_) for id_ in own]
    assert {why.now for why in whys} == {"flow_paused"}


# ------------------------------------------------------------------ rights
def test_key_without_the_scope_is_refused_whatever_it_names(tenants: DeskWorld) -> None:
    reader = tenants.desks(scopes={Scope.READ}).tasks
    for name in ("weight", "edit", "cancel", "bulk"):
        for id_ in ("own", "taken", "nowhere"):
            with pytest.raises(Forbidden, match="needs the scope control"):
                CALLS[name](reader, id_)
