"""A write that failed: its caller hears what ended it, whatever else is away by then."""

import pytest

pytest.importorskip("pyspark")

from dispatcher.model.errors import Unreachable
from producers.ports import Services
from spark_jobs.source import source
from tests.unit.producers.fake_service import FakeService
from tests.unit.spark_jobs.tables import attempt, people, target


class Connected:
    """In place of a connection. services: what it gives, or raises."""

    def __init__(self, services: Services | Unreachable) -> None:
        self._services = services
        self.closed = False

    def services(self) -> Services:
        if isinstance(self._services, Unreachable):
            raise self._services
        return self._services

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("gone", "message"), [(False, "sale"), (True, "The state of the tasks cannot be read: Pulsar is away. Look.")]
)
def test_what_stands_is_told_if_it_can_be(
    gone: bool, message: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, to = FakeService(), target()
    written = attempt(world.services(), to, people(0, 4))
    connected = Connected(Unreachable("Pulsar is away.", "Look.") if gone else world.services())
    monkeypatch.setattr(source, "Connection", lambda _servers: connected)
    source.BatchWriter(to).abort([source.Message(written), None])
    assert "The job failed." in caplog.text
    assert message in caplog.text
    assert connected.closed
