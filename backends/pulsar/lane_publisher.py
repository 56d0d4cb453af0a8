"""Publishes envelopes into many lanes, for retries and moves."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import Empty, Queue

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
"""Number of producers created in parallel. There are fewer retry lanes than this, so a broker that does not answer
leaves threads for other lanes."""


@dataclass(frozen=True)
class PublisherSettings:
    """Limits of a LanePublisher."""

    max_lanes: int = 64
    """Maximum number of producers kept open."""
    idle_s: float = 5.0
    """A producer unused for this long is closed, so that its lane can be deleted."""
    stuck_s: float = 30.0
    """A producer without a receipt for this long is closed; its pending and waiting envelopes fail. Its topic may be
    gone."""
    producer: LaneProducerSettings = field(
        default_factory=lambda: LaneProducerSettings(in_flight_bytes=16 * 1024 * 1024)
    )
    """Its in_flight_* limits bound the unconfirmed envelopes of one lane; any others wait here."""


@dataclass
class _Lane:
    used_s: float
    """Time of the last publish call."""
    producer: LaneProducer | None = None
    waiting: deque[tuple[Sequence[Envelope], Done]] = field(default_factory=deque)
    """Publish calls, in order, that wait until the producer exists and has room. They take no memory of their own: the
    engine holds their envelopes until they are stored."""
    receipts: int = 0
    moved_s: float = 0.0
    """When the number of receipts was last seen to grow."""

    def idle_for(self, now_s: float) -> float | None:
        """Return the seconds since the last use; None if anything is waiting or in flight."""
        busy = self.producer is None or bool(self.waiting) or self.producer.in_flight[0] > 0
        return None if busy else now_s - self.used_s

    def stuck_for(self, now_s: float) -> float:
        """Return for how many seconds nothing was confirmed while messages were in flight (as when the topic is
        gone)."""
        if self.producer is None or not self.producer.in_flight[0] or self.producer.receipts != self.receipts:
            self.receipts = 0 if self.producer is None else self.producer.receipts
            self.moved_s = now_s
        return now_s - self.moved_s


CreateLane = Callable[[str], None]
"""Creates the lane's topic and subscription if either is missing. A creator may have crashed between the two, and a
topic without a subscription discards messages. Raises NotFound if the lane should not exist."""


class LanePublisher:
    """Implements EnvelopePublisher, for retries and moves. Never blocks its caller and never raises.

    `done` is called once: when all envelopes of the call are stored, or with the error. After an error, publish again;
    there may be copies.

    `run` owns the producers and sends. It never waits for a lane, so a stalled lane does not delay others. A few
    threads create the producers, which takes round trips.
    """

    def __init__(
        self,
        client: pulsar.Client,
        clock: Clock,
        settings: PublisherSettings = PublisherSettings(),
        create: CreateLane | None = None,
    ) -> None:
        """create: called in a thread of its own before anything is sent to a lane."""
        self._client = client
        self._clock = clock
        self._create = create
        self._settings = settings
        self._jobs: Queue[Callable[[], None] | None] = Queue()
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
        """Wait until everything published is stored, then close the producers; `run` returns.

        Return False if something was given up at the deadline; its `done` may then never be called.
        """
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
        """Publish until `stop` was called and nothing is waiting, or until `over` is set."""
        try:
            self._work(over)
        finally:
            self._ended.set()

    def _work(self, over: threading.Event) -> None:
        stopping = False
        while not over.is_set() and not (stopping and not any(lane.waiting for lane in self._lanes.values())):
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
        # Append before offering, so that the receipt that makes room sees the waiting call.
        lane.waiting.append((envelopes, done))
        if len(lane.waiting) == 1:
            self._send_waiting(name, lane)

    def _send_waiting(self, name: str, lane: _Lane) -> None:
        """Send as many waiting calls as the lane has room for."""
        producer = lane.producer
        while producer is not None and lane.waiting:
            envelopes, done = lane.waiting[0]
            try:
                bodies = [encode_envelope(envelope) for envelope in envelopes]
            except Exception as error:  # others do not wait for it
                lane.waiting.popleft()
                done(error)
                continue
            try:
                if not producer.offer(bodies, partial(self._answered, name, lane, done)):
                    return
            except Exception as error:  # any error goes to the caller, and this thread continues
                self._forget(name, error)
                return
            lane.waiting.popleft()

    def _answered(self, name: str, lane: _Lane, done: Done, error: Exception | None) -> None:
        """Report the result of one call. Runs in the client's thread."""
        done(error)
        if lane.waiting:
            self._jobs.put(partial(self._send_waiting, name, lane))

    def _make(self, name: str) -> None:
        """Create a lane's producer. Runs in one of the maker threads."""
        try:
            if self._create is not None:
                self._create(name)
            producer = LaneProducer(self._client, self._topic_of(name), self._settings.producer)
        except Exception as error:  # any error goes to the calls that wait for the lane
            self._jobs.put(partial(self._forget, name, error))
        else:
            self._jobs.put(partial(self._made, name, producer))

    def _topic_of(self, lane: str) -> str:
        """Return the lane's topic, or its partitions in turn: receipts come in order from a single topic only."""
        if task_of_lane(lane) is None:
            return lane
        topics = partitions_of(self._client, lane)
        return topics[next(self._turns) % len(topics)]

    def _made(self, name: str, producer: LaneProducer) -> None:
        lane = self._lanes[name]
        lane.producer = producer
        self._send_waiting(name, lane)

    def _forget(self, name: str, error: Exception) -> None:
        """Drop the lane and pass the error to the calls that wait for it. Messages in flight fail by themselves."""
        lane = self._lanes.pop(name)
        producer, lane.producer = lane.producer, None
        if producer is not None:
            producer.close()
        while lane.waiting:
            lane.waiting.popleft()[1](error)

    def _tidy(self) -> None:
        """Close surplus and idle producers, and stuck ones, whose messages then fail."""
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
