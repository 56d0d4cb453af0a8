"""Calls of a running `fairlane api`, right or wrong, and what is answered."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import Any

from fairlane.settings import Settings
from tests.integration.web.api_server import api_server
from tests.integration.worker_crew import START_S, eventually


@dataclass(frozen=True)
class Reply:
    """The answer to a request."""

    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def pointers(self) -> list[str]:
        """The fields that a problem names."""
        return [error["pointer"] for error in self.document["errors"]]


@dataclass(frozen=True)
class Api:
    """Calls a server with a key."""

    port: int
    log: Path
    key: str = ""

    def with_key(self, key: str) -> "Api":
        """Return the same with another key, once the server knows it."""
        api = replace(self, key=key)
        eventually(lambda: api("GET", "/v1/tasks?limit=1").status != 401, START_S, "the key is known")
        return api

    def __call__(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request. A body that is not bytes is sent as JSON."""
        given = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        encoded = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, encoded, {**given, **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())


@contextmanager
def serving(settings: Settings, folder: Path) -> Iterator[Api]:
    """Serve until the end of the block, from when requests can be served."""
    with api_server(settings, folder) as server:
        api = Api(server.address[1], server.log)
        eventually(lambda: api("GET", "/readyz").status == 200, START_S, "the API is ready")
        yield api
