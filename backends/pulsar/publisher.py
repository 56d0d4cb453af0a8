"""Publishes envelopes into one lane, fast; backends/pulsar/lane_publisher.py is for many lanes."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import _pulsar
import pulsar

from backends.pulsar.client import PulsarClient, failure_of, let_go, make_producer
from backends.pulsar.record_producer import CHECK_S, CHECKS, Silence, replace_producer
from backends.settings import Compression
from dispatcher.model.errors import FairlaneError, InvalidInput, Unreachable
from dispatcher.ports import Done
from dispatcher.wire.envelope import MAX_ENVELOPE_BYTES

_PIECE_MESSAGES = 100
_PIECE_BYTES = 1 << 20
"""A piece ends at the first of these two limits, and has one receipt: a callback for each message would cost ten times
as much as sending it."""
_WATCHED_BYTES = 64 * 1024
"""Messages of this size and above have a receipt of their own, since Pulsar can refuse them alone: they may be too big
for a broker configured with less than 5 MiB."""

_COMPRESSION = {
    "lz4": pulsar.CompressionType.LZ4,
    "zstd": pulsar.CompressionType.ZSTD,
    "none": pulsar.CompressionType.NONE,
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LaneProducerSettings:
    """Limits of a LaneProducer. A batch is sent at the first of its three limits. A whole batch goes to one consumer,
    so batches are kept far smaller than receiver queues."""

    batch_messages: int = 100
    batch_bytes: int = 128 * 1024
    batch_delay_ms: int = 5
    in_flight_messages: int = 20_000
    """Maximum number of unconfirmed messages; sending waits at this limit."""
    in_flight_bytes: int = 32 * 1024 * 1024
    """Maximum size of the unconfirmed messages; sending waits at this limit."""
    stall_s: float = 60.0
    """How long sending waits without a single confirmation."""
    check_s: float = CHECK_S
    """Interval of the checks for silence: at CHECKS of them in a row without a confirmation the producer is replaced.
    The first producer of a client sets it for all."""
    compression: Compression = "lz4"


class LaneProducer:
    """Publishes bodies to one lane, in order, at the full speed of the client. Thread-safe.

    No message is lost alone: one fails only together with all after it. Sizes are checked before sending. Receipts come
    in order, so the receipt of a piece's last message covers the piece.

    If no receipts come, everything unconfirmed is published again by another producer: there may then be copies, out of
    order. After a failure everything later fails as well: continue after the last confirmed body with a
    new LaneProducer.
    `done` may run under the client's lock: it must not raise, wait or send.
    """

    def __init__(
        self, client: PulsarClient, topic: str, settings: LaneProducerSettings = LaneProducerSettings()
    ) -> None:
        """Raises Unreachable, NotFound (no such topic), Refused (backlog quota, rights)."""
        self._client = client
        self._topic = topic
        self._settings = settings
        self._room = threading.Condition()
        self._messages = 0
        self._bytes = 0
        self._receipts = 0
        self._error: FairlaneError | None = None
        self._unconfirmed: dict[_Piece, None] = {}
        """In the order in which they were sent."""
        self._closed = threading.Event()
        self._producer: Any = _create_producer(client, topic, settings)
        """None while it is being replaced."""
        self._silence = Silence()
        client.checks.add(self._check, settings.check_s)

    def send(self, bodies: Sequence[bytes], done: Done) -> None:
        """Send all bodies; wait while too much is unconfirmed. `done` is called once: when all are stored, or failed.

        Raises InvalidInput for a body that is too big, before anything is sent; Unreachable if Pulsar confirms nothing
        for stall_s; or the error of an earlier failure. If it raises, `done` is never called.
        """
        _check_sizes(bodies)
        self._send_pieces(bodies, done, self._wait_for_room)

    def offer(self, bodies: Sequence[bytes], done: Done) -> bool:
        """Send all bodies as `send` does, but never wait: return False and send nothing while too much is unconfirmed.

        Offer again when the `done` of an earlier call runs. With more bodies than in_flight_messages the client itself
        makes the caller wait.
        """
        _check_sizes(bodies)
        with self._room:
            self._raise_failure()
            count, size = len(bodies), sum(map(len, bodies))
            if not self._has_room(count, size):
                return False
            self._count(count, size)
        self._send_pieces(bodies, done, self._raise_failure)
        return True

    def flush(self, timeout_s: float) -> None:
        """Return when everything sent is stored. Raises the error of a failure, or Unreachable after timeout_s."""
        with self._room:
            self._room.wait_for(lambda: self._error is not None or not self._messages, timeout_s)
            self._raise_failure()
            if self._messages:
                raise self._stalled(timeout_s)

    @property
    def receipts(self) -> int:
        """Number of pieces confirmed or failed so far. If it does not grow while messages are in flight, Pulsar has
        stalled."""
        with self._room:
            return self._receipts

    @property
    def in_flight(self) -> tuple[int, int]:
        """Messages and bytes sent and not yet confirmed."""
        with self._room:
            return self._messages, self._bytes

    def close(self) -> None:
        """Close the producer; messages not yet stored fail."""
        self._client.checks.remove(self._check)
        self._closed.set()
        with self._room:
            producer = self._producer
        if producer is not None:
            let_go(producer)
        else:
            self._give_up(Unreachable(f"The producer of {self._topic} is closed.", "Publish again with another one."))

    # ------------------------------------------------------------ sending
    def _send_pieces(self, bodies: Sequence[bytes], done: Done, make_room: Callable[["_Piece"], None]) -> None:
        if not bodies:
            done(None)
            return
        group = _Group(done)
        try:
            for piece in _pieces(bodies, group):
                with self._room:
                    make_room(piece)
                    self._unconfirmed[piece] = None
                    producer = self._producer
                if producer is not None:  # otherwise the next one sends the piece
                    self._send_piece(producer, piece)
        except BaseException:
            if group.take() is None:
                return  # a receipt came first: `done` has been called
            raise

    def _wait_for_room(self, piece: "_Piece") -> None:
        """Wait until the piece has room, and count it. The lock is held."""
        while self._error is None and not self._has_room(piece.count, piece.size):
            self._wait_for_receipt(self._receipts)
        self._raise_failure()
        self._count(piece.count, piece.size)

    def _raise_failure(self, _piece: object = None) -> None:
        if self._error is not None:
            raise self._error

    def _count(self, count: int, size: int) -> None:
        self._messages += count
        self._bytes += size

    def _has_room(self, count: int, size: int) -> bool:
        """Return whether a piece fits. A piece larger than the limit passes when nothing else is in flight.

        None fits while the producer is being replaced.
        """
        limits = self._settings
        if self._producer is None:
            return False
        fits = self._messages + count <= limits.in_flight_messages and self._bytes + size <= limits.in_flight_bytes
        return fits or not self._messages

    def _wait_for_receipt(self, before: int) -> None:
        """Wait for a receipt or a failure. The lock is held. Raises Unreachable after stall_s."""
        if not self._room.wait_for(lambda: self._receipts != before or self._error, self._settings.stall_s):
            raise self._stalled(self._settings.stall_s)

    def _stalled(self, waited_s: float) -> Unreachable:
        return Unreachable(
            f"Pulsar has confirmed nothing in {self._topic} for {waited_s:g} s.",
            "Check that it runs and its disk has room (`fairlane doctor`); then submit again to continue.",
        )

    def _send_piece(self, producer: Any, piece: "_Piece") -> None:
        builder, send, bodies = _pulsar.MessageBuilder, producer.send_async, piece.bodies
        last = piece.end - 1
        for index in range(piece.start, piece.end):
            body = bodies[index]
            message = builder()
            message.content(body)
            if index == last:
                send(message.build(), partial(self._answered, producer, piece))
            else:
                send(message.build(), partial(self._watched, producer) if len(body) >= _WATCHED_BYTES else None)

    # ------------------------------------------------------------ receipts
    # They come in the client's thread, where an exception would end the process.
    def _watched(self, producer: Any, result: Any, _message_id: Any) -> None:
        if result != pulsar.Result.Ok and producer is self._producer:
            self._fail(failure_of(result, f"publish to {self._topic}", self._client))

    def _answered(self, producer: Any, piece: "_Piece", result: Any, message_id: Any) -> None:
        try:
            self._watched(producer, result, message_id)
            if producer is self._producer:  # otherwise another one publishes the piece again
                self._settle(piece)
        except Exception:
            _log.exception("A receipt from %s could not be processed", self._topic)

    def _settle(self, piece: "_Piece") -> None:
        """Count a piece as stored, or as failed if there is an error."""
        with self._room:
            if piece not in self._unconfirmed:
                return
            del self._unconfirmed[piece]
            self._count(-piece.count, -piece.size)
            self._receipts += 1
            error = self._error
            self._room.notify_all()
        if piece.final or error is not None:
            piece.group.finish(error)

    def _fail(self, error: FairlaneError | None) -> None:
        with self._room:
            self._error = self._error or error
            self._room.notify_all()

    # ------------------------------------------------------------ replacement
    def _check(self) -> None:
        """Replace a producer that gets no receipts. Until there is another one, senders wait."""
        with self._room:
            if self._producer is None:
                return  # it is being replaced
            if not self._silence.is_over_limit(owed=bool(self._unconfirmed), confirmed=self._receipts):
                return
            producer, self._producer = self._producer, None
        waited_s = CHECKS * self._settings.check_s
        _log.warning("No receipt from %s for %g s or more; publishing again", self._topic, waited_s)
        replace_producer(producer, self._renew, self._closed)

    def _renew(self) -> None:
        try:
            producer = _create_producer(self._client, self._topic, self._settings)
        except FairlaneError as error:
            if error.retryable:
                raise
            self._give_up(error)
            return
        with self._room:
            self._producer, pieces = producer, list(self._unconfirmed)
        for piece in pieces:
            self._send_piece(producer, piece)
        if self._closed.is_set():
            let_go(producer)

    def _give_up(self, error: FairlaneError) -> None:
        """Answer everything unconfirmed with the error, while there is no producer."""
        self._fail(error)
        for piece in list(self._unconfirmed):
            self._settle(piece)


class _Group:
    """The `done` of one call, which only the first caller of `take` gets."""

    def __init__(self, done: Done) -> None:
        self._done = [done]

    def take(self) -> Done | None:
        try:
            return self._done.pop()
        except IndexError:
            return None

    def finish(self, error: Exception | None) -> None:
        done = self.take()
        if done is not None:
            done(error)


def _check_sizes(bodies: Sequence[bytes]) -> None:
    if max(map(len, bodies), default=0) > MAX_ENVELOPE_BYTES:
        raise InvalidInput(f"An envelope is larger than {MAX_ENVELOPE_BYTES} bytes.", "Choose a smaller chunk.")


@dataclass(eq=False, slots=True, kw_only=True)
class _Piece:
    """Consecutive bodies of one call that are counted together, and kept until they are stored."""

    bodies: Sequence[bytes]
    """All bodies of the call."""
    start: int
    end: int
    size: int
    """In bytes."""
    group: _Group
    """Gets the answer."""

    @property
    def count(self) -> int:
        return self.end - self.start

    @property
    def final(self) -> bool:
        """Whether the call has no later piece."""
        return self.end == len(self.bodies)


def _pieces(bodies: Sequence[bytes], group: _Group) -> Iterator[_Piece]:
    start = size = 0
    for index, body in enumerate(bodies):
        if index > start and (index - start >= _PIECE_MESSAGES or size + len(body) > _PIECE_BYTES):
            yield _Piece(bodies=bodies, start=start, end=index, size=size, group=group)
            start, size = index, 0
        size += len(body)
    yield _Piece(bodies=bodies, start=start, end=len(bodies), size=size, group=group)


def _create_producer(client: pulsar.Client, topic: str, settings: LaneProducerSettings) -> Any:
    return make_producer(
        client,
        topic,
        send_timeout_millis=0,
        block_if_queue_full=True,
        max_pending_messages=settings.in_flight_messages + _PIECE_MESSAGES,
        batching_enabled=True,
        batching_max_messages=settings.batch_messages,
        batching_max_allowed_size_in_bytes=settings.batch_bytes,
        batching_max_publish_delay_ms=settings.batch_delay_ms,
        compression_type=_COMPRESSION[settings.compression],
    )
