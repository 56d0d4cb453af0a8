"""Envelopes into lanes: a fast producer for one lane, and a publisher for many."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import _pulsar
import pulsar

from backends.pulsar_client import failure_of, let_go, translated
from dispatcher.clock import Clock
from dispatcher.envelope import MAX_ENVELOPE_BYTES, Envelope, encode_envelope
from dispatcher.errors import FairlaneError, InvalidInput, NotFound, Unreachable
from dispatcher.ports import Done

_PIECE_MESSAGES = 100
_PIECE_BYTES = 1 << 20
"""A piece ends at whichever comes first; it has one receipt. A callback a message costs ten times the sending."""
_WATCHED_BYTES = 64 * 1024
"""Messages from this size on have a receipt of their own: they are the ones Pulsar can refuse alone (too big for a
broker set up with less than 5 MiB)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LaneProducerSettings:
    """batch_*: a batch is sent at whichever comes first; a whole batch goes to one consumer, so it is kept far smaller
    than receiver queues. in_flight_*: most that is sent and not yet confirmed; sending waits there. stall_s: how long
    it waits without a single confirmation."""

    batch_messages: int = 100
    batch_bytes: int = 128 * 1024
    batch_delay_ms: int = 5
    in_flight_messages: int = 20_000
    in_flight_bytes: int = 32 * 1024 * 1024
    stall_s: float = 60.0


class LaneProducer:
    """Publishes bodies to one lane, in order, at the full speed of the client. Safe for threads.

    No message is lost alone: nothing times out in the client (so a message fails only with all after it), sizes are
    checked before, and receipts come in order, so the receipt of a piece's last message covers the piece. After a
    failure everything later fails as well: go on from what is confirmed, with a new LaneProducer. `done` may run under
    the client's lock: it must not raise, wait or send.
    """

    def __init__(
        self, client: pulsar.Client, topic: str, settings: LaneProducerSettings = LaneProducerSettings()
    ) -> None:
        """Raises Unreachable, NotFound (no such topic), Refused (backlog quota, rights)."""
        self._topic = topic
        self._settings = settings
        self._room = threading.Condition()
        self._messages = 0
        self._bytes = 0
        self._receipts = 0
        self._error: FairlaneError | None = None
        self._producer = _create_producer(client, topic, settings)

    def send(self, bodies: Sequence[bytes], done: Done) -> None:
        """Sends all; waits while too much is unconfirmed. `done` is called once: when all are stored, or failed.

        Raises (and then never calls `done`): InvalidInput for a body that is too big, before anything is sent;
        Unreachable if Pulsar confirms nothing for stall_s; or what failed before.
        """
        if not bodies:
            done(None)
            return
        if max(map(len, bodies)) > MAX_ENVELOPE_BYTES:
            raise InvalidInput(f"An envelope is larger than {MAX_ENVELOPE_BYTES} bytes.", "Choose a smaller chunk.")
        group = _Group(done)
        try:
            for start, end, size in _pieces(bodies):
                self._wait_for_room(end - start, size)
                self._send_piece(
                    bodies, start, end, partial(self._answered, group, end == len(bodies), end - start, size)
                )
        except BaseException:
            if group.take() is None:
                return  # a receipt was quicker: `done` has been told
            raise

    def flush(self, timeout_s: float) -> None:
        """Returns when all that was sent is stored. Raises what failed, or Unreachable after timeout_s."""
        with self._room:
            self._room.wait_for(lambda: self._error is not None or not self._messages, timeout_s)
            if self._error is not None:
                raise self._error
            if self._messages:
                raise self._stalled(timeout_s)

    @property
    def receipts(self) -> int:
        """Pieces confirmed or failed so far; if it stands still while something is in flight, Pulsar does."""
        with self._room:
            return self._receipts

    @property
    def in_flight(self) -> tuple[int, int]:
        """Messages and bytes sent and not yet confirmed."""
        with self._room:
            return self._messages, self._bytes

    def close(self) -> None:
        """Lets go of the topic; what is not stored by then fails."""
        let_go(self._producer)

    # ------------------------------------------------------------ sending
    def _wait_for_room(self, count: int, size: int) -> None:
        with self._room:
            while self._error is None and not self._has_room(count, size):
                self._wait_for_receipt(self._receipts)
            if self._error is not None:
                raise self._error
            self._messages += count
            self._bytes += size

    def _has_room(self, count: int, size: int) -> bool:
        """A piece larger than the limit passes when nothing else is in flight."""
        limits = self._settings
        fits = self._messages + count <= limits.in_flight_messages and self._bytes + size <= limits.in_flight_bytes
        return fits or not self._messages

    def _wait_for_receipt(self, before: int) -> None:
        if not self._room.wait_for(lambda: self._receipts != before or self._error, self._settings.stall_s):
            raise self._stalled(self._settings.stall_s)

    def _stalled(self, waited_s: float) -> Unreachable:
        return Unreachable(
            f"Pulsar has confirmed nothing in {self._topic} for {waited_s:g} s.",
            "Check that it runs and its disk has room (`fairlane doctor`); then submit again, it resumes.",
        )

    def _send_piece(self, bodies: Sequence[bytes], start: int, end: int, answered: Callable[..., None]) -> None:
        builder, send = _pulsar.MessageBuilder, self._producer.send_async
        last = end - 1
        for index in range(start, end):
            body = bodies[index]
            message = builder()
            message.content(body)
            if index == last:
                send(message.build(), answered)
            else:
                send(message.build(), self._watched if len(body) >= _WATCHED_BYTES else None)

    # ------------------------------------------------------------ receipts
    # They come in the client's thread, where an exception would end the process.
    def _watched(self, result: Any, _message_id: Any) -> None:
        if result != pulsar.Result.Ok:
            self._fail(result)

    def _answered(self, group: "_Group", final: bool, count: int, size: int, result: Any, _message_id: Any) -> None:
        try:
            if result != pulsar.Result.Ok:
                self._fail(result)
            with self._room:
                self._messages -= count
                self._bytes -= size
                self._receipts += 1
                error = self._error
                self._room.notify_all()
            if final or error is not None:
                group.finish(error)
        except Exception:
            _log.exception("A receipt from %s could not be dealt with", self._topic)

    def _fail(self, result: Any) -> None:
        with self._room:
            self._error = self._error or failure_of(result, f"publish to {self._topic}")
            self._room.notify_all()


class _Group:
    """The bodies of one call, and its `done`, which goes to the first who takes it."""

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


def _pieces(bodies: Sequence[bytes]) -> Iterator[tuple[int, int, int]]:
    """(start, end, bytes) of consecutive pieces."""
    start = size = 0
    for index, body in enumerate(bodies):
        if index > start and (index - start >= _PIECE_MESSAGES or size + len(body) > _PIECE_BYTES):
            yield start, index, size
            start, size = index, 0
        size += len(body)
    yield start, len(bodies), size


def _create_producer(client: pulsar.Client, topic: str, settings: LaneProducerSettings) -> Any:
    with translated(f"create a producer for {topic}"):
        producer = client.create_producer(
            topic,
            send_timeout_millis=0,
            block_if_queue_full=True,
            max_pending_messages=settings.in_flight_messages + _PIECE_MESSAGES,
            batching_enabled=True,
            batching_max_messages=settings.batch_messages,
            batching_max_allowed_size_in_bytes=settings.batch_bytes,
            batching_max_publish_delay_ms=settings.batch_delay_ms,
            compression_type=pulsar.CompressionType.LZ4,
        )
    return producer._producer  # the wrapper's checks cost more than the sending


# ---------------------------------------------------------------- many lanes
_TIDY_S = 1.0


@dataclass(frozen=True)
class PublisherSettings:
    """max_lanes: most producers kept. idle_s: one not used for so long is closed, so that its lane can be deleted.
    stuck_s: one that gets no receipts for so long is closed, and what it holds fails (its topic is gone, perhaps)."""

    max_lanes: int = 64
    idle_s: float = 5.0
    stuck_s: float = 30.0
    producer: LaneProducerSettings = LaneProducerSettings(in_flight_bytes=16 * 1024 * 1024, stall_s=30.0)


@dataclass
class _Lane:
    """waiting: publishings until the producer is there. used_s: last publishing; moved_s: when receipts were last seen
    to have grown."""

    used_s: float
    producer: LaneProducer | None = None
    waiting: list[tuple[Sequence[Envelope], Done]] = field(default_factory=list)
    receipts: int = 0
    moved_s: float = 0.0

    def idle_for(self, now_s: float) -> float | None:
        """Seconds since it was used; None if something is under way."""
        busy = self.producer is None or self.producer.in_flight[0] > 0
        return None if busy else now_s - self.used_s

    def stuck_for(self, now_s: float) -> float:
        """Seconds in which nothing was confirmed although something is in flight (a topic that is gone)."""
        if self.producer is None or not self.producer.in_flight[0] or self.producer.receipts != self.receipts:
            self.receipts = 0 if self.producer is None else self.producer.receipts
            self.moved_s = now_s
        return now_s - self.moved_s


CreateLane = Callable[[str], None]
"""Creates a lane's topic and its subscription; raises NotFound if that lane should not be there."""


class LanePublisher:
    """Implements EnvelopePublisher, for retries and moves: never blocks its caller and never raises; `done` is called
    once, when all envelopes of the call are stored, or with what went wrong (publish again then; there may be copies).

    One thread owns the producers and sends; making one takes a round trip and is left to a few others.
    """

    def __init__(
        self,
        client: pulsar.Client,
        clock: Clock,
        settings: PublisherSettings = PublisherSettings(),
        create: CreateLane | None = None,
    ) -> None:
        """create: called, in a thread of its own, when a lane's topic is missing."""
        self._client = client
        self._clock = clock
        self._create = create
        self._settings = settings
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()
        self._tidied_s = clock.monotonic_s()
        self._stopped = False
        self._makers = ThreadPoolExecutor(4, "lane-producer")
        self._thread = threading.Thread(target=self._run, name="lane-publisher", daemon=True)
        self._thread.start()

    def publish(self, lane: str, envelopes: Sequence[Envelope], done: Done) -> None:
        if self._stopped:
            done(Unreachable("The publisher is stopped.", "Another worker publishes these envelopes again."))
        else:
            self._jobs.put(partial(self._publish, lane, envelopes, done))

    def stop(self, deadline_s: float) -> bool:
        """Waits for what was published, then closes the producers. False if something was given up at the deadline
        (its `done` may then never be called)."""
        self._stopped = True
        self._jobs.put(None)
        until_s = self._clock.monotonic_s() + deadline_s
        self._thread.join(deadline_s)
        clean = not self._thread.is_alive()
        for lane in list(self._lanes.values()):
            clean &= self._stop_lane(lane, until_s)
        self._makers.shutdown(wait=False, cancel_futures=True)
        return clean

    def _stop_lane(self, lane: _Lane, until_s: float) -> bool:
        if lane.producer is None:
            return not lane.waiting
        try:
            lane.producer.flush(max(0.0, until_s - self._clock.monotonic_s()))
            return True
        except FairlaneError:
            return False
        finally:
            lane.producer.close()

    # ------------------------------------------------------------ the publisher's thread
    def _run(self) -> None:
        stopping = False
        while not stopping or any(lane.waiting for lane in self._lanes.values()):
            try:
                job = self._jobs.get(timeout=_TIDY_S)
            except Empty:
                self._tidy()
                continue
            if job is None:
                stopping = True
            else:
                job()
                self._tidy()

    def _publish(self, name: str, envelopes: Sequence[Envelope], done: Done) -> None:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(0.0)
            self._makers.submit(self._make, name)
        self._lanes.move_to_end(name)
        lane.used_s = self._clock.monotonic_s()
        if lane.producer is None:
            lane.waiting.append((envelopes, done))
        else:
            self._send(name, lane.producer, envelopes, done)

    def _send(self, name: str, producer: LaneProducer, envelopes: Sequence[Envelope], done: Done) -> None:
        try:
            producer.send([encode_envelope(envelope) for envelope in envelopes], done)
        except Exception as error:  # whatever it is, it is the caller's, and this thread goes on
            self._forget(name)
            done(error)

    def _make(self, name: str) -> None:
        """In a maker's thread."""
        try:
            producer = self._producer_of(name)
        except FairlaneError as error:
            self._jobs.put(partial(self._not_made, name, error))
        else:
            self._jobs.put(partial(self._made, name, producer))

    def _producer_of(self, name: str) -> LaneProducer:
        try:
            return LaneProducer(self._client, name, self._settings.producer)
        except NotFound:
            if self._create is None:
                raise
        self._create(name)
        return LaneProducer(self._client, name, self._settings.producer)

    def _made(self, name: str, producer: LaneProducer) -> None:
        lane = self._lanes[name]
        lane.producer = producer
        waiting, lane.waiting = lane.waiting, []
        for envelopes, done in waiting:
            self._send(name, producer, envelopes, done)

    def _not_made(self, name: str, error: FairlaneError) -> None:
        for _, done in self._lanes.pop(name).waiting:
            done(error)

    def _forget(self, name: str) -> None:
        lane = self._lanes.pop(name, None)
        if lane is not None and lane.producer is not None:
            lane.producer.close()

    def _tidy(self) -> None:
        """Closes producers that are too many or too long unused, and those that are stuck (what they hold fails)."""
        now_s = self._clock.monotonic_s()
        surplus = len(self._lanes) - self._settings.max_lanes
        if surplus <= 0 and now_s - self._tidied_s < _TIDY_S:
            return
        self._tidied_s = now_s
        for name, lane in list(self._lanes.items()):
            idle_s = lane.idle_for(now_s)
            if idle_s is not None and (surplus > 0 or idle_s >= self._settings.idle_s):
                self._forget(name)
                surplus -= 1
            elif lane.stuck_for(now_s) >= self._settings.stuck_s:
                self._forget(name)
