"""One consumer on one lane, from attaching to closing.

It uses pulsar-client's raw consumer, whose asynchronous calls need no thread. A message costs half of what it costs
with the public consumer, which wraps every message and waits for every acknowledgement.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulsar

from backends.pulsar.client import ignore
from consumers.lanes.background import Background
from consumers.lanes.give_back import MissingChannels, ReturnedMessages
from consumers.lanes.opening import OK, Opener, Opening, batch_messages
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Malformed, NewerFormat
from dispatcher.ports import Delivery
from dispatcher.wire.checks.damage import salvaged
from dispatcher.wire.envelope import MAX_CHUNK, Envelope, decode_envelope

_log = logging.getLogger(__name__)
RETURN_AFTER_S = 5.0
"""Longer than an envelope answered with HELD waits before it is asked about again (`EngineSettings.held`, 2 s)."""


@dataclass(frozen=True, kw_only=True)
class AttachmentContext:
    """Objects that all attachments of a worker share."""

    opener: Opener
    background: Background
    clock: Clock
    ready: Callable[[str], None]
    """Called with a lane that has something to drain, from any thread."""
    undecodable: Callable[["Attachment", Any, FairlaneError], None]
    """Called with the attachment, a message that is no envelope, and the decoding error."""
    newer: Callable[[str], float | None]
    """Called with the lane of an envelope of a later version. Returns the seconds after which to give the message back;
    None to leave the whole lane to newer workers."""
    missing: MissingChannels
    move_to_side_lane: Callable[["Attachment", Any, Envelope], bool]
    """Called with a message whose channel is missing. Returns whether the message is moved to a side lane."""
    returner: Background
    """Gives messages back."""


class Attachment:
    """The attachment of one lane: opening, open or closed.

    The engine's thread calls `drain` and `ack`, the background's thread opens and closes, and a thread of the client
    calls `_arrived`.

    An idle lane has exactly one outstanding receive (it is "armed"), whose message is put into `_messages`. If the
    client's queue holds a message, arming hands it over at once, in the same call. That is also the cheapest way to
    take one (4 us; a receive with a timeout costs 100 us when there is nothing).
    """

    def __init__(self, lane: str, queue: int, context: AttachmentContext, topic: str = "") -> None:
        """Start to attach. `queue` is how many envelopes the client may prefetch; `topic` is the lane's partition, if
        it has partitions."""
        self.lane = lane
        self._topic = topic or lane
        self.queue = queue
        self.unacked = 0
        """Messages given out and not acked."""
        self.closed = False
        self.given_up = False
        """Whether the lane does not exist."""
        self._context = context
        self._consumer: Any = None
        self._given_back: ReturnedMessages | None = None
        self._returned: ReturnedMessages | None = None
        """Messages that the engine gave back. Those whose channel is missing are kept apart, in `_given_back`: if there
        are many, they are moved."""
        self._messages: deque[Any] = deque()
        self._armed = False
        self._arming = False
        self.left_to_newer = False
        """Whether it received an envelope of a later version and yields nothing more."""
        self._ahead = 0
        """Messages given out since a drain last ran empty, or a batch was not full."""
        self._opening = self._open()

    @property
    def open(self) -> bool:
        return self._consumer is not None

    # ------------------------------------------------------------- the engine's thread
    def drain(self, max_targets: int) -> tuple[list[Delivery], bool]:
        """See Lanes.drain."""
        deliveries: list[Delivery] = []
        consumer = self._consumer
        given_back, lacks = self._given_back, self._context.missing.lacks
        if consumer is None or given_back is None or self.closed or self.left_to_newer:
            return deliveries, True
        messages = self._messages
        now_s = self._context.clock.monotonic_s()
        room = max_targets
        envelope: Envelope | None = None
        while room > 0:
            if not messages and not self._fill(consumer):
                break
            message = messages.popleft()
            self._armed = False
            damage = ""
            try:
                envelope = decode_envelope(message.data(), envelope)
            except NewerFormat:
                if not self._refuse(message):
                    break
                continue
            except Malformed as error:
                left = salvaged(message.data())
                room -= MAX_CHUNK  # it may be large, and its letter: few per turn
                if left is None:
                    self._context.undecodable(self, message, error)
                    continue
                envelope, damage = left, left.damage
            room -= len(envelope.targets) or 1
            if not lacks(envelope.channel):
                deliveries.append(Delivery(envelope, message, now_s, damage))
            elif not self._leave_to_others(message, envelope):
                messages.appendleft(message)
                break
        given_back.start()
        self.unacked += len(deliveries)
        self._ahead = self._ahead + len(deliveries) if room <= 0 else 0
        return deliveries, room > 0

    def give_back(self, message: Any, envelope: Envelope | None = None, after_s: float | None = None) -> None:
        """Leave a message to any worker, including this one: see ReturnedMessages.put."""
        if self._given_back is not None:
            self._given_back.put(message, envelope, after_s)

    def _leave_to_others(self, message: Any, envelope: Envelope) -> bool:
        """Leave an envelope to workers that have its channel.

        Return False if there is no room for it now; the lane announces itself once there is.
        """
        missing = self._context.missing
        missing.note(envelope.channel, self.lane)
        full = self._given_back is not None and self._given_back.full
        if full or missing.tried(message, envelope.channel):
            moved = self._context.move_to_side_lane(self, message, envelope)
            if moved or full:
                return moved
        self.give_back(message, envelope)
        return True

    def _refuse(self, message: Any) -> bool:
        """Leave the message to workers that can read it. Return whether to continue draining the lane.

        At first only this message is given back, to any worker. If the whole lane is left, all messages behind it go
        too.
        """
        after_s = self._context.newer(self.lane)
        if after_s is not None:
            self.give_back(message, after_s=after_s)
            return True
        self.left_to_newer = True
        self._messages.clear()
        return False

    def _fill(self, consumer: Any) -> bool:
        """Take the next messages if there are any; arm the lane if there are none.

        While more messages are available than requested, whole batches are taken, which saves 1 us per message (of 3.8,
        ack included). A batch that is not full has waited 1 ms for more, so it is the last until the lane is ahead
        again.
        """
        if self._armed:
            return False
        batch_size = batch_messages(self.queue)
        if self._ahead >= batch_size:
            batch = self._take_batch(consumer)
            if len(batch) < batch_size:
                self._ahead = 0
            self._messages.extend(batch)
            if batch:
                return True
        self._armed = self._arming = True
        consumer.receive_async(self._arrived)
        self._arming = False
        return bool(self._messages)

    def _take_batch(self, consumer: Any) -> list[Any]:
        try:
            batch: list[Any] = consumer.batch_receive()
        except pulsar.PulsarException as error:  # closed meanwhile: arming reports it too and reopens it
            _log.debug("Receiving from the lane %s failed: %s", self.lane, error)
            return []
        return batch

    def ack(self, messages: Sequence[Any]) -> None:
        """Acknowledge messages. The client collects acks and sends them within 0.1 s; a lost ack means a copy later."""
        consumer = self._consumer
        if consumer is None or self.closed:
            return
        acknowledge = consumer.acknowledge_async
        for message in messages:
            acknowledge(message, ignore)
        self.unacked = max(0, self.unacked - len(messages))

    @property
    def returning(self) -> int:
        """Messages waiting to be given back."""
        return 0 if self._returned is None else self._returned.waiting

    def return_later(self, messages: Sequence[Any]) -> None:
        """Give back messages that were given out, after RETURN_AFTER_S."""
        returned = self._returned
        if returned is None or self.closed:
            return
        for message in messages:
            returned.put(message, after_s=RETURN_AFTER_S)
        returned.start()
        self.unacked = max(0, self.unacked - len(messages))

    def close(self, closed: Callable[[], None]) -> None:
        """Close the consumer in the background; unacked messages go to others. `closed` is called when that is done,
        from any thread."""
        self.closed = True
        self._context.background.do(partial(self._close, closed))

    # ------------------------------------------------------------- a client's thread
    def _arrived(self, result: Any, message: Any) -> None:
        """Store the result of the outstanding receive. This must neither raise nor arm again: the client would crash.

        While `_arming`, the engine is inside `receive_async` and checks the result itself right after it.
        """
        if result == OK:
            self._messages.append(message)
        elif not self.closed:
            self._context.background.do(self._lost)
        if not self._arming:
            self._context.ready(self.lane)

    # ------------------------------------------------------------- the background's thread
    def _open(self) -> Opening:
        opening = Opening(self._topic, self.queue, self._opened, self._gave_up)
        self._context.opener.open(opening)
        return opening

    def _opened(self, consumer: Any) -> None:
        if self.closed:
            consumer.close_async(ignore)
            return
        self._messages.clear()
        self._ahead = 0
        self.unacked = 0
        self._armed = True
        context = self._context
        ready = partial(context.ready, self.lane)
        self._given_back = ReturnedMessages(consumer, context.returner, context.missing, ready)
        self._returned = ReturnedMessages(consumer, context.returner, context.missing, ready)
        self._consumer = consumer
        consumer.receive_async(self._arrived)

    def _gave_up(self) -> None:
        self.given_up = True

    def _lost(self) -> None:
        """Attach again: the client gave up the consumer. (It repairs lost connections by itself.)"""
        if self._consumer is not None and not self.closed:
            _log.warning("The consumer of the lane %s was lost; attaching again", self.lane)
            self._consumer.close_async(ignore)
            self._consumer = None
            self._opening = self._open()

    def _close(self, closed: Callable[[], None]) -> None:
        self._opening.over = True
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            closed()
        else:
            consumer.close_async(lambda _result: closed())
