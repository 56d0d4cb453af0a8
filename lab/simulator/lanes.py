"""Lanes in memory: topics with one Shared subscription, and everything a broker may do to a worker."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dispatcher.clock import Clock
from dispatcher.model.errors import NotFound
from dispatcher.ports import Delivery, LaneInfo
from dispatcher.wire.envelope import Envelope


@dataclass(slots=True, eq=False)
class _Message:
    """An envelope in a topic."""

    envelope: Envelope
    holder: "MemoryLanes | None" = None
    """The consumer that has it, if any."""
    acked: bool = False


@dataclass(slots=True, eq=False)
class _Topic:
    messages: list[_Message] = field(default_factory=list)
    waiting: deque[_Message] = field(default_factory=deque)
    """Without a holder and not acked; in order."""
    consumers: "dict[MemoryLanes, None]" = field(default_factory=dict)


class MemoryBroker:
    """Topics by name. One thread."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self.refuse_acks = 0
        """Number of next acks to forget (the messages are delivered again when their consumer detaches)."""

    def create(self, lane: str) -> None:
        self._topics.setdefault(lane, _Topic())

    def delete(self, lane: str) -> None:
        """Delete a lane with everything in it."""
        del self._topics[lane]

    def lanes(self) -> list[str]:
        return list(self._topics)

    def publish(self, lane: str, envelopes: Sequence[Envelope]) -> None:
        """Publish envelopes. Raises NotFound for a topic that was not created."""
        topic = self._topic(lane)
        added = [_Message(envelope) for envelope in envelopes]
        topic.messages += added
        topic.waiting += added
        self._announce(lane, topic)

    def open(self, lane: str) -> list[Envelope]:
        """Return the envelopes that are not acked yet."""
        return [message.envelope for message in self._topic(lane).messages if not message.acked]

    def held(self, consumer: "MemoryLanes", lane: str) -> int:
        """Return the number of messages that the consumer has and has not acked."""
        return sum(message.holder is consumer and not message.acked for message in self._topic(lane).messages)

    def take_away(self, lane: str) -> None:
        """Break the connection of the lane's consumers: their messages are delivered again."""
        topic = self._topic(lane)
        unacked = [message for message in topic.messages if message.holder is not None and not message.acked]
        self._again(lane, topic, unacked)

    def forget_acks(self, lane: str) -> None:
        """Forget acks that the broker had not stored when it was restarted."""
        topic = self._topic(lane)
        forgotten = [message for message in topic.messages if message.acked]
        for message in forgotten:
            message.acked = False
        self._again(lane, topic, forgotten)

    def repeat(self, lane: str) -> None:
        """Publish messages a second time, as a resumed submission does."""
        self.publish(lane, [message.envelope for message in self._topic(lane).messages])

    def _topic(self, lane: str) -> _Topic:
        topic = self._topics.get(lane)
        if topic is None:
            raise NotFound(f"There is no lane {lane}.")
        return topic

    def _again(self, lane: str, topic: _Topic, messages: Sequence[_Message]) -> None:
        for message in messages:
            message.holder = None
        topic.waiting.extendleft(reversed(messages))
        self._announce(lane, topic)

    def _announce(self, lane: str, topic: _Topic) -> None:
        if topic.waiting:
            for consumer in list(topic.consumers):
                consumer.announce(lane)

    # ------------------------------------------------------------- for MemoryLanes
    def attach(self, consumer: "MemoryLanes", lane: str) -> None:
        topic = self._topics.setdefault(lane, _Topic())
        topic.consumers[consumer] = None
        if topic.waiting:
            consumer.announce(lane)

    def detach(self, consumer: "MemoryLanes", lane: str) -> None:
        topic = self._topics.get(lane)
        if topic is not None:
            topic.consumers.pop(consumer, None)
            mine = [message for message in topic.messages if message.holder is consumer and not message.acked]
            self._again(lane, topic, mine)

    def take(self, consumer: "MemoryLanes", lane: str, max_targets: int) -> tuple[list[_Message], bool]:
        topic = self._topics.get(lane)
        taken: list[_Message] = []
        waiting = topic.waiting if topic is not None else deque[_Message]()
        while waiting and max_targets > 0:
            message = waiting.popleft()
            message.holder = consumer
            taken.append(message)
            max_targets -= len(message.envelope.targets)
        return taken, not waiting

    def give_back(self, consumer: "MemoryLanes", lane: str, messages: Sequence[_Message]) -> None:
        """Deliver these messages again, behind all waiting ones."""
        topic = self._topic(lane)
        mine = [message for message in messages if message.holder is consumer and not message.acked]
        for message in mine:
            message.holder = None
        topic.waiting.extend(mine)
        self._announce(lane, topic)

    def ack(self, consumer: "MemoryLanes", message: _Message) -> None:
        if message.holder is not consumer:
            return
        if self.refuse_acks:
            self.refuse_acks -= 1
            return
        message.acked = True


class MemoryLanes:
    """Implements dispatcher.ports.Lanes for one worker. `ready` gets the name of each lane that has something."""

    def __init__(self, broker: MemoryBroker, ready: Callable[[str], None], clock: Clock) -> None:
        self._broker = broker
        self._ready = ready
        self._clock = clock
        self._armed: dict[str, bool] = {}
        """Attached lanes, and whether they announce themselves when something arrives."""
        self.prefetch_targets = 0

    @property
    def attached(self) -> list[str]:
        return list(self._armed)

    def attach(self, lane: LaneInfo, prefetch_targets: int) -> None:
        self._armed.setdefault(lane.name, True)
        self.prefetch_targets = prefetch_targets
        self._broker.attach(self, lane.name)

    def detach(self, lane: str) -> None:
        if self._armed.pop(lane, None) is not None:
            self._broker.detach(self, lane)

    def drain(self, lane: str, max_targets: int) -> tuple[list[Delivery], bool]:
        if lane not in self._armed:
            return [], True
        now_s = self._clock.monotonic_s()
        taken, empty = self._broker.take(self, lane, max_targets)
        self._armed[lane] = empty
        return [Delivery(each.envelope, each, now_s, each.envelope.damage) for each in taken], empty

    def ack(self, lane: str, deliveries: Sequence[Delivery]) -> None:
        if lane in self._armed:
            for delivery in deliveries:
                self._broker.ack(self, delivery.handle)

    def give_back(self, lane: str, deliveries: Sequence[Delivery]) -> None:
        if lane in self._armed:
            self._broker.give_back(self, lane, [delivery.handle for delivery in deliveries])

    def announce(self, lane: str) -> None:
        """Announce a lane that has something. The broker calls this."""
        if self._armed.get(lane):
            self._armed[lane] = False
            self._ready(lane)

    def crash(self) -> None:
        """Crash the worker: everything it holds is delivered to others."""
        for lane in list(self._armed):
            self.detach(lane)
