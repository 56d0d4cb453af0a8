"""`fairlane api` as a process on one core, and the memory that it takes."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.stage import Stage, wait_for

APP = "bench"
START_S = 60.0
STOP_S = 30.0
_PEAK = "5"
"""Written to /proc/PID/clear_refs, it resets the maximum of memory."""


@dataclass
class ApiServer:
    """A server of the API, and a key for it."""

    port: int
    token: str
    process: "subprocess.Popen[bytes]"

    @property
    def pid(self) -> int:
        return self.process.pid

    def resident_mib(self) -> float:
        """Return the resident memory now."""
        return _status_mib(self.pid, "VmRSS:")

    def peak_mib(self) -> float:
        """Return the maximum resident memory since `forget_peak`, or since the start."""
        return _status_mib(self.pid, "VmHWM:")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text(_PEAK)

    def connection(self, timeout_s: float = 60.0) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)

    def headers(self, **others: str) -> dict[str, str]:
        """Return the headers of a request. others: with _ for -."""
        given = {name.replace("_", "-"): text for name, text in others.items()}
        return {"Authorization": f"Bearer {self.token}", **given}

    def ask(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        """Make one request on a connection of its own; return the status and the answer. Raises OSError."""
        connection = self.connection()
        try:
            body = None if document is None else msgspec.json.encode(document)
            connection.request(method, path, body, self.headers(Content_Type="application/json"))
            answer = connection.getresponse()
            return answer.status, msgspec.json.decode(answer.read())
        finally:
            connection.close()

    def is_ready(self) -> bool:
        with suppress(OSError):
            return self.ask("GET", "/readyz")[0] == HTTPStatus.OK
        return False

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def one_core() -> Iterator[None]:
    """Bind this thread to the last core, and with it the processes and threads that it starts."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def api_server(scene: Stage, token: str, port: int = 0) -> Iterator[ApiServer]:
    """Yield a server on a core of its own once it is ready. port: 0 for any that is free."""
    port = port or free_port()
    log = scene.crew.logs / "api.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "fairlane", "api", "--port", str(port)]
    with log.open("ab") as file, one_core():
        process = subprocess.Popen(command, env=scene.crew.environment, stdout=file, stderr=file)
    server = ApiServer(port, token, process)
    try:
        wait_for("the API to be ready", server.is_ready, START_S)
        yield server
    finally:
        server.stop()


def key_of(scene: Stage) -> str:
    """Make a key of the app, which may do what the benchmark does, as often as it can."""
    scene.client.access.set_policy(APP, {"channels": ["null", "count"], "requests_s": 10_000})
    return scene.client.access.create(APP, ["submit", "read", "control"]).token


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _status_mib(pid: int, field: str) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split(field)[1].split()[0]) / 1024
