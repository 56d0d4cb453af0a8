"""The control topic: the truth about tasks and controls, written before any caller gets an answer.

The client's `flush_async` is not used anywhere, because it can deadlock: it waits for the producer's lock while it
holds Python's, and a thread that holds the producer's lock needs Python's to drop a callback. Batches are sent after a
short delay instead.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Any

import _pulsar
import pulsar

from backends.pulsar.client import failure_of, let_go, position_of, record_producer
from backends.pulsar.topic_reader import TopicReader
from dispatcher.wire.control import ControlRecord, encode_control
from dispatcher.wire.topics import Topics


class ControlTopic:
    """Implements ControlLog. Thread-safe; records appended at the same time are stored in one batch."""

    def __init__(self, client: pulsar.Client, topics: Topics, timeout_s: float = 10.0) -> None:
        """timeout_s: how long to wait for a receipt. Raises Unreachable, NotFound (not provisioned), Refused."""
        self._client = client
        self._topic = topics.control
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._producer: Any = None
        self._open()

    def append(self, record: ControlRecord) -> str:
        """Store a record and return its position.

        Raises Unreachable: the record is then not stored, or it is stored already and only the answer was lost. It is
        never stored later, and appending it again is safe.
        """
        return self.append_many([record])[0]

    def append_many(self, records: Sequence[ControlRecord]) -> list[str]:
        """Store the records in this order, with one wait for all; return their positions."""
        producer = self._open()
        receipts = [_sent(producer, record) for record in records]
        late = wait(receipts, 2 * self._timeout_s).not_done
        answers = [(pulsar.Result.Timeout, None)] if late else [receipt.result() for receipt in receipts]
        for result, _ in answers:
            error = failure_of(result, f"append to {self._topic}", self._client)
            if error is not None:
                self._drop(producer)
                raise error
        return [position_of(message_id) for _, message_id in answers]

    def reader(self, after: str | None = None) -> TopicReader:
        """Return a reader of the records after a position (None: from the first). Decode them with `decode_control`."""
        return TopicReader(self._client, self._topic, after)

    def close(self) -> None:
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            let_go(producer)

    def _open(self) -> Any:
        with self._lock:
            if self._producer is None:
                # A record must not be stored long after its append failed: a late "pause" would override the "resume"
                # that came after it. So the client gives up before the caller does.
                self._producer = record_producer(self._client, self._topic, round(self._timeout_s * 1000))
            return self._producer

    def _drop(self, producer: Any) -> None:
        """Discard the producer; the next append creates a new one. Some failures leave a producer that never works
        again."""
        with self._lock:
            if self._producer is producer:
                self._producer = None
        let_go(producer)


def _sent(producer: Any, record: ControlRecord) -> Future[tuple[Any, Any]]:
    """Send a record. The client's thread gives the result and the message's id."""
    receipt: Future[tuple[Any, Any]] = Future()
    builder = _pulsar.MessageBuilder()
    builder.content(encode_control(record))
    producer.send_async(builder.build(), lambda result, message_id: receipt.set_result((result, message_id)))
    return receipt
