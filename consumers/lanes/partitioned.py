"""The consumers on a lane whose topic has partitions, as one attachment."""

import threading
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from consumers.lanes.attachment import Attachment, AttachmentContext
from dispatcher.ports import Delivery
from dispatcher.wire.topics import topics_of_lane


class PartitionedAttachment:
    """An Attachment for each partition, used like a single Attachment.

    A partition whose broker is down is opened later and does not delay the others. (The client's own consumer of many
    topics opens all or none.) Each drain begins with the next partition, so that none waits for the others to run
    empty.
    """

    def __init__(self, lane: str, queue: int, min_queue: int, partitions: int, context: AttachmentContext) -> None:
        """`queue` is in envelopes over all partitions, `min_queue` the minimum for one partition (a producer batch)."""
        self.lane = lane
        self.queue = queue
        share = max(min_queue, -(-queue // partitions))
        self._parts = {topic: Attachment(lane, share, context, topic) for topic in topics_of_lane(lane, partitions)}
        self._order = list(self._parts.values())
        self._turn = 0

    @property
    def open(self) -> bool:
        return all(part.open for part in self._order)

    @property
    def given_up(self) -> bool:
        """Whether a partition does not exist."""
        return any(part.given_up for part in self._order)

    @property
    def left_to_newer(self) -> bool:
        """Whether a partition holds an envelope of a later version."""
        return any(part.left_to_newer for part in self._order)

    @property
    def unacked(self) -> int:
        """Messages given out and not acked."""
        return sum(part.unacked for part in self._order)

    def drain(self, max_targets: int) -> tuple[list[Delivery], bool]:
        """See Lanes.drain."""
        self._turn = (self._turn + 1) % len(self._order)
        deliveries: list[Delivery] = []
        room = max_targets
        for part in (*self._order[self._turn :], *self._order[: self._turn]):
            if room <= 0:
                return deliveries, False
            part_deliveries, empty = part.drain(room)
            deliveries += part_deliveries
            if not empty:
                return deliveries, False
            room -= sum(len(delivery.envelope.targets) or 1 for delivery in part_deliveries)
        return deliveries, True

    def ack(self, messages: Sequence[Any]) -> None:
        """Acknowledge each message at the partition it came from, as Attachment.ack does."""
        for topic, of_part in groupby(messages, lambda message: message.topic_name()):
            self._parts[topic].ack(list(of_part))

    @property
    def returning(self) -> int:
        """Messages waiting to be given back."""
        return sum(part.returning for part in self._order)

    def return_later(self, messages: Sequence[Any]) -> None:
        """Return each message to the partition it came from, as Attachment.return_later does."""
        for topic, of_part in groupby(messages, lambda message: message.topic_name()):
            self._parts[topic].return_later(list(of_part))

    def close(self, closed: Callable[[], None]) -> None:
        """Close all partitions. `closed` is called when all are closed."""
        remaining, lock = len(self._order), threading.Lock()

        def one_closed() -> None:
            nonlocal remaining
            with lock:
                remaining -= 1
                last = not remaining
            if last:
                closed()

        for part in self._order:
            part.close(one_closed)
