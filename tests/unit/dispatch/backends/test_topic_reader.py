"""Readers of a topic, however many are opened at once, and answers of Pulsar that pass."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pulsar
import pytest

from backends.pulsar import client as pulsar_client
from backends.pulsar.client import partitions_of, record_producer
from backends.pulsar.topic_reader import TopicReader
from dispatcher.model.errors import NotFound, Unreachable
from dispatcher.ports import records_to_end
from dispatcher.retry import Backoff

TOPIC = "persistent://fairlane/system/control"
STEPS = ("create", "seek", "has", "read")
PASSING = (
    pulsar.BrokerMetadataError,
    pulsar.ServiceUnitNotReady,
    pulsar.LookupError,
    pulsar.TooManyLookupRequestException,
    pulsar.ConnectError,
    pulsar.ReadError,
    pulsar.BrokerPersistenceError,
    pulsar.UnknownError,
    pulsar.ConsumerNotInitialized,
)
"""Answers that a healthy Pulsar gives for a moment."""


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulsar_client, "ASK_WAITS", Backoff(0.001, 0.01))


class SameNames:
    """A client of Pulsar's whose random names are all the same: of two readers with one subscription the broker refuses
    the second."""

    def __init__(self) -> None:
        self.subscriptions: list[str] = []

    def create_reader(self, _topic: str, _after: Any, *, subscription_role_prefix: str = "", **_: Any) -> Any:
        self.subscriptions.append(f"{subscription_role_prefix}-reader-eb9984d35a")
        return SimpleNamespace(_reader=None)


class Broken:
    """A client of Pulsar's and a topic of three messages. Calls raise the errors that are left for their step."""

    def __init__(self, **errors: list[type[Exception]]) -> None:
        self._errors = errors
        self._reader = self
        self.calls: list[str] = []
        self.open = 0
        self._next = 0

    def _call(self, step: str) -> None:
        self.calls.append(step)
        if self._errors.get(step):
            raise self._errors[step].pop(0)

    def create_reader(self, _topic: str, after: pulsar.MessageId, **_: Any) -> "Broken":
        self._call("create")
        self.open += 1
        self._next = max(0, after.entry_id() + 1)
        return self

    def seek(self, _time: int) -> None:
        self._call("seek")

    def has_message_available(self) -> bool:
        self._call("has")
        return self._next < 3

    def read_next(self, _timeout_ms: int) -> Any:
        if self._next > 2:
            raise pulsar.Timeout
        if self._next:  # the first message arrives, and then the answers fail
            self._call("read")
        self._next += 1
        number = self._next - 1
        position = pulsar.MessageId(-1, 7, number, -1)
        return SimpleNamespace(message_id=lambda: position, data=lambda: b"%d" % number, partition_key=lambda: "")

    def close(self) -> None:
        self.open -= 1

    def create_producer(self, _topic: str, **_: Any) -> Any:
        self._call("producer")
        return SimpleNamespace(_producer="made")

    def get_topic_partitions(self, topic: str) -> list[str]:
        self._call("partitions")
        return [topic]


def read_all(client: Any) -> list[bytes]:
    return [record.body for record in records_to_end(TopicReader(client, TOPIC, since_ms=1))]


def test_readers_of_one_topic_have_subscriptions_of_their_own() -> None:
    client: Any = SameNames()
    for _ in range(3):
        TopicReader(client, TOPIC)
    assert len(set(client.subscriptions)) == 3


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.__name__)
@pytest.mark.parametrize("step", STEPS)
def test_a_read_is_made_again_after_an_answer_that_passes(step: str, error: type[Exception]) -> None:
    """Every record is read once, and no reader is left open."""
    client = Broken(**{step: [error, error]})
    assert read_all(client) == [b"0", b"1", b"2"]
    assert client.open == 0


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.__name__)
@pytest.mark.parametrize(("step", "call", "made"), [("producer", record_producer, "made"),
                                                   ("partitions", partitions_of, [TOPIC])])  # fmt: skip
def test_a_write_is_begun_again_after_an_answer_that_passes(
    step: str, call: Callable[..., Any], made: Any, error: type[Exception]
) -> None:
    client = Broken(**{step: [error, error]})
    assert call(client, TOPIC) == made
    assert client.calls == [step] * 3


@pytest.mark.parametrize("step", STEPS)
def test_an_answer_that_does_not_pass_is_raised_after_a_while(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulsar_client, "ASK_AGAIN_S", 0.2)
    client = Broken(**{step: [pulsar.BrokerMetadataError] * 100})
    with pytest.raises(Unreachable, match="its metadata store fails"):
        read_all(client)
    assert client.calls.count(step) > 1
    assert client.open == 0


@pytest.mark.parametrize(
    ("error", "kind"),
    [(pulsar.TopicNotFound, NotFound), (pulsar.Timeout, Unreachable), (pulsar.AlreadyClosed, Unreachable)],
)
def test_another_answer_is_raised_at_once(error: type[Exception], kind: type[Exception]) -> None:
    client = Broken(has=[error])
    with pytest.raises(kind):
        read_all(client)
    assert client.calls.count("has") == 1
