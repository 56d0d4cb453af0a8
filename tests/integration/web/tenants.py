"""Tenants of a running API: keys, and requests for every route in the names of own and foreign tasks."""

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dispatcher.access.actions import ACTIONS
from dispatcher.model.task import PushTask
from producers.client import PushClient
from tests.integration.web.api_server import ApiServer
from tests.integration.worker_crew import eventually
from web.routing import Route

SECRET = "zebra"
"""It is in everything that another app has, and in nothing else."""
QUERIES: Mapping[str, str] = {"letters.list": "?state=all&task={id}", "tasks.failures": "?by_reason=true"}
BODIES: Mapping[str, Any] = {
    "tasks.set": {"weight": 0.5},
    "tasks.change": {"filter": {"ids": ["{id}"]}, "weight": 0.5, "dry_run": True},
    "letters.replay": {"task": "{id}"},
    "letters.drop": {"task": "{id}"},
    "keys.create": {"scopes": ["read"]},
    "service.set": {"capacity": 5},
    "channel.set": {"paused": True},
    "app.set": {"weight": 5},
}


@dataclass(frozen=True)
class Reply:
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def document(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Tenant:
    """The holder of a key."""

    server: ApiServer
    key: str

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        given = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **headers}
        with closing(http.client.HTTPConnection(*self.server.address, timeout=60)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), given)
            response = connection.getresponse()
            is_stream = response.headers.get("Content-Type", "").startswith("text/event-stream")
            text = response.read1() if is_stream else response.read()  # of a stream, the present states
            return Reply(response.status, dict(response.headers), text.decode())

    def submit(self, targets: list[str], **fields: Any) -> Reply:
        return self.ask("POST", "/v1/tasks", {"channel": "log", "message": "Hi", "targets": targets} | fields)

    def ask_route(self, route: Route, id_: str) -> Reply:
        """Ask for a route in the name of a task."""
        names = {"id": id_, "channel": "log", "app": SECRET}
        path = route.path.format(**{name: quote(value, safe="") for name, value in names.items()})
        query = QUERIES.get(route.action, "").format(id=quote(id_, safe=""))
        return self.ask(route.method, path + query, _named(BODIES.get(route.action), id_))


def names_task(route: Route) -> bool:
    """Return whether `Tenant.ask_route` names a task that may exist."""
    texts = (route.path, QUERIES.get(route.action, ""), json.dumps(BODIES.get(route.action)))
    return any("{id}" in text for text in texts) and ACTIONS[route.action].in_app


def _named(body: Any, id_: str) -> Any:
    return None if body is None else json.loads(json.dumps(body).replace('"{id}"', json.dumps(id_)))


def tenant(server: ApiServer, client: PushClient, app: str | None, *scopes: str) -> Tenant:
    """Return the holder of a new key, which the server knows."""
    new = Tenant(server, client.access.create(app, scopes).token)
    eventually(lambda: new.ask("GET", "/v1/tasks").status != 401, 30, "the key is known")
    return new


def submit_as(client: PushClient, app: str, id_: str) -> str:
    """Submit a task as Python does, which waits for a go, and whose one target fails or is invalid."""
    task = PushTask(id=id_, app=app, tier="high", channel="log", message=f"of {app}")
    return client.submit(task, [f"{app}-{number}" for number in range(3)], first=1).id
