"""Begin a view in an empty Redis, and determine how far the topics must be read before it may grant anything.

The state is in the epoch itself (a hash in Redis) and in the topics. Repeating a step does no harm, so a worker
that dies at any point is followed by another that continues from there:

    no epoch -> begun -> (newest snapshot restored) -> announced in the control topic
             -> (the longest claim has ended) -> marked -> ready

`ready` is set by the folds, in the same scripts that read the last of the marks.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from backends.redis.epochs import Epoch, Epochs
from backends.redis.view import CLAIM_MAX_MS
from backends.redis.view_records import ViewRecords
from consumers.upkeep.folder import Held
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.model.task import DAY_MS
from dispatcher.model.view_home import EarlierViews, held_elsewhere, number_of, read_views
from dispatcher.ports import ControlLog, OpenReader, OutcomeTopics
from dispatcher.wire.checks.control_checks import MAX_CLAIM_MS
from dispatcher.wire.control import FORMAT as CONTROL_FORMAT
from dispatcher.wire.control import NO_EPOCH, EpochStarted, Restated
from dispatcher.wire.outcome import FORMAT as OUTCOME_FORMAT
from dispatcher.wire.outcome import EpochMark

_log = logging.getLogger(__name__)
_NOT_HELD_S = 0.1


@dataclass(frozen=True)
class RebuildSettings:
    """Settings of the rebuild."""

    partitions: int
    """The number of outcome topics."""
    claim_max_ms: int = CLAIM_MAX_MS
    """The longest claim that this worker makes or knows of."""
    poll_s: float = 1.0
    """The time between two checks of a ready view."""
    remark_s: float = 30.0
    """Marks that were not read within this time are written again."""
    address: str = ""
    """The address of this Redis."""


@dataclass(frozen=True)
class RebuildPorts:
    """The ports of a Rebuilder, which it reads and writes: the epoch, the topics, the view's cursor."""

    epochs: Epochs
    control: ControlLog
    outcomes: OutcomeTopics
    open_control: OpenReader
    """Reads the control topic from a position."""
    cursor: Callable[[], str | None] = lambda: None
    """Returns the position up to which the view has read the control topic; None: nothing. Raises Unreachable."""


@dataclass(eq=False)
class Rebuilder:
    """Rebuilds the view. Runs in every worker; only the elected one acts."""

    ports: RebuildPorts
    held: Held
    """Whether this worker holds the job."""
    clock: Clock
    new_id: Callable[[], str]
    settings: RebuildSettings
    restore: Callable[[str], None] | None = None
    """Puts the newest snapshot, if there is one, into the view of an epoch, and ends the restore; it raises
    Unreachable."""
    _marked_s: float = 0.0
    _waits: tuple[str, float] = ("", 0.0)
    """An epoch that waits for earlier claims, and until when it does by our own clock."""

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set. Waits for a server that is gone."""
        while not stop.is_set():
            pause_s = _NOT_HELD_S
            if self.held():
                try:
                    pause_s = self.step()
                except FairlaneError as error:  # a refusal would end one worker after another
                    level = logging.DEBUG if isinstance(error, Unreachable) else logging.ERROR
                    _log.log(level, "rebuild waits: %s", error)
                    pause_s = self.settings.poll_s
            stop.wait(pause_s)

    def restate(self) -> None:
        """Announce a complete view once more. Raises Unreachable, and Refused as check_home.

        The control topic keeps records for some days only, and a view begun after that must still learn of earlier
        views.
        """
        self.check_home()
        epoch = self.ports.epochs.epoch()
        if epoch is not None and epoch.ready:
            self.ports.control.append(self._started(epoch.id, epoch.address, epoch.claim_ms))

    def check_home(self) -> None:
        """Raise Refused if the view has moved to another Redis and no worker here has read that yet.

        It may have been adopted there while no worker ran. Call this before anything is granted. Raises Unreachable.
        """
        epoch = self.ports.epochs.epoch()
        if epoch is None or not epoch.announced:
            return  # announcing reveals it
        views = read_views(self.ports.open_control(self.ports.cursor()), epoch.id)
        if views.is_elsewhere(self.settings.address):
            self.ports.epochs.refuse_epoch(epoch.id, views.address)
            raise held_elsewhere(views.address, self.settings.address)

    def announce_claims(self) -> None:
        """Record in the control topic how long this worker's claims last, if that is longer than the standard wait.

        Call this before the first claim is made. Raises Unreachable.
        """
        claim_ms = min(self.settings.claim_max_ms, MAX_CLAIM_MS)
        if claim_ms > CLAIM_MAX_MS:
            self.ports.control.append(self._started(NO_EPOCH, "", claim_ms))

    def step(self) -> float:
        """Take the next step. Return the seconds until the next check. Raises Unreachable."""
        epoch = self.ports.epochs.epoch()
        if epoch is not None and (epoch.foreign or epoch.deposed):
            return self.settings.poll_s
        if epoch is None or epoch.broken:
            return self._begin(epoch)
        if epoch.early_ms > 0:
            return self._move_wait(epoch)
        if epoch.ready:
            return self.settings.poll_s if epoch.address == self.settings.address else self._name(epoch)
        if epoch.restoring and self.restore is not None:
            self.restore(epoch.id)
        if not epoch.announced:
            return self._announce(epoch)
        wait_s = self._left_s(epoch)
        return min(wait_s, self.settings.poll_s) if wait_s > 0 else self._mark_if_due(epoch)

    def _move_wait(self, epoch: Epoch) -> float:
        """Begin the wait again: Redis' clock was set back, and nothing would be granted for as long as that step."""
        _log.warning(
            "Redis' clock was set back by %d s or more; the wait for earlier claims begins again",
            epoch.early_ms // 1000,
        )
        self.ports.epochs.move_wait(epoch.id)
        return 0.0

    def _left_s(self, epoch: Epoch) -> float:
        """Return how long the view waits for earlier claims, also by our own clock: Redis' may be set forward."""
        now_s, wait_s = self.clock.monotonic_s(), epoch.wait_ms / 1000
        until_s = self._waits[1] if self._waits[0] == epoch.id else now_s
        self._waits = epoch.id, max(until_s, now_s + wait_s)
        return self._waits[1] - now_s

    def _mark_if_due(self, epoch: Epoch) -> float:
        """Write the marks; write them again if they have not been read for a long time."""
        if not epoch.marked or self.clock.monotonic_s() - self._marked_s > self.settings.remark_s:
            return self._mark(epoch.id)
        return self.settings.poll_s / 5

    def _begin(self, broken: Epoch | None) -> float:
        """Begin an epoch, always with the wait: only the control topic can tell that there were no earlier claims."""
        epoch, replaces = self.new_id(), "" if broken is None else broken.id
        settings, restoring = self.settings, self.restore is not None
        if self.ports.epochs.begin_epoch(
            epoch, settings.claim_max_ms, settings.partitions, restoring=restoring, replaces=replaces
        ):
            if broken is not None:
                _log.error("a script failed half-way (%s), and the view is broken", broken.broken)
            _log.info("Redis has no complete view; rebuilding it from Pulsar as epoch %s", epoch)
        return 0.0

    def _announce(self, epoch: Epoch) -> float:
        """Announce the view. The address is included only if no other Redis is known to hold a view.

        Workers that read an address other than their own stop.
        """
        before = self._before(epoch.id, self.ports.control.append(self._started(epoch.id, "")))
        if before.is_elsewhere(self.settings.address) and not epoch.adopted:
            _log.error("another Redis, %s, holds the view of this installation; none is built here", before.address)
            self.ports.epochs.refuse_epoch(epoch.id, before.address)
            return 0.0
        if before.number >= max(1, number_of(epoch.id)):
            self.ports.epochs.renumber(epoch.id, before.number)
            return 0.0
        if before.epochs:
            claim_ms = max(epoch.claim_ms, before.claim_ms)
            _log.info("epoch %s grants nothing for %d ms: claims before it may still be in use", epoch.id, claim_ms)
        return self._name(epoch, first=not before.epochs, claim_ms=before.claim_ms)

    def _name(self, epoch: Epoch, *, first: bool = False, claim_ms: int = 0) -> float:
        """Announce the address of the view, whose server may get another name."""
        claim_ms = max(claim_ms, epoch.claim_ms)
        position = self.ports.control.append(self._started(epoch.id, self.settings.address, claim_ms))
        self.ports.epochs.epoch_announced(epoch.id, first=first, position=position, claim_ms=claim_ms)
        return 0.0

    def _started(self, epoch: str, address: str, claim_ms: int = 0) -> EpochStarted:
        return EpochStarted(CONTROL_FORMAT, epoch, self.clock.wall_ms(), address, claim_ms)

    def _before(self, epoch: str, position: str) -> EarlierViews:
        """Read the facts about other views from the control topic, up to our own record.

        Claims are made only under an epoch that is ready, and an epoch is announced before it is ready. So without
        another epoch there is no claim.
        """
        reader = self.ports.open_control(None)
        views, reached = EarlierViews(), ""
        try:
            while reached < position:
                records = reader.read(1000, 5.0)
                if not records:
                    raise Unreachable(
                        "The control topic cannot be read to its end.", "Check the Pulsar broker (`fairlane doctor`)."
                    )
                for record in records:
                    if record.position < position:
                        views = views.and_then(record.body, epoch)
                reached = records[-1].position
        finally:
            reader.close()
        return views

    def _mark(self, epoch: str) -> float:
        mark = EpochMark(OUTCOME_FORMAT, epoch)
        self.ports.control.append(mark)
        for partition in range(self.settings.partitions):
            self.ports.outcomes.append(partition, mark)
        self._marked_s = self.clock.monotonic_s()
        self.ports.epochs.epoch_marked(epoch)
        return 0.0


@dataclass(frozen=True)
class RestateSettings:
    """How often and how records are restated."""

    every_ms: int = DAY_MS
    """Time between two runs, a small part of the topic's retention. Younger records are not restated."""
    early_ms: int = 3_600_000
    """Maximum difference between the clocks that date the ends of tasks."""
    at_once: int = 200
    """Tasks restated at once."""


@dataclass(eq=False)
class Restater:
    """Republishes old records, so that a view can always be rebuilt from the control topic alone. A housekeeper's
    chore.

    Otherwise the topic would delete settings and long-lived tasks that still apply. Each record keeps its original
    position, so concurrent changes and concurrent runs do no harm. But a task may end meanwhile, and the topic deletes
    its end before it deletes the restated task behind it. So the ends of such tasks are restated the next time.
    """

    records: ViewRecords
    control: ControlLog
    epoch: Callable[[], Epoch | None]
    announce: Callable[[], None]
    """Announces the view once more (`Rebuilder.restate`)."""
    clock: Clock
    settings: RestateSettings = field(default_factory=RestateSettings)

    def round(self) -> None:
        """Restate everything if it is due and the view is complete. Raises Unreachable; it is then done again."""
        now_ms, last_ms, epoch = self.clock.wall_ms(), self.records.last_ms(), self._ready_epoch()
        # A date in the future comes from a clock that was wrong.
        if not epoch or 0 <= now_ms - last_ms < self.settings.every_ms:
            return
        # Test that the date can be stored: with a full Redis the work would be repeated over and over.
        self.records.restated(last_ms)
        self.announce()
        count = 0
        for page in self._pages(now_ms, last_ms):
            self.control.append_many(page)
            count += len(page)
        # If the view was emptied meanwhile, only a part was read.
        if self._ready_epoch() == epoch:
            self.records.restated(now_ms)
        _log.info("%d old records are republished in the control topic", count)

    def _pages(self, now_ms: int, last_ms: int) -> Iterator[Sequence[Restated]]:
        every_ms, early_ms, at_once = self.settings.every_ms, self.settings.early_ms, self.settings.at_once
        yield self.records.settings()
        tasks = self.records.tasks(now_ms - every_ms, last_ms - early_ms, every_ms - early_ms)
        for first in range(0, len(tasks), at_once):
            yield self.records.of_tasks(tasks[first : first + at_once])

    def _ready_epoch(self) -> str:
        """Return the view's epoch if the view is complete, else an empty text."""
        epoch = self.epoch()
        return epoch.id if epoch is not None and epoch.ready else ""
