"""The control topic: the truth about tasks and controls, written before any caller gets an answer.

The client's `flush_async` is not used anywhere, because it can deadlock: it waits for the producer's lock while it
holds Python's, and a thread that holds the producer's lock needs Python's to drop a callback. Batches are sent after a
short delay instead.
"""

import threading
from collections.abc import Sequence
from typing import Any

import _pulsar
import pulsar

from backends.pulsar.client import failure_of, let_go, position_of, translated
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
        receipts = _Receipts(len(records))
        producer = self._open()
        for index, record in enumerate(records):
            builder = _pulsar.MessageBuilder()
            builder.content(encode_control(record))
            producer.send_async(builder.build(), receipts.callback(index))
        positions, failure = receipts.wait(2 * self._timeout_s)
        error = failure_of(failure, f"append to {self._topic}", self._client)
        if error is None:
            return positions
        self._drop(producer)
        raise error

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
                self._producer = self._create()
            return self._producer

    def _create(self) -> Any:
        with translated(f"create a producer for {self._topic}", self._client):
            return self._client.create_producer(
                self._topic,
                # A record must not be stored long after its append failed: a late "pause" would override the "resume"
                # that came after it. So the client gives up before the caller does.
                send_timeout_millis=round(self._timeout_s * 1000),
                max_pending_messages=0,
                batching_enabled=True,
                batching_max_messages=100,
                batching_max_publish_delay_ms=1,
                compression_type=pulsar.CompressionType.LZ4,
            )._producer

    def _drop(self, producer: Any) -> None:
        """Discard the producer; the next append creates a new one. Some failures leave a producer that never works
        again."""
        with self._lock:
            if self._producer is producer:
                self._producer = None
        let_go(producer)


class _Receipts:
    """Collects the answers to several messages. Callbacks run in the client's thread and cannot fail."""

    def __init__(self, count: int) -> None:
        self._answers: list[tuple[Any, Any] | None] = [None] * count
        self._missing = count
        self._lock = threading.Condition()

    def callback(self, index: int) -> Any:
        def answered(result: Any, message_id: Any) -> None:
            with self._lock:
                self._answers[index] = (result, message_id)
                self._missing -= 1
                if not self._missing:
                    self._lock.notify_all()

        return answered

    def wait(self, timeout_s: float) -> tuple[list[str], Any]:
        """Return (positions, Ok), or ([], the first failure)."""
        with self._lock:
            if not self._lock.wait_for(lambda: not self._missing, timeout_s):
                return [], pulsar.Result.Timeout
            answers = [answer for answer in self._answers if answer is not None]
        failures = [result for result, _ in answers if result != pulsar.Result.Ok]
        return ([], failures[0]) if failures else ([position_of(id_) for _, id_ in answers], pulsar.Result.Ok)
