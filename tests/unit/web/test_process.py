"""A process of the API before it serves."""

import gc
from collections.abc import Iterator
from typing import NoReturn

import pytest

from dispatcher.model.errors import Refused
from fairlane.settings import Settings
from fairlane.worker.process.stop_signal import StopSignal
from web.listening import ServerSettings
from web.process import run_servers

SERVERS = {
    "pulsar": {"url": "pulsar://127.0.0.1:6650", "admin_url": "http://127.0.0.1:8080"},
    "redis": {"url": "redis://127.0.0.1:6379"},
}


@pytest.fixture
def collector() -> Iterator[None]:
    """Leave the garbage collector as it was."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("collector")
def test_garbage_collector_looks_at_nothing_that_a_process_has_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full collection stops all threads: the modules alone are 300,000 objects."""
    frozen = list[tuple[int, int]]()

    def open_door(_: Settings) -> NoReturn:
        frozen.append((gc.get_freeze_count(), len(gc.get_objects())))
        raise Refused("The door stays closed.")

    monkeypatch.setattr("web.process.FrontDoor", open_door)
    monkeypatch.setattr("web.process.stop_on_signals", StopSignal)
    with pytest.raises(Refused):
        run_servers(Settings.model_validate(SERVERS), ServerSettings(port=0))
    ((count, rest),) = frozen
    assert count > 100 * rest
