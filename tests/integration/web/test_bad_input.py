"""Input that is wrong is refused with the field at fault; input that is odd is stored or refused, and shown as text."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.web.calls import Api, Reply, serving
from tests.integration.worker_crew import Crew

TASK: dict[str, Any] = {"channel": "log", "message": "hi", "targets": ["t-1"]}
HOSTILE = {
    "markup": "<script>alert(1)</script>",
    "right to left": "sale\u202egnp.exe",
    "control characters": "a\x00b\x1b[31mc\r\nSet-Cookie: a=b",
    "emoji": "sale 🎉👩‍👩‍👧",
    "zero width": "sa\u200ble",
    "path": "../../etc/passwd",
    "format": "{id} %s ${jndi:ldap://x} {{name}}",
    "lone quote": "' OR 1=1 --",
    "long": "x" * 5_000,
}


@pytest.fixture(scope="module")
def server(module_settings: Settings, members: Crew, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serving(module_settings, tmp_path_factory.mktemp("api")) as api:
        yield api
        assert "failed" not in api.log.read_text()  # as an answer of 500 is logged


@pytest.fixture(scope="module")
def access(module_settings: Settings, members: Crew) -> Iterator[PushClient]:
    members.await_view()
    with PushClient.connect(module_settings) as client:
        client.access.set_policy("shop", {"channels": ["log"], "requests_s": 10_000})
        client.access.set_policy(
            "bounded", {"channels": ["log"], "tier": "medium", "weight": 0.5, "targets": 3, "ttl_s": 3600}
        )
        yield client


@pytest.fixture(scope="module")
def shop(server: Api, access: PushClient) -> Api:
    return server.with_key(access.access.create("shop", ["submit", "read", "control"]).token)


@pytest.fixture(scope="module")
def bounded(server: Api, access: PushClient) -> Api:
    return server.with_key(access.access.create("bounded", ["submit", "read", "control"]).token)


@pytest.fixture(scope="module")
def operator(server: Api, access: PushClient) -> Api:
    return server.with_key(access.access.create(None, ["operator"]).token)


def check_shown_as_text(reply: Reply) -> None:
    """Whatever is in it: no browser takes it for a page, and no header was added."""
    assert reply.headers["Content-Type"].partition(";")[0] in ("application/json", "application/problem+json")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in reply.headers


# ------------------------------------------------------------- what is not JSON, or does not fit
@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        (b"", 400, "no JSON"),
        (b"tier=high", 400, "no JSON"),
        (b'{"channel": "log",', 400, "no JSON"),
        (b'{"channel": "log", "message": "hi", "weight": NaN}', 400, "no JSON"),
        (b'{"channel": "log", "message": "hi", "weight": -Infinity}', 400, "no JSON"),
        (b'{"channel": "log", "message": "hi", "weight": 1e400}', 422, "/weight"),
        (b'{"channel": "log", "message": {"body": "hi", "number": 1e400}}', 422, "/message"),
        (b'{"channel": "log", "message": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", 400, "nested too deeply"),
        (b'{"channel": "log", "message": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, 400, "nested too deeply"),
        (b'{"channel": "log", "channel": "log", "message": "hi"}', 422, "'channel'"),
        (b'{"channel": "log", "message": {"body": "hi", "b\\u006fdy": "ho"}}', 422, "'body'"),
        (b'{"channel": "log", "message": "hi", "colour": 1}', 422, "/colour"),
        (b'{"channel": "log", "message": "hi", "targets": [{"target": "a", "colour": 1}]}', 422, "/targets/0/colour"),
        (b'{"channel": "log", "message": "hi", "targets": ["a", {"target": "b", "vars": 1}]}', 422, "/targets/1/vars"),
        (b'{"channel": 1, "message": "hi"}', 422, "/channel"),
        (b'{"channel": "log"}', 422, "/message"),
        (b'{"channel": "log", "message": "hi", "chunk": 1.5}', 422, "/chunk"),
        (b'{"channel": "log", "message": "hi", "chunk": 100000000000000000000000}', 422, "/chunk"),
        (b'{"channel": "log", "message": "hi", "hold_until_sealed": "yes"}', 422, "/hold_until_sealed"),
        (b'{"channel": "log", "message": "hi", "start_at": "tomorrow", "targets": ["a"]}', 422, "/start_at"),
        (b'{"channel": "log", "message": "hi", "ttl_s": "soon", "targets": ["a"]}', 422, "/ttl_s"),
        (b'{"channel": "log", "message": "hi", "tier": "urgent", "targets": ["a"]}', 422, "/tier"),
        (b'{"channel": "log", "message": "hi", "duplicates": "some", "targets": ["a"]}', 422, "duplicates"),
        (b'{"channel": "log", "message": "hi", "first": -1, "targets": ["a"]}', 422, "first"),
        (b'{"channel": "log", "message": "hi", "targets": []}', 422, "/targets"),
        (b'{"channel": "log", "message": "\\ud800", "targets": ["a"]}', 400, "no JSON"),
        (b'{"channel": "log", "message": "\xff\xfe", "targets": ["a"]}', 400, "no JSON"),
        (b"\xef\xbb\xbf{}", 400, "no JSON"),
        (b"[]", 422, "Expected `object`"),
        (b"null", 422, "Expected `object`"),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, bytes) else str(value),
)
def test_wrong_body_is_refused_and_its_field_is_named(shop: Api, body: bytes, status: int, named: str) -> None:
    reply = shop("POST", "/v1/tasks", body)
    assert (reply.status, reply.headers["Content-Type"]) == (status, "application/problem+json"), reply.body[:500]
    assert named in reply.pointers or named in reply.document["detail"], reply.document


def test_more_targets_than_a_body_may_have_are_refused(shop: Api) -> None:
    reply = shop("POST", "/v1/tasks", TASK | {"targets": [f"t-{number}" for number in range(10_001)]})
    assert (reply.status, reply.pointers) == (422, ["/targets"])


@pytest.mark.parametrize(
    ("method", "path", "body", "pointer"),
    [
        ("GET", "/v1/tasks?limit=0", None, "/limit"),
        ("GET", "/v1/tasks?limit=many", None, "/limit"),
        ("GET", "/v1/tasks?colour=red", None, "/colour"),
        ("GET", "/v1/tasks?tier=high&tier=low", None, "/tier"),
        ("GET", "/v1/tasks?tier=urgent", None, "/tier"),
        ("GET", "/v1/tasks?cursor=%00%ff", None, "/cursor"),
        ("GET", "/v1/dead-letters?since=yesterday", None, "/since"),
        ("GET", "/v1/dead-letters?since=2026-01-31T08:00:00", None, "/since"),
        ("POST", "/v1/tasks/change", {"filter": {"ids": ["a", 1]}, "paused": True}, "/filter/ids/1"),
        ("POST", "/v1/tasks/change", {"filter": {"tier": "urgent"}, "paused": True}, "/filter/tier"),
        ("POST", "/v1/tasks/change", {"filter": {"id_prefix": ""}, "paused": True}, "/filter/id_prefix"),
        ("POST", "/v1/tasks/change", {"filter": {"tier": "low"}, "weight": -1}, "/weight"),
        ("POST", "/v1/tasks/change", {"paused": True}, "/filter"),
        ("POST", "/v1/dead-letters/drop", {"task": "", "limit": 1}, "/task"),
    ],
    ids=str,
)
def test_wrong_field_is_named_by_a_pointer(shop: Api, method: str, path: str, body: Any, pointer: str) -> None:
    reply = shop(method, path, body)
    assert (reply.status, reply.pointers) == (422, [pointer]), reply.document


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/v1/apps/shop", {"policy": {"weight": 0}}, "/policy/weight"),
        ("/v1/apps/shop", {"policy": {"colour": 1}}, "/policy/colour"),
        ("/v1/apps/shop", {"policy": {"targets": "many"}}, "/policy/targets"),
        ("/v1/apps/shop", {"weight": 1e9}, "/weight"),
        ("/v1/apps/shop", {"cap": "fast"}, "/cap"),
        ("/v1/service", {"tiers": {"high": "x"}}, "/tiers"),
        ("/v1/service", {"tiers": {"urgent": 1}}, "/tiers"),
        ("/v1/service", {"sharing": "nobody"}, "/sharing"),
        ("/v1/channels/log", {"cap": -5}, "/cap"),
    ],
    ids=str,
)
def test_wrong_setting_is_named_by_a_pointer(operator: Api, path: str, body: Any, pointer: str) -> None:
    reply = operator("PATCH", path, body)
    assert (reply.status, reply.pointers) == (422, [pointer]), reply.document


# ------------------------------------------------------------- beyond the app's policy
@pytest.mark.parametrize(
    ("fields", "pointer", "bound"),
    [
        ({"channel": "fcm"}, "/channel", "allows channels: log"),
        ({"tier": "high"}, "/tier", "allows tiers up to medium"),
        ({"weight": 0.6}, "/weight", "allows weight up to 0.5"),
        ({"targets": ["a", "b", "c", "d"]}, "/targets", "allows targets up to 3"),
        ({"ttl_s": 3601}, "/ttl_s", "allows ttl_s up to 3,600"),
        ({"ttl_s": "2h"}, "/ttl_s", "allows ttl_s up to 3,600"),
    ],
    ids=str,
)
def test_task_beyond_the_policy_is_refused_with_its_bound(
    bounded: Api, fields: dict[str, Any], pointer: str, bound: str
) -> None:
    reply = bounded("POST", "/v1/tasks", TASK | {"tier": "low", "weight": 0.5, "ttl_s": 3600} | fields)
    assert reply.status == 422
    assert reply.pointers == [pointer]
    assert f"policy of app bounded {bound}" in reply.document["detail"]
    assert "fairlane app policy" in reply.document["next_step"]


def test_change_beyond_the_policy_is_refused_with_its_bound(bounded: Api) -> None:
    made = {"id": "held", "tier": "low", "weight": 0.5, "ttl_s": 3600, "hold_until_sealed": True}
    assert bounded("POST", "/v1/tasks", TASK | made).status == 201
    for change, pointer in (({"tier": "high"}, "/tier"), ({"weight": 0.6}, "/weight")):
        one = bounded("PATCH", "/v1/tasks/held", change)
        many = bounded("POST", "/v1/tasks/change", {"filter": {"ids": ["held"]}, **change})
        assert [(reply.status, reply.pointers) for reply in (one, many)] == [(422, [pointer])] * 2


# ------------------------------------------------------------- odd texts
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize(
    "field",
    [
        "id",
        "app",
        "channel",
        "tier",
        "message",
        "title",
        "target",
        "variable",
        "collapse",
        "category",
        "locale",
        "unknown",
    ],
)
def test_odd_text_in_a_task_is_stored_as_it_is_or_refused(shop: Api, field: str, text: str) -> None:
    id_ = f"odd-{field}-{list(HOSTILE.values()).index(text)}"
    fields: dict[str, dict[str, Any]] = {
        "title": {"message": {"title": text, "body": "hi"}},
        "target": {"targets": ["t-1", text]},
        "variable": {"targets": [{"target": "t-1", "vars": {text: text}}]},
        "locale": {"locales": {text: text}},
    }
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()  # a task that has ended shows no message
    reply = shop("POST", "/v1/tasks", {"id": id_, "start_at": later, **TASK, **fields.get(field, {field: text})})
    check_shown_as_text(reply)
    assert reply.status in (201, 422), reply.document
    if reply.status == 201:
        task = shop("GET", f"/v1/tasks/{id_}")
        check_shown_as_text(task)
        if field == "message":
            assert task.document["message"]["body"] == text
        if field == "title":
            assert task.document["message"]["title"] == text
        shop("POST", f"/v1/tasks/{id_}/cancel")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize(
    "path",
    [
        "/v1/tasks/{}", "/v1/tasks/{}/why", "/v1/tasks/{}/outcomes", "/v1/tasks?id_prefix={}", "/v1/tasks?cursor={}",
        "/v1/tasks?channel={}", "/v1/tasks?app={}", "/v1/dead-letters?error={}", "/v1/dead-letters?task={}",
        "/v1/invalid?channel={}", "/v1/{}",
    ],
)  # fmt: skip
def test_odd_text_in_an_address_is_not_found_or_refused(shop: Api, path: str, text: str) -> None:
    reply = shop("GET", path.format(quote(text, safe="")))
    check_shown_as_text(reply)
    assert reply.status in (200, 404, 422), reply.document


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_odd_text_of_an_operator_is_stored_as_it_is_or_refused(operator: Api, text: str) -> None:
    place = quote(text, safe="")
    replies = [
        operator("POST", "/v1/keys", {"scopes": ["read"], "app": text}),
        operator("POST", "/v1/keys", {"scopes": [text]}),
        operator("DELETE", f"/v1/keys/{place}"),
        operator("GET", f"/v1/keys?app={place}"),
        operator("GET", f"/v1/audit?app={place}"),
        operator("GET", f"/v1/apps/{place}"),
        operator("PATCH", f"/v1/apps/{place}", {"weight": 2}),
        operator("PATCH", f"/v1/apps/{place}", {"policy": {"channels": [text]}}),
        operator("GET", f"/v1/channels/{place}"),
        operator("PATCH", f"/v1/channels/{place}", {"cap": 5}),
        operator("PATCH", "/v1/service", {"sharing": text}),
        operator("POST", "/v1/tasks", TASK | {"app": text}),
    ]
    for reply in replies:
        check_shown_as_text(reply)
        assert reply.status in (200, 201, 404, 422), reply.document


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_reason_of_a_pause_is_shown_as_it_was_given_or_refused(operator: Api, text: str) -> None:
    paused = operator("PATCH", "/v1/channels/log", {"app": "elsewhere", "paused": True, "reason": text})
    assert paused.status in (200, 422), paused.document
    shown = operator("GET", "/v1/channels/log")
    check_shown_as_text(shown)
    if paused.status == 200:
        assert shown.document["paused_apps"]["elsewhere"]["reason"] == text
        check_shown_as_text(operator("GET", "/v1/audit?limit=5"))


def test_any_text_names_a_submission(shop: Api) -> None:
    for text in ("<script>", "order 4711", "x" * 255, json.dumps({"a": 1})):
        replies = [shop("POST", "/v1/tasks", TASK, {"Idempotency-Key": text}) for _ in range(2)]
        assert [reply.status for reply in replies] == [201, 200]
        assert replies[0].document["id"] == replies[1].document["id"]
    assert shop("POST", "/v1/tasks", TASK, {"Idempotency-Key": "x" * 256}).status == 422
