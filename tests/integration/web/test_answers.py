"""Each answer is what the OpenAPI document says of it: no field more, none missing."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web

from fairlane.settings import Settings
from producers.client import PushClient
from scripts.api_answers import ANSWERS, Problem
from tests.integration.provider import Body, provider
from tests.integration.web.calls import Api, serving
from tests.integration.worker_crew import crew, eventually
from web.routes import ROUTES

TASK: dict[str, Any] = {"channel": "log", "message": "hi", "app": "shop", "targets": ["t-1", "t-2"]}
CALLS: dict[str, list[tuple[str, str, Any]]] = {
    "tasks.submit": [("POST", "/v1/tasks", TASK | {"id": "odd", "targets": ["t-1", "t 2"]})],
    "tasks.preview": [("POST", "/v1/tasks/preview", TASK)],
    "tasks.list": [("GET", "/v1/tasks?limit=1", None), ("GET", "/v1/tasks?state=completed", None)],
    "tasks.show": [("GET", "/v1/tasks/done", None), ("GET", "/v1/tasks/held", None)],
    "tasks.set": [
        ("PATCH", "/v1/tasks/held", {"weight": 2}),
        ("PATCH", "/v1/tasks/held", {"message": "ho", "paused": True}),
    ],
    "tasks.why": [("GET", "/v1/tasks/done/why", None), ("GET", "/v1/tasks/held/why", None)],
    "tasks.failures": [("GET", "/v1/tasks/bad/failures", None), ("GET", "/v1/tasks/bad/failures?by_reason=true", None)],
    "tasks.outcomes": [("GET", "/v1/tasks/done/outcomes", None)],
    "tasks.change": [
        ("POST", "/v1/tasks/change", {"filter": {"ids": ["held"]}, "paused": False, "dry_run": True}),
        ("POST", "/v1/tasks/change", {"filter": {"ids": ["held"]}, "paused": False}),
    ],
    "tasks.cancel": [("POST", "/v1/tasks/held/cancel?wait_s=1", None)],
    "letters.list": [("GET", "/v1/dead-letters?state=all", None)],
    "letters.replay": [("POST", "/v1/dead-letters/replay", {"task": "bad", "limit": 1})],
    "letters.drop": [("POST", "/v1/dead-letters/drop", {"task": "bad"})],
    "invalid.list": [("GET", "/v1/invalid", None)],
    "service.set": [("PATCH", "/v1/service", {"tiers": {"high": 5}})],
    "service.show": [("GET", "/v1/service", None)],
    "channel.set": [
        ("PATCH", "/v1/channels/log", {"cap": "1000:50"}),
        ("PATCH", "/v1/channels/log", {"app": "elsewhere", "paused": True, "reason": "rest"}),
    ],
    "channel.show": [("GET", "/v1/channels/log", None)],
    "app.set": [("PATCH", "/v1/apps/shop", {"weight": 2, "policy": {"requests_s": 50}})],
    "app.show": [("GET", "/v1/apps/shop", None), ("GET", "/v1/apps/unknown", None)],
    "workers.list": [("GET", "/v1/workers", None)],
    "signals.show": [("GET", "/v1/signals", None)],
    "keys.create": [("POST", "/v1/keys", {"app": "shop", "scopes": ["read"], "ends_in_s": 60})],
    "keys.list": [("GET", "/v1/keys", None)],
    "keys.revoke": [("DELETE", "/v1/keys/{key}", None)],
    "audit.list": [("GET", "/v1/audit", None)],
}
"""Requests for each route, in an order in which they have something to answer."""


async def refuse(_: Body) -> web.Response:
    return web.Response(status=400, text="no such app")


@pytest.fixture(scope="module")
def operator(module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("crew")
    with provider() as there:
        there.answers["bad"] = refuse
        with (
            crew(module_settings, folder, "w1", config=f"[http]\nurl = {json.dumps(there.url)}\n"),
            serving(module_settings, folder) as api,
            PushClient.connect(module_settings) as client,
        ):
            yield api.with_key(client.access.create(None, ["operator"]).token)


def types_of(name: str) -> tuple[Any, ...]:
    types = ANSWERS[name]
    return types if isinstance(types, tuple) else (types,)


def fits(document: Any, model: Any) -> bool:
    """Return whether a document has the fields of a type, and no others."""
    try:
        return bool(json.loads(msgspec.json.encode(msgspec.convert(document, model))) == document)
    except msgspec.ValidationError:
        return False


def test_every_route_is_asked() -> None:
    streams = {"tasks.events", "events"}
    assert CALLS.keys() == {route.name or route.action for route in ROUTES} - streams


def is_ended(operator: Api, id_: str) -> bool:
    return bool(operator("GET", f"/v1/tasks/{id_}").document["finished_ms"])


def test_each_answer_is_of_its_type(operator: Api) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert operator("POST", "/v1/tasks", TASK | {"id": "held", "start_at": later}).status == 201
    assert operator("POST", "/v1/tasks", TASK | {"id": "bad", "app": "bad", "channel": "http"}).status == 201
    assert operator("POST", "/v1/tasks", TASK | {"id": "done"}).status == 201
    for id_ in ("bad", "done"):
        eventually(lambda: is_ended(operator, id_), 30, f"task {id_} ends")  # noqa: B023
    for name, calls in CALLS.items():
        for method, path, body in calls:
            if "{key}" in path:
                path = path.format(key=operator("GET", "/v1/keys?app=shop").document["rows"][0]["id"])
            reply = operator(method, path, body)
            assert reply.status in (200, 201), (name, reply.document)
            assert any(fits(reply.document, model) for model in types_of(name)), (name, reply.body)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/tasks/unknown", 404),
        ("GET", "/v1/nowhere", 404),
        ("DELETE", "/v1/tasks", 405),
        ("GET", "/v1/tasks?limit=0", 422),
    ],
)
def test_each_problem_is_of_its_type(operator: Api, method: str, path: str, status: int) -> None:
    reply = operator(method, path)
    assert reply.status == status
    assert fits(reply.document, Problem), reply.document
    assert reply.headers["X-Request-Id"] == reply.document["request_id"]
