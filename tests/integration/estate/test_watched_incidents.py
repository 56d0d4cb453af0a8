"""CAPTURE on a real estate: a bookie that stops under load is captured with the lanes that it stopped.

Its name lets it run after the other tests of the estate, since brokers avoid the bookie for two minutes afterwards.
"""

import json
import tarfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.system_clock import SystemClock
from benchmarks.estate.servers import EstateServers
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from estate.capture import take_capture
from estate.rules.incidents import Incident
from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.pulsar_helpers import bookies_of
from tests.integration.worker_crew import eventually

SECRET = "a-s3cret-of-this-test"
LANES = 4
STALL_S = 1.0


@pytest.fixture
def settings(estate_settings: Settings, tmp_path: Path) -> Settings:
    changed: dict[str, Any] = {
        "home": tmp_path,
        "channels": {"mine": {"api_key": SECRET}},
    }
    return estate_settings.model_copy(update=changed)


class Load:
    """Submissions that go on until they are ended."""

    def __init__(self, client: PushClient) -> None:
        self._client = client
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(LANES)
        self._submitting = [self._pool.submit(self._submit, f"load-{number}") for number in range(LANES)]

    def _submit(self, name: str) -> int:
        task = PushTask(id=name, app="a", tier=Tier.HIGH, channel="null", message="m", expected_targets=1_000_000)
        handle = self._client.submit(task, self._targets(), on_warning=lambda _: None)
        assert handle.result is not None
        return handle.result.accepted

    def _targets(self) -> Iterator[str]:
        number = 0
        while not self._ended.is_set():
            yield f"token-{number}"
            number += 1
            if number % 500 == 0:
                time.sleep(0.02)

    def end(self) -> None:
        """Let all submissions complete, or raise their errors."""
        self._ended.set()
        for each in self._submitting:
            assert each.result(60) > 0
        self._pool.shutdown()


def contents(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as opened:
        files = [(member.name.partition("/")[2], opened.extractfile(member)) for member in opened]
        return {name: file.read().decode() for name, file in files if file is not None}


def test_a_bookie_that_stops_under_load_is_captured_with_the_lanes_it_stopped(
    settings: Settings, estate: EstateServers
) -> None:
    with PushClient.connect(settings) as client, closing(PulsarAdmin(settings.pulsar)) as admin:
        load = Load(client)
        eventually(lambda: len(client.tasks()) == LANES, 20, "all tasks are there")
        lane = client.task("load-0").progress().lane
        eventually(lambda: len(bookies_of(admin, lane)) == 2, 20, "the lane has its bookies")
        names = {estate.bookie_id(name): name for name in estate.names() if name.startswith("bookie")}
        stopped = bookies_of(admin, lane)[0]
        with estate.paused(names[stopped]):
            time.sleep(STALL_S)
            incident = Incident(f"bookie {stopped} is slow", stopped, "load-0", (lane,))
            files = contents(take_capture(settings, incident, SystemClock()))
        load.end()
    manifest = json.loads(files["manifest.json"])
    assert manifest["reason"] == f"bookie {stopped} is slow"
    (internal,) = [text for name, text in files.items() if name.endswith("-load-0/internal-stats.json")]
    assert stopped in internal
    assert f"bookies/{stopped.replace(':', '-')}/metrics" in manifest["missing"]
    assert json.loads(files["fairlane/task.json"])["state"] == "running"
    assert not [name for name, text in files.items() if SECRET in text]
    assert "channels" in files["fairlane/settings.json"]
