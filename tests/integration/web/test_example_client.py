"""The example client in another language: it submits and follows with the API alone."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.web.api_server import ApiServer, api_server, new_key
from tests.integration.worker_crew import Crew, eventually

CLIENT = Path(__file__).resolve().parents[3] / "examples" / "upload.mjs"
NODE = shutil.which("node")


@pytest.fixture
def server(module_settings: Settings, members: Crew, tmp_path: Path) -> Iterator[ApiServer]:
    members.await_view()
    with PushClient.connect(module_settings) as client:
        client.access.set_policy("shop", {"channels": ["null"], "requests_s": 10_000})
    with api_server(module_settings, tmp_path) as here:
        here.key = new_key(module_settings, "--app", "shop", "--scopes", "submit,read")
        eventually(lambda: here.ask("GET", "/readyz")[0] == 200, 30, "it is ready")
        yield here


@pytest.mark.skipif(NODE is None, reason="no node")
def test_example_submits_targets_and_follows_them_to_their_end(server: ApiServer) -> None:
    def run(count: int) -> "subprocess.CompletedProcess[str]":
        host, port = server.address
        env = {**os.environ, "FAIRLANE_KEY": server.key, "FAIRLANE_API": f"http://{host}:{port}"}
        command = [str(NODE), str(CLIENT), str(count), "from-node", "null"]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)

    first = run(30_000)
    assert first.returncode == 0, first.stderr
    assert "from-node: 30000 targets accepted, 0 refused" in first.stdout
    assert first.stdout.rstrip().splitlines()[-1].startswith(("end ", "from-node"))
    other = run(30_001)
    assert other.returncode != 0
    assert "another audience" in other.stderr
