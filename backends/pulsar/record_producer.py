"""Appends records to one topic and keeps each until its receipt."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

import _pulsar

from backends.pulsar.client import PulsarClient, failure_of, let_go, position_of, record_producer
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.retry import Backoff

CHECK_S = 5.0
CHECKS = 4
"""A producer is replaced at this many checks in a row at which nothing was confirmed since the one before, though
something was owed: 20 to 25 s.

The client repairs lost connections by itself, but not this: while a topic moves, a broker may tell the client that it
closed a producer before it answers that it created it. The client then takes it as created, and the broker drops all
that it sends (Pulsar 4.0.8 and pulsar-client 3.13: one in some 1,500 moves of a topic).

The client's own send timeout is no help: it counts from when each message was sent. If Pulsar is slow, messages that
wait behind others exceed it although receipts come, and publishing them again makes Pulsar slower still.
"""
_ATTEMPTS = Backoff(0.1, 5.0)
"""First and longest wait before an attempt to create a producer in place of another."""
_log = logging.getLogger(__name__)
Stored = Callable[[Exception | None, str], None]
"""Called once, from any thread, with None and the record's position, or with the error. It must not raise."""
_REFUSED = frozenset({"MessageTooBig", "InvalidMessage"})
"""Results that concern a single record and do not change when it is published again. (A record that is too big is alone
in its batch: the client closes a batch at 128 kB.)"""
_log = logging.getLogger(__name__)


class Silence:
    """The checks in a row at which nothing had been confirmed.

    They are counted, and not measured, so that the stop of this process is not taken for one of Pulsar. As long as
    nothing is confirmed, each replacement waits twice as long as the one before: if storage hangs, another producer is
    no better, and each one publishes everything once more.
    """

    def __init__(self) -> None:
        self._confirmed = 0
        self._checks = 0
        self._limit = CHECKS

    def is_over_limit(self, *, owed: bool, confirmed: int) -> bool:
        """Note a check; return whether the producer is to be replaced. confirmed: the number of receipts so far."""
        if confirmed != self._confirmed or not owed:
            self._confirmed, self._checks, self._limit = confirmed, 0, CHECKS
            return False
        self._checks += 1
        if self._checks < self._limit:
            return False
        self._checks, self._limit = 0, 2 * self._limit
        return True


def replace_producer(broken: Any, attempt: Callable[[], None], closed: threading.Event) -> None:
    """Let a producer go and make another one, in a thread of its own: until an attempt succeeds or `closed` is set.

    attempt: makes the new one and goes on with it. Raises FairlaneError, and is then made again.
    """

    def run() -> None:
        let_go(broken)
        wait_s = _ATTEMPTS.first_s
        while not closed.wait(wait_s):
            try:
                attempt()
            except FairlaneError as error:
                _log.warning("%s", error)
                wait_s = _ATTEMPTS.after(wait_s)
            else:
                return

    threading.Thread(target=run, name="replace producer", daemon=True).start()


class _Record(NamedTuple):
    body: bytes
    key: str
    stored: Stored


class RecordProducer:
    """Appends records in order, and publishes those without a receipt again until they are stored.

    So there may be copies, and only closing gives up. A record that the broker refuses for its own sake fails alone,
    with an error that is not retryable. Bodies are small; callers bound the memory by waiting for receipts.
    """

    def __init__(self, client: PulsarClient, topic: str) -> None:
        """Raises Unreachable, NotFound (not provisioned), Refused."""
        self._client = client
        self._topic = topic
        # Re-entrant, because a receipt may arrive in the thread that sends.
        self._lock = threading.Condition(threading.RLock())
        self._pending: dict[int, _Record] = {}
        self._next = 0
        self._generation = 0
        self._receipts = 0
        self._silence = Silence()
        self._closed = threading.Event()
        self._producer: Any = record_producer(client, topic)
        client.checks.add(self._check, CHECK_S)

    def publish(self, body: bytes, stored: Stored, key: str = "") -> None:
        """Publish a record. key: lets readers select records without decoding them."""
        with self._lock:
            if not self._closed.is_set():
                number = self._next
                self._next += 1
                self._pending[number] = record = _Record(body, key, stored)
                if self._producer is not None:
                    self._send(number, record)
                return
        stored(self._closing(), "")

    def append(self, body: bytes, timeout_s: float, key: str = "") -> str:
        """Store a record and return its position. Raises Unreachable (the record may then be stored later), and
        InvalidInput for a record that the broker refuses."""
        answer: Future[tuple[Exception | None, str]] = Future()
        self.publish(body, lambda error, position: answer.set_result((error, position)), key)
        try:
            error, position = answer.result(timeout_s)
        except TimeoutError:
            cause = f"Pulsar did not confirm a record in {self._topic} within {timeout_s:g} s."
            raise Unreachable(cause, "Try again.") from None
        if error is not None:
            raise error
        return position

    def close(self, timeout_s: float = 5.0) -> bool:
        """Wait for receipts, then give up records still without one. Return False if there were any."""
        with self._lock:
            all_stored = self._lock.wait_for(lambda: not self._pending, timeout_s)
            self._closed.set()
            self._client.checks.remove(self._check)
            producer, self._producer = self._producer, None
            given_up, self._pending = self._pending, {}
        for record in given_up.values():
            record.stored(self._closing(), "")
        if producer is not None:
            let_go(producer)
        return all_stored

    # ------------------------------------------------------------ sending
    def _send(self, number: int, record: _Record) -> None:
        builder = _pulsar.MessageBuilder()
        builder.content(record.body)
        if record.key:
            builder.partition_key(record.key)
        self._producer.send_async(builder.build(), partial(self._answered, self._generation, number))

    def _answered(self, generation: int, number: int, result: Any, message_id: Any) -> None:
        """Handle a receipt. Runs in the client's thread, where an exception would end the process."""
        try:
            error = failure_of(result, f"append to {self._topic}", self._client)
            if error is None:
                self._receipt(number, None, position_of(message_id))
            elif result.name in _REFUSED:
                _log.error("%s The record is not published.", error)
                self._receipt(number, error, "")
            else:
                self._broken(generation, error)
        except Exception:
            _log.exception("A receipt from %s could not be processed", self._topic)

    def _receipt(self, number: int, error: FairlaneError | None, position: str) -> None:
        with self._lock:
            record = self._pending.pop(number, None)
            self._receipts += 1
            if not self._pending:
                self._lock.notify_all()
        if record is not None:
            record.stored(error, position)

    # ------------------------------------------------------------ repair
    def _check(self) -> None:
        with self._lock:
            if self._producer is None:
                return  # it is being replaced
            if self._silence.is_over_limit(owed=bool(self._pending), confirmed=self._receipts):
                self._broken(self._generation, Unreachable(f"Pulsar confirms nothing in {self._topic}."))

    def _broken(self, generation: int, error: FairlaneError) -> None:
        with self._lock:
            if self._closed.is_set() or generation != self._generation or self._producer is None:
                return
            producer, self._producer = self._producer, None
        _log.warning("%s Records are kept and published again.", error)
        replace_producer(producer, lambda: self._resume(record_producer(self._client, self._topic)), self._closed)

    def _resume(self, producer: Any) -> None:
        """Publish the records without a receipt again, in order, before any new record."""
        with self._lock:
            if self._closed.is_set():
                let_go(producer)
                return
            self._generation += 1
            self._producer = producer
            for number, record in list(self._pending.items()):
                if self._producer is None:
                    return  # broken again; the next repair starts over
                self._send(number, record)

    def _closing(self) -> Unreachable:
        return Unreachable(f"The producer of {self._topic} is closed.", "Publish again with another one.")
