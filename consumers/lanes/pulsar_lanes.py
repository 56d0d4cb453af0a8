"""The lanes a worker is attached to, on Pulsar. Implements dispatcher.ports.Lanes."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pulsar

from backends.pulsar.client import position_of
from consumers.lanes.attachment import Attachment, AttachmentContext
from consumers.lanes.background import Background
from consumers.lanes.give_back import MAX_MOVING, MissingChannels
from consumers.lanes.newer import AbsentAttachment, NewerFormats, NewerSettings
from consumers.lanes.opening import Opener, OpenSettings
from consumers.lanes.partitioned import PartitionedAttachment
from consumers.lanes.prefetch import PrefetchBudget, PrefetchSettings, too_different
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError
from dispatcher.ports import DeadLetter, DeadLetters, Delivery, LaneInfo
from dispatcher.scheduling.read_ahead import largest_batch
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.lease import LaneKind

DEAD_LETTER_FORMAT = 1
_MAX_LETTERS = 8
"""Maximum undecodable messages of a lane whose letters are not stored yet: each may have 5 MiB."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LaneSettings:
    """Settings of a worker's lanes: prefetch, opening, and limits."""

    prefetch: PrefetchSettings = field(default_factory=PrefetchSettings)
    opening: OpenSettings = field(default_factory=OpenSettings)
    newer: NewerSettings = field(default_factory=NewerSettings)
    max_unacked: int = 40_000
    """Maximum unacked messages given out; at the limit, a lane yields nothing until some are acked. Together with its
    queue and the messages waiting to be given back it must stay below the 50,000 at which the broker stops a
    consumer."""


@dataclass
class _Lane:
    info: LaneInfo
    attachment: Attachment | PartitionedAttachment | AbsentAttachment
    prefetch_targets: int
    full: bool = False
    """Whether it yielded nothing because too many messages are unacked."""
    next_prefetch_targets: int | None = None
    """The prefetch to attach with once all its messages are acked."""


class PulsarLanes:
    """One Shared consumer per lane. The engine's thread calls it; nothing here blocks.

    `ready` is called with a lane that has something to drain, from any thread; it must be quick and must not raise. The
    lane may turn out to be empty, or may no longer be attached.
    """

    def __init__(
        self,
        client: pulsar.Client,
        ready: Callable[[str], None],
        dead_letters: DeadLetters,
        clock: Clock,
        settings: LaneSettings | None = None,
        missing: MissingChannels | None = None,
    ) -> None:
        self._missing = missing or MissingChannels()
        self._settings = settings or LaneSettings()
        self._ready = ready
        self._dead_letters = dead_letters
        self._clock = clock
        self._lanes: dict[str, _Lane] = {}
        self._newer = NewerFormats(clock, self._settings.newer)
        self._budget = PrefetchBudget(self._settings.prefetch)
        self._background = Background("lane-attacher")
        self._returner = Background("lane-returner")
        self._dead_lettered: deque[tuple[Attachment, Any]] = deque()
        """Undecodable messages whose dead letters are stored; added from any thread."""
        self._unstored: dict[str, set[object]] = {}
        """Letters of undecodable messages not stored yet, by lane."""
        opener = Opener(client, self._background, clock, self._settings.opening)
        self._context = AttachmentContext(
            opener=opener,
            background=self._background,
            clock=clock,
            ready=ready,
            undecodable=self._undecodable,
            newer=self._refuse_newer,
            missing=self._missing,
            move_to_side_lane=self._move_to_side_lane,
            returner=self._returner,
        )
        self._moving = 0
        """Envelopes on their way to a side lane."""
        self._moved: deque[tuple[Attachment, Any, Envelope, Exception | None]] = deque()
        """Envelopes that arrived there or failed to; added from any thread."""
        self._closing = 0
        self._all_closed = threading.Condition()

    # ------------------------------------------------------------- the Lanes port
    def attach(self, lane: LaneInfo, prefetch_targets: int) -> None:
        """Attach a lane in the background.

        For an attached lane this may replace its consumer by one with a larger or smaller queue, once all its messages
        are acked. A lane that was given up is tried again.
        """
        known = self._lanes.get(lane.name)
        if known is not None and not known.attachment.given_up:
            known.info, known.prefetch_targets = lane, prefetch_targets
            if known.attachment.left_to_newer:
                return
            differs = self._queue_differs(known.attachment.queue, lane, prefetch_targets)
            free = known.attachment.open and not known.attachment.unacked
            known.next_prefetch_targets = prefetch_targets if differs and not free else None
            if not prefetch_targets and not differs:
                self._budget.give_back(lane.name)
            if not (differs and free):
                return
        self.detach(lane.name)
        self._attach(lane, prefetch_targets)

    def _attach(self, lane: LaneInfo, prefetch_targets: int) -> None:
        """Open the lane's consumer, or stay out of the lane and try again later."""
        left_for_s = self._newer.left_for_s(lane.name)
        if left_for_s:
            self._lanes[lane.name] = _Lane(lane, AbsentAttachment(), prefetch_targets)
            self._background.do(partial(self._ready, lane.name), left_for_s + 0.05)
        else:
            queue = self._budget.take(lane, prefetch_targets)
            self._lanes[lane.name] = _Lane(lane, _attachment(lane, queue, self._context), prefetch_targets)

    def detach(self, lane: str) -> None:
        """Detach a lane; its unacked messages are delivered to others. Does nothing for a lane that is not attached."""
        known = self._lanes.pop(lane, None)
        if known is None:
            return
        self._budget.give_back(lane)
        with self._all_closed:
            self._closing += 1
        known.attachment.close(self._one_closed)

    def drain(self, lane: str, max_targets: int) -> tuple[list[Delivery], bool]:
        """Return the lane's available deliveries in order, and whether it ran empty. An empty lane announces itself
        when something arrives.

        The deliveries may exceed max_targets by less than one envelope. Never blocks.
        """
        if self._dead_lettered:
            self._ack_dead_lettered()
        if self._moved:
            self._settle_moved()
        known = self._lanes.get(lane)
        if known is None:
            return [], True
        if known.attachment.left_to_newer:
            self._keep_out(known)
            return [], True
        if len(self._unstored.get(lane, ())) >= _MAX_LETTERS:
            return [], True  # each letter that is stored announces the lane
        if known.attachment.unacked + known.attachment.returning >= self._settings.max_unacked:
            known.full = True
            return [], True
        return known.attachment.drain(max_targets)

    def ack(self, lane: str, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge deliveries. Does nothing for a detached lane: copies are recognized by their identity."""
        known = self._lanes.get(lane)
        if known is None:
            return
        known.attachment.ack([delivery.handle for delivery in deliveries])
        self._after_release(known)

    def give_back(self, lane: str, deliveries: Sequence[Delivery]) -> None:
        """Give deliveries back after a while, see Lanes.give_back. Until then `max_unacked` counts them too."""
        known = self._lanes.get(lane)
        if known is not None:
            known.attachment.return_later([delivery.handle for delivery in deliveries])
            self._after_release(known)

    def _after_release(self, known: _Lane) -> None:
        if known.attachment.left_to_newer:
            self._keep_out(known)
        elif known.next_prefetch_targets is not None and not known.attachment.unacked:
            self.attach(known.info, known.next_prefetch_targets)
        elif known.full and known.attachment.unacked < 3 * self._settings.max_unacked // 4:
            known.full = False
            self._ready(known.info.name)

    # ------------------------------------------------------------- for the worker
    def attached(self) -> int:
        """Return the number of lanes whose consumer is open."""
        return sum(known.attachment.open for known in self._lanes.values())

    def opening(self) -> object | None:
        """Return the action of the thread that opens and closes consumers; None if it waits."""
        return self._background.under_way

    def returning(self) -> object | None:
        """Return the action of the thread that gives messages back; None if it waits."""
        return self._returner.under_way

    def unacked(self, lane: str) -> int:
        """Return the number of the lane's messages given out and not acked."""
        known = self._lanes.get(lane)
        return 0 if known is None else known.attachment.unacked

    def queue(self, lane: str) -> int:
        """Return how many envelopes the lane's consumer may prefetch; 0 if it is not attached."""
        known = self._lanes.get(lane)
        return 0 if known is None else known.attachment.queue

    def stop(self, deadline_s: float) -> bool:
        """Detach all lanes. Return False if some consumers were still open after `deadline_s` seconds.

        Closing the client ends those.
        """
        until_s = self._clock.monotonic_s() + deadline_s
        for lane in list(self._lanes):
            self.detach(lane)
        with self._all_closed:
            closed = self._all_closed.wait_for(lambda: not self._closing, deadline_s)
        if not closed:
            _log.warning("%d lanes were not detached within %g s", self._closing, deadline_s)
        for thread in (self._returner, self._background):
            closed = thread.stop(max(0.1, until_s - self._clock.monotonic_s())) and closed
        return closed

    # ------------------------------------------------------------- internal
    def _queue_differs(self, queue: int, lane: LaneInfo, prefetch_targets: int) -> bool:
        """Return whether a lane with this queue should have another."""
        best = self._budget.affordable_queue(lane, prefetch_targets)
        return too_different(queue, best) or (not prefetch_targets and queue > best)

    def _one_closed(self) -> None:
        with self._all_closed:
            self._closing -= 1
            if not self._closing:
                self._all_closed.notify_all()

    # ------------------------------------------------------------- envelopes of a later version
    def newer_lanes(self) -> list[str]:
        """Return the lanes that hold envelopes of a later version. May be called from any thread."""
        return self._newer.names()

    def _refuse_newer(self, lane: str) -> float | None:
        known = self._lanes[lane]
        if self._newer.refuse(known.info):
            return self._settings.newer.again_s
        _log.warning(
            "The lane %s holds envelopes of a later version; it is left to newer workers for %.0f s. "
            "Upgrade the remaining workers.",
            lane,
            self._newer.left_for_s(lane),
        )
        self._ready(lane)
        self._background.do(partial(self._ready, lane), self._settings.newer.finish_s)
        return None

    def _keep_out(self, known: _Lane) -> None:
        """Detach from a lane once its envelopes in hand are settled, and attach again later."""
        if isinstance(known.attachment, AbsentAttachment) and self._newer.left_for_s(known.info.name):
            return
        if known.attachment.unacked and not self._newer.is_finished(known.info.name):
            return
        self.detach(known.info.name)
        self._attach(known.info, known.prefetch_targets)

    # ------------------------------------------------------------- envelopes of channels that the worker lacks
    def _move_to_side_lane(self, attachment: Attachment, message: Any, envelope: Envelope) -> bool:
        """Publish an envelope to the side lane of its app and channel, where nothing else waits behind it."""
        missing, kind = self._missing, self._lanes[attachment.lane].info.kind
        if missing.move is None or kind not in (LaneKind.SHARED, LaneKind.RETRY) or self._moving >= MAX_MOVING:
            return False
        attachment.unacked += 1
        self._moving += 1

        def stored(error: Exception | None) -> None:
            self._moved.append((attachment, message, envelope, error))
            self._ready(attachment.lane)

        missing.move(envelope, stored)
        return True

    def _settle_moved(self) -> None:
        while self._moved:
            attachment, message, envelope, error = self._moved.popleft()
            self._moving -= 1
            if error is None:
                attachment.ack([message])
            else:
                attachment.unacked = max(0, attachment.unacked - 1)
                attachment.give_back(message, envelope)

    # ------------------------------------------------------------- messages that are no envelopes
    def _undecodable(self, attachment: Attachment, message: Any, error: FairlaneError) -> None:
        """Store the body of an undecodable message as a dead letter, then ack it: it is not lost and blocks nothing.

        Its position in the lane distinguishes copies.
        """
        _log.error("%s Lane %s; it goes to the dead letters.", error, attachment.lane)
        attachment.unacked += 1
        letter = DeadLetter(
            format=DEAD_LETTER_FORMAT,
            task="",
            writer=f"{attachment.lane} {position_of(message.message_id())}",
            sequence=0,
            attempt=0,
            at_ms=self._clock.wall_ms(),
            channel="",
            positions=[],
            targets=[],
            outcomes=[],
            reasons=[error.cause],
            body=message.data(),
            lane=attachment.lane,
        )
        token = object()
        self._unstored.setdefault(attachment.lane, set()).add(token)
        self._dead_letters.publish(letter, partial(self._letter_stored, attachment, message, token))

    def _letter_stored(self, attachment: Attachment, message: Any, token: object, error: Exception | None) -> None:
        """Note the result of storing a letter. Called from any thread.

        Without a receipt the message stays unacked and is delivered again.
        """
        self._unstored[attachment.lane].discard(token)
        if error is None:
            self._dead_lettered.append((attachment, message))
        self._ready(attachment.lane)

    def _ack_dead_lettered(self) -> None:
        while self._dead_lettered:
            attachment, message = self._dead_lettered.popleft()
            attachment.ack([message])


def _attachment(lane: LaneInfo, queue: int, context: AttachmentContext) -> Attachment | PartitionedAttachment:
    if not lane.partitions:
        return Attachment(lane.name, queue, context)
    return PartitionedAttachment(lane.name, queue, largest_batch(lane.chunk), lane.partitions, context)
