"""Envelopes into many lanes: retries and moves."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue

import pulsar

from backends.pulsar.client import partitions_of
from backends.pulsar.publisher import LaneProducer, LaneProducerSettings
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.ports import Done
from dispatcher.wire.envelope import Envelope, encode_envelope
from dispatcher.wire.topics import task_of_lane

_TIDY_S = 1.0
_MAKERS = 16
"""Producers that are made at once: more than there are retry lanes, so that others find room beside those of a broker
that does not answer."""


@dataclass(frozen=True)
class PublisherSettings:
    """max_lanes: most producers kept. idle_s: one not used for so long is closed, so that its lane can be deleted.
    stuck_s: one that gets no receipts for so long is closed, and what it holds and what waits for it fails (its topic
    is gone, perhaps). producer: its in_flight_* bound what one lane has under way; what is beyond waits here."""

    max_lanes: int = 64
    idle_s: float = 5.0
    stuck_s: float = 30.0
    producer: LaneProducerSettings = field(
        default_factory=lambda: LaneProducerSettings(in_flight_bytes=16 * 1024 * 1024)
    )


@dataclass
class _Lane:
    """waiting: publishings until the producer is there and has room, in order; the engine holds their envelopes until
    they are stored, so they take no memory of their own. used_s: last publishing; moved_s: when receipts were last
    seen to have grown."""

    used_s: float
    producer: LaneProducer | None = None
    waiting: deque[tuple[Sequence[Envelope], Done]] = field(default_factory=deque)
    receipts: int = 0
    moved_s: float = 0.0

    def idle_for(self, now_s: float) -> float | None:
        """Seconds since it was used; None if something is under way."""
        busy = self.producer is None or bool(self.waiting) or self.producer.in_flight[0] > 0
        return None if busy else now_s - self.used_s

    def stuck_for(self, now_s: float) -> float:
        """Seconds in which nothing was confirmed although something is in flight (a topic that is gone)."""
        if self.producer is None or not self.producer.in_flight[0] or self.producer.receipts != self.receipts:
            self.receipts = 0 if self.producer is None else self.producer.receipts
            self.moved_s = now_s
        return now_s - self.moved_s


CreateLane = Callable[[str], None]
"""Creates what is missing of a lane, be it the subscription only, for who made the topic may have died before that, and
a topic without one drops what it is sent. Raises NotFound if the lane should not be there."""


class LanePublisher:
    """Implements EnvelopePublisher, for retries and moves: never blocks its caller and never raises; `done` is called
    once, when all envelopes of the call are stored, or with what went wrong (publish again then; there may be copies).

    `run` owns the producers and sends; it never waits for a lane, so one that stands still holds up no other. Making a
    producer takes round trips and is left to a few threads.
    """

    def __init__(
        self,
        client: pulsar.Client,
        clock: Clock,
        settings: PublisherSettings = PublisherSettings(),
        create: CreateLane | None = None,
    ) -> None:
        """create: called, in a thread of its own, before anything is sent to a lane."""
        self._client = client
        self._clock = clock
        self._create = create
        self._settings = settings
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()
        self._tidied_s = clock.monotonic_s()
        self._stopped = False
        self._ended = threading.Event()
        self._turns = count()
        self._makers = ThreadPoolExecutor(_MAKERS, "lane-producer")

    def publish(self, lane: str, envelopes: Sequence[Envelope], done: Done) -> None:
        if self._stopped:
            done(Unreachable("The publisher is stopped.", "Another worker publishes these envelopes again."))
        else:
            self._jobs.put(partial(self._publish, lane, envelopes, done))

    def stop(self, deadline_s: float) -> bool:
        """Waits for what was published, then closes the producers, and `run` returns. False if something was given up
        at the deadline (its `done` may then never be called)."""
        self._stopped = True
        self._jobs.put(None)
        until_s = self._clock.monotonic_s() + deadline_s
        clean = self._ended.wait(deadline_s)
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
    def run(self, over: threading.Event) -> None:
        """Publishes until `stop` is called and nothing waits any more, or `over` is set."""
        try:
            self._work(over)
        finally:
            self._ended.set()

    def _work(self, over: threading.Event) -> None:
        stopping = False
        while not over.is_set() and not (stopping and self._is_idle()):
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

    def _is_idle(self) -> bool:
        return not any(lane.waiting for lane in self._lanes.values())

    def _publish(self, name: str, envelopes: Sequence[Envelope], done: Done) -> None:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane(0.0)
            self._makers.submit(self._make, name)
        self._lanes.move_to_end(name)
        lane.used_s = self._clock.monotonic_s()
        # Before it is offered: so the receipt that makes room sees that somebody waits for it.
        lane.waiting.append((envelopes, done))
        if len(lane.waiting) == 1:
            self._send_waiting(name, lane)

    def _send_waiting(self, name: str, lane: _Lane) -> None:
        """As much as the lane has room for."""
        producer = lane.producer
        while producer is not None and lane.waiting:
            envelopes, done = lane.waiting[0]
            bodies = [encode_envelope(envelope) for envelope in envelopes]
            try:
                if not producer.offer(bodies, partial(self._answered, name, lane, done)):
                    return
            except Exception as error:  # whatever it is, it is the caller's, and this thread goes on
                self._forget(name, error)
                return
            lane.waiting.popleft()

    def _answered(self, name: str, lane: _Lane, done: Done, error: Exception | None) -> None:
        """In the client's thread."""
        done(error)
        if lane.waiting:
            self._jobs.put(partial(self._send_waiting, name, lane))

    def _make(self, name: str) -> None:
        """In a maker's thread."""
        try:
            producer = self._producer_of(name)
        except Exception as error:  # whatever it is, those who wait for the lane are told
            self._jobs.put(partial(self._forget, name, error))
        else:
            self._jobs.put(partial(self._made, name, producer))

    def _producer_of(self, name: str) -> LaneProducer:
        if self._create is not None:
            self._create(name)
        return LaneProducer(self._client, self._topic_of(name), self._settings.producer)

    def _topic_of(self, lane: str) -> str:
        """The lane's topic, or one of its partitions, another each time: receipts come in order from one only."""
        if task_of_lane(lane) is None:
            return lane
        topics = partitions_of(self._client, lane)
        return topics[next(self._turns) % len(topics)]

    def _made(self, name: str, producer: LaneProducer) -> None:
        lane = self._lanes[name]
        lane.producer = producer
        self._send_waiting(name, lane)

    def _forget(self, name: str, error: Exception) -> None:
        """Those who wait for the lane are told of the error; what it has under way fails by itself."""
        lane = self._lanes.pop(name)
        producer, lane.producer = lane.producer, None
        if producer is not None:
            producer.close()
        while lane.waiting:
            lane.waiting.popleft()[1](error)

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
                self._forget(name, self._stuck(name))
                surplus -= 1
            elif lane.stuck_for(now_s) >= self._settings.stuck_s:
                self._forget(name, self._stuck(name))

    def _stuck(self, name: str) -> Unreachable:
        stuck_s = self._settings.stuck_s
        return Unreachable(f"Pulsar has confirmed nothing in {name} for {stuck_s:g} s.", "It is published again.")
