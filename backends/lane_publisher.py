"""Envelopes into many lanes: retries and moves."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue

import pulsar

from backends.publisher import LaneProducer, LaneProducerSettings
from backends.pulsar_client import partitions_of
from dispatcher.clock import Clock
from dispatcher.envelope import Envelope, encode_envelope
from dispatcher.errors import FairlaneError, Unreachable
from dispatcher.ports import Done
from dispatcher.topics import task_of_lane

_TIDY_S = 1.0


@dataclass(frozen=True)
class PublisherSettings:
    """max_lanes: most producers kept. idle_s: one not used for so long is closed, so that its lane can be deleted.
    stuck_s: one that gets no receipts for so long is closed, and what it holds fails (its topic is gone, perhaps)."""

    max_lanes: int = 64
    idle_s: float = 5.0
    stuck_s: float = 30.0
    producer: LaneProducerSettings = field(
        default_factory=lambda: LaneProducerSettings(in_flight_bytes=16 * 1024 * 1024, stall_s=30.0)
    )


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
"""Creates what is missing of a lane, be it the subscription only, for who made the topic may have died before that, and
a topic without one drops what it is sent. Raises NotFound if the lane should not be there."""


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
        """create: called, in a thread of its own, before anything is sent to a lane."""
        self._client = client
        self._clock = clock
        self._create = create
        self._settings = settings
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()
        self._tidied_s = clock.monotonic_s()
        self._stopped = False
        self._turns = count()
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
        except Exception as error:  # whatever it is, those who wait for the lane are told
            self._jobs.put(partial(self._not_made, name, error))
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
        waiting, lane.waiting = lane.waiting, []
        for envelopes, done in waiting:
            self._send(name, producer, envelopes, done)

    def _not_made(self, name: str, error: Exception) -> None:
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
