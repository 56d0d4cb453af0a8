"""Ways into the console of a real process: the link of the terminal, and users whom a proxy names."""

import http.client
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fairlane.local_stack import STATE_FILE
from fairlane.settings import Settings
from tests.conftest import folder_of_run
from tests.integration.web.api_server import api_server
from tests.integration.worker_crew import Crew, crew, environment, eventually

HEADER = "X-Forwarded-User"


@pytest.fixture(scope="module")
def settings(module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of the local stack of this run, which its home names."""
    home = folder_of_run(tmp_path_factory) / "stack"
    if not (home / STATE_FILE).exists():
        pytest.skip("these servers are no local stack")
    return module_settings.model_copy(update={"home": home})


@pytest.fixture(scope="module")
def members(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with crew(settings, tmp_path_factory.mktemp("crew"), "w1") as made:
        made.await_view()
        yield made


def links(output: Path) -> list[str]:
    return re.findall(r"^Console .*: (http\S+/sign-in/\S+)$", output.read_text(), re.MULTILINE)


def test_link_is_printed_once_and_is_in_no_log(settings: Settings, members: Crew, tmp_path: Path) -> None:
    with api_server(settings, tmp_path, "--processes", "2", "--metrics-port", "-1") as server:
        eventually(lambda: links(server.log), 30, "the link is printed")
        (link,) = links(server.log)
        assert f"http://127.0.0.1:{server.address[1]}/sign-in/" in link
        assert server.log.read_text().count(link.rpartition("/")[2]) == 1
        with closing(http.client.HTTPConnection(*server.address, timeout=60)) as connection:
            statuses = []
            for _ in range(2):
                connection.request("POST", link[link.index("/sign-in") :], headers={"Sec-Fetch-Site": "same-origin"})
                response = connection.getresponse()
                response.read()
                statuses.append(response.status)
        assert statuses == [303, 401]


def test_link_is_printed_for_no_other_machine(settings: Settings, members: Crew, tmp_path: Path) -> None:
    with api_server(settings, tmp_path, "--behind-proxy", "--metrics-port", "-1") as server:
        eventually(lambda: server.ask("GET", "/livez")[0] == 200, 30, "it serves")
        assert "sign-in" not in server.log.read_text()


def test_user_of_a_proxy_has_the_rights_that_the_command_line_gave(
    settings: Settings, members: Crew, tmp_path: Path
) -> None:
    path = tmp_path / "api.sock"
    with api_server(settings, tmp_path, "--unix-socket", str(path), "--user-header", HEADER, "--metrics-port", "-1"):
        eventually(lambda: status(path, "ana@shop.example") == 403, 30, "an unknown user may do nothing")
        run(settings, "set", "ana@shop.example", "--scopes", "operator")
        assert "ana@shop.example" in run(settings, "list")
        eventually(lambda: status(path, "ana@shop.example") == 200, 10, "the user has rights")
        run(settings, "remove", "ana@shop.example")
        eventually(lambda: status(path, "ana@shop.example") == 403, 10, "the user has none any more")


def status(path: Path, user: str) -> int:
    """Return the status of the overview for a user of the proxy."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(
            f"GET / HTTP/1.1\r\nHost: localhost\r\n{HEADER}: {user}\r\nConnection: close\r\n\r\n".encode()
        )
        return int(connection.makefile("rb").readline().split()[1])


def run(settings: Settings, *arguments: str) -> str:
    """Return the output of `fairlane user`."""
    command = [sys.executable, "-m", "fairlane", "user", *arguments]
    made = subprocess.run(command, env=environment(settings), stdout=subprocess.PIPE, check=True, timeout=60)
    return made.stdout.decode()
