"""Records are kept until they are stored, whatever becomes of their producer and of who waits for them."""

from typing import Any

import pulsar
import pytest

from backends.pulsar import record_producer
from backends.pulsar.record_producer import RecordProducer
from dispatcher.model.errors import InvalidInput
from dispatcher.retry import Backoff
from tests.unit.dispatch.backends.raw_client import Client
from tests.unit.dispatch.consumers.fakes import eventually


def test_a_record_without_receipt_is_published_by_the_next_producer_however_long_that_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_producer, "_ATTEMPTS", Backoff(0.001, 0.002))
    client: Any = Client(pulsar.Result.Timeout)
    producer = RecordProducer(client, "persistent://t/system/control")
    client.failing = 3
    reported: list[tuple[Exception | None, str]] = []
    producer.publish(b"a", lambda *answer: reported.append(answer))
    eventually(lambda: bool(reported))
    assert reported == [(None, f"{1:020d}:{2:020d}:{1:06d}")]
    assert (client.bodies, client.failing) == ([b"a", b"a"], 0)
    assert producer.close()


def test_a_record_that_never_gets_a_receipt_is_published_by_another_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_producer, "_ATTEMPTS", Backoff(0.001, 0.002))
    client: Any = Client(None)
    producer = RecordProducer(client, "persistent://t/system/control")
    reported: list[tuple[Exception | None, str]] = []
    producer.publish(b"a", lambda *answer: reported.append(answer))
    client.checks.make(record_producer.CHECKS - 1)
    assert client.bodies == [b"a"]
    client.checks.make()
    eventually(lambda: bool(reported))
    assert [error for error, _ in reported] == [None]
    assert client.bodies == [b"a", b"a"]
    assert producer.close()
    assert not client.checks


def test_who_does_not_take_a_receipt_keeps_no_other_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    client: Any = Client()
    producer = RecordProducer(client, "persistent://t/system/control")

    def refuse(_error: Exception | None, _position: str) -> None:
        raise RuntimeError("not now")

    producer.publish(b"a", refuse)
    assert producer.append(b"b", 1.0)
    assert "could not be processed" in caplog.text
    assert producer.close()


@pytest.mark.parametrize("result", [pulsar.Result.MessageTooBig, pulsar.Result.InvalidMessage])
def test_a_record_that_is_refused_for_itself_fails_alone(result: Any) -> None:
    client: Any = Client(result)
    producer = RecordProducer(client, "persistent://t/system/dead-letters")
    reported: list[tuple[Exception | None, str]] = []
    producer.publish(b"large", lambda *answer: reported.append(answer))
    producer.publish(b"small", lambda *answer: reported.append(answer))
    ((refused, _), (stored, position)) = reported
    assert isinstance(refused, InvalidInput)
    assert not refused.retryable
    assert stored is None
    assert position
    assert client.bodies == [b"large", b"small"]
    assert producer.close()
