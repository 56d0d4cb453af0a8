"""Real processes of `fairlane api` for the tests."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlane.settings import Settings
from tests.integration.worker_crew import START_S, environment, eventually


@dataclass
class ApiServer:
    """One that was started. key: what its requests are made with."""

    process: "subprocess.Popen[bytes]"
    log: Path
    key: str = ""

    @property
    def address(self) -> tuple[str, int]:
        host, port = re.findall(r"listening at https?://([^\s:]+):(\d+)", self.log.read_text())[0]
        return host, int(port)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return status and document of the answer."""
        with closing(http.client.HTTPConnection(*self.address, timeout=60)) as connection:
            return answer_to(connection, method, path, body, {"Authorization": f"Bearer {self.key}", **headers})

    def say(self, request: bytes) -> bytes:
        """Return all that is answered to these bytes until the server closes the connection."""
        answers = b""
        with socket.create_connection(self.address, timeout=60) as connection, suppress(ConnectionResetError):
            connection.sendall(request)
            while more := connection.recv(65_536):
                answers += more
        return answers

    def end(self, within_s: float = 60.0) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)


def answer_to(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any, headers: dict[str, str]
) -> tuple[int, Any]:
    """Return status and document of the answer on a connection."""
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read() or b"null")


def started(settings: Settings, folder: Path, *options: str) -> ApiServer:
    """Start a server, without waiting for it."""
    log = folder / "api.log"
    command = [sys.executable, "-m", "fairlane", "api", *options]
    with log.open("ab") as output:
        process = subprocess.Popen(command, env=environment(settings), cwd=folder, stdout=output, stderr=output)
    return ApiServer(process, log)


@contextmanager
def api_server(settings: Settings, folder: Path, *options: str) -> Iterator[ApiServer]:
    """Serve on a free port for the time of the block."""
    server = started(settings, folder, "--port", "0", *options)
    try:
        eventually(
            lambda: server.process.poll() is not None or "listening" in server.log.read_text(), START_S, "it listens"
        )
        assert server.process.poll() is None, server.log.read_text()
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def new_key(settings: Settings, *options: str) -> str:
    """Return a key that the command line made."""
    command = [sys.executable, "-m", "fairlane", "key", "create", *options]
    made = subprocess.run(command, env=environment(settings), stdout=subprocess.PIPE, check=True, timeout=60)
    return made.stdout.decode().strip()
