"""`fairlane api` as a process: it serves over real servers, ends in order, and says why it does not start."""

import http.client
import os
import signal
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fairlane.cli.base import exit_codes
from fairlane.settings import Settings
from lab.fake.certificates import make_tls_files
from producers.client import PushClient
from tests.integration.web.api_server import ApiServer, answer_to, api_server, new_key, started
from tests.integration.worker_crew import Crew, eventually
from tests.unit.web.refused_requests import REFUSED


@pytest.fixture(scope="module")
def key(module_settings: Settings, members: Crew) -> str:
    """A key of an operator, in a service with two workers."""
    members.await_view()
    return new_key(module_settings, "--scopes", "operator")


@pytest.fixture
def server(module_settings: Settings, key: str, tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(module_settings, tmp_path, "--metrics-port", "0") as here:
        here.key = key
        eventually(lambda: here.ask("GET", "/readyz")[0] == 200, 30, "it is ready")
        yield here


def test_a_task_is_submitted_followed_and_cancelled(server: ApiServer) -> None:
    task = {"id": "one", "app": "shop", "channel": "log", "message": "m", "targets": ["a", "b"]}
    assert server.ask("POST", "/v1/tasks", task)[0] == 201
    eventually(lambda: server.ask("GET", "/v1/tasks/one")[1]["state"] == "completed", 60, "it is sent")
    held = {**task, "id": "two", "first": 1}
    assert server.ask("POST", "/v1/tasks", held)[0] == 201
    assert server.ask("POST", "/v1/tasks/two/cancel?wait_s=10", {})[0] == 200
    eventually(lambda: server.ask("GET", "/v1/tasks/two")[1]["state"] == "cancelled", 60, "it is cancelled")


def test_requests_that_could_be_read_in_two_ways_are_refused(server: ApiServer) -> None:
    for request in REFUSED.values():
        answers = server.say(request + b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answers.split()[1] == b"400"
        assert answers.count(b"HTTP/1.") == 1
    assert server.ask("GET", "/livez")[0] == 200


def test_metrics_are_served_on_a_port_of_their_own(server: ApiServer) -> None:
    server.ask("GET", "/v1/workers")
    url = server.log.read_text().split("metrics at ")[1].split()[0]
    with urllib.request.urlopen(url, timeout=10) as response:  # of this machine
        text = response.read().decode()
    assert 'fairlane_api_requests_total{action="workers.list",status="200"} 1.0' in text
    assert 0 <= float(text.split("fairlane_api_access_age_seconds ")[-1].split()[0]) < 5
    assert "fairlane_api_free_uploads 8.0" in text
    assert server.ask("GET", "/metrics")[0] == 404


def test_new_key_counts_at_once(server: ApiServer, module_settings: Settings) -> None:
    with PushClient.connect(module_settings) as client:
        for _ in range(10):
            server.key = client.access.create("shop", ["read"]).token
            assert server.ask("GET", "/v1/tasks/none")[0] == 404


def test_keys_are_not_in_the_log(server: ApiServer) -> None:
    for path in ("/v1/tasks", "/v1/nothing", f"/v1/tasks/{server.key}"):
        server.ask("GET", path)
    server.ask("GET", "/v1/tasks", Authorization=f"Bearer {server.key}x")
    server.say(f"GET /v1/tasks HTTP/1.1\r\nAuthorization: Bearer {server.key}\x01\r\n\r\n".encode())
    assert server.end() == 0
    assert server.key.rsplit("_", 1)[1] not in server.log.read_text()


def test_sigterm_lets_open_requests_end_and_a_second_one_changes_nothing(server: ApiServer) -> None:
    body = b'{"filter": {"app": "none"}, "weight": 2, "dry_run": true}'
    head = f"POST /v1/tasks/change HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key}\r\n"
    with socket.create_connection(server.address, timeout=60) as open_request:
        open_request.sendall(f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert open_request.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.ask("GET", "/readyz")[0] == 503, 10, "it is not ready any more")
        server.process.send_signal(signal.SIGTERM)
        open_request.sendall(body)
        answer = b"".join(iter(lambda: open_request.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in answer.lower()
    assert server.process.wait(60) == 0
    with pytest.raises(ConnectionRefusedError):
        server.ask("GET", "/livez")


def children_of(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [child for child in map(int, text.split()) if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_a_process_that_was_killed_is_started_again_and_the_port_is_served_meanwhile(
    module_settings: Settings, key: str, tmp_path: Path
) -> None:
    with api_server(module_settings, tmp_path, "--processes", "2", "--metrics-port", "-1") as server:
        server.key = key
        eventually(lambda: server.ask("GET", "/readyz")[0] == 200, 30, "it is ready")
        eventually(lambda: len(children_of(server.process.pid)) == 2, 30, "both processes run")
        dead, _ = children_of(server.process.pid)
        os.kill(dead, signal.SIGKILL)
        eventually(lambda: dead not in children_of(server.process.pid), 30, "it is gone")
        assert server.ask("GET", "/v1/workers")[0] == 200
        eventually(lambda: len(children_of(server.process.pid)) == 2, 30, "another one runs")
        assert server.end() == 0
        assert "starting it again" in server.log.read_text()


def test_processes_end_when_their_supervisor_was_killed(module_settings: Settings, key: str, tmp_path: Path) -> None:
    with api_server(module_settings, tmp_path, "--processes", "2") as server:
        server.key = key
        eventually(lambda: server.ask("GET", "/readyz")[0] == 200, 30, "it is ready")
        address = server.address
        server.process.kill()

        def is_refused() -> bool:
            try:
                socket.create_connection(address, timeout=5).close()
            except ConnectionRefusedError:
                return True
            return False

        eventually(is_refused, 60, "nobody listens any more")


def test_a_taken_port_ends_the_command_with_the_next_step(module_settings: Settings, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        for processes in ("1", "2"):
            server = started(module_settings, tmp_path, "--port", str(other.getsockname()[1]), "--processes", processes)
            assert server.process.wait(60) == exit_codes.UNREACHABLE
            assert "Choose another --port" in server.log.read_text()
            server.log.unlink()


def test_a_taken_port_of_metrics_ends_all_processes(module_settings: Settings, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for processes in ("1", "2"):
            server = started(module_settings, tmp_path, "--port", "0", "--metrics-port", port, "--processes", processes)
            assert server.process.wait(60) == exit_codes.USAGE
            assert "Metrics cannot be served" in server.log.read_text()


def test_it_serves_on_a_unix_socket_and_removes_it(module_settings: Settings, key: str, tmp_path: Path) -> None:
    path = tmp_path / "api.sock"

    class OverUnix(http.client.HTTPConnection):
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(path))

    with api_server(module_settings, tmp_path, "--unix-socket", str(path), "--processes", "2") as server:
        headers = {"Authorization": f"Bearer {key}"}

        def is_served() -> bool:
            with closing(OverUnix("localhost")) as connection:
                return answer_to(connection, "GET", "/v1/workers", None, headers)[0] == 200

        eventually(is_served, 30, "it answers")
        assert server.end() == 0
    assert not path.exists()


def test_it_speaks_tls(module_settings: Settings, key: str, tmp_path: Path) -> None:
    files = make_tls_files(tmp_path, "127.0.0.1")
    options = ("--tls-certificate", str(files.server), "--tls-key", str(files.server_key))
    with api_server(module_settings, tmp_path, *options) as server:
        context = ssl.create_default_context(cafile=files.authority)
        headers = {"Authorization": f"Bearer {key}"}

        def is_served() -> bool:
            with closing(http.client.HTTPSConnection(*server.address, timeout=60, context=context)) as connection:
                return answer_to(connection, "GET", "/v1/workers", None, headers)[0] == 200

        eventually(is_served, 30, "it answers")
        assert b"200" not in server.say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")


def test_slow_connections_keep_nobody_from_being_served(server: ApiServer) -> None:
    slow = [socket.create_connection(server.address) for _ in range(500)]
    for connection in slow:
        connection.sendall(b"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nX-")
    statuses: list[int] = []
    askers = [threading.Thread(target=lambda: statuses.append(server.ask("GET", "/v1/workers")[0])) for _ in range(20)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert statuses == [200] * 20
    for connection in slow:
        connection.close()
