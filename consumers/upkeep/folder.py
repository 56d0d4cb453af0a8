"""The folds of the control topic and of each outcome topic into the view: read from the view's cursor, apply in order,
move the cursor. A client that crashes midway loses nothing.
"""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from backends.redis.registry.registry import ControlView
from backends.redis.skipped_records import CONTROL, SkippedRecords
from dispatcher.model.errors import FairlaneError, Malformed, Unreachable
from dispatcher.ports import OpenReader, StoredRecord
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import ControlRecord, Sealed, TaskRecord
from dispatcher.wire.outcome import EpochMark
from dispatcher.wire.submission import without_passed
from quotas.fold import RedisFold

_RECHECK_READ_S = 1.0
_log = logging.getLogger(__name__)
Held = Callable[[], bool]
"""Returns whether this worker still holds the job."""


@dataclass(frozen=True)
class FoldSettings:
    """Settings of a fold."""

    batch: int = 200
    """The maximum number of records applied in one script."""
    poll_s: float = 0.25
    """How long one read waits."""
    idle_check_s: float = 5.0
    """How often an idle fold checks that the view is unchanged."""
    pause_s: float = 0.5
    """The pause between two tries when a server is gone."""


@dataclass(eq=False)
class Folder(ABC):
    """Reads one topic into the view for as long as this worker holds the job of folding it."""

    open_reader: OpenReader
    held: Held
    finished: Callable[[list[str]], None]
    """Called with the tasks that are now complete."""
    settings: FoldSettings
    skipped: SkippedRecords

    @property
    @abstractmethod
    def topic(self) -> str:
        """The topic's name in the log."""

    @abstractmethod
    def fold_term(self, stop: threading.Event) -> None:
        """Fold from one reading of the cursor until the job is no longer ours or the cursor was moved by another."""

    def run(self, stop: threading.Event) -> None:
        """Fold until `stop` is set, while the job is held. If Pulsar or Redis is gone, log it once and wait for them.

        This also applies to refusals and missing topics: ending the thread would end one worker after another.
        """
        reachable, pause_s = True, self.settings.pause_s
        while not stop.is_set():
            if not self.held():
                stop.wait(pause_s / 5)
                continue
            try:
                self.fold_term(stop)
            except FairlaneError as error:
                if reachable:
                    level = logging.WARNING if isinstance(error, Unreachable) else logging.ERROR
                    _log.log(level, "fold of %s waits: %s", self.topic, error)
                reachable = False
                stop.wait(pause_s)
            else:
                if not reachable:
                    _log.info("fold of %s continues", self.topic)
                reachable = True

    def follow(
        self,
        cursor: str | None,
        apply: Callable[[str | None, Sequence[StoredRecord]], bool],
        current: Callable[[], str | None],
        stop: threading.Event,
    ) -> None:
        """Apply what follows the cursor until the job is no longer ours or the view's cursor is elsewhere.

        `apply` applies the records and moves the view's cursor; it returns False if the view's cursor was not as given.
        `current` reads the view's cursor.
        """
        settings, empty_reads = self.settings, 0
        check_every = max(1, round(settings.idle_check_s / max(settings.poll_s, 0.001)))
        with closing(self.open_reader(cursor)) as reader:
            while self.held() and not stop.is_set():
                records = reader.read(settings.batch, settings.poll_s)
                if records:
                    if not apply(cursor, records):
                        stop.wait(settings.poll_s)
                        return
                    cursor = records[-1].position
                    continue
                empty_reads += 1
                if empty_reads % check_every == 0 and current() != cursor:
                    return


@dataclass(eq=False)
class OutcomeFolder(Folder):
    """Folds one outcome topic.

    Two folders at once are harmless: the view refuses a batch that does not start at its cursor. An emptied view has no
    cursor; unless a snapshot is restored first, the fold then starts at the topic's beginning.
    """

    partition: int
    fold: RedisFold

    @property
    def topic(self) -> str:
        return f"outcomes-{self.partition}"

    def fold_term(self, stop: threading.Event) -> None:
        current = partial(self.fold.cursor, self.partition)
        cursor = current()
        if cursor:
            recheck(self.skipped, str(self.partition), self.open_reader, partial(self._apply_again, cursor))
        self.follow(cursor, self._apply, current, stop)

    def _apply_again(self, cursor: str, records: Sequence[StoredRecord]) -> None:
        """Apply skipped records. Raise Unreachable if another folder has moved the view's cursor."""
        if records and not self.fold.apply(self.partition, cursor, cursor, *_columns(records)).applied:
            raise Unreachable(
                f"Another worker has advanced the view of outcomes-{self.partition}.", "The fold is tried again."
            )

    def _apply(self, expected: str | None, records: Sequence[StoredRecord]) -> bool:
        """Apply the records. Return False if the cursor is not at `expected`, or a snapshot is being restored."""
        result = self.fold.apply(self.partition, expected, records[-1].position, *_columns(records))
        if result.finished:
            self.finished(list(result.finished))
        if not result.applied and result.cursor != (expected or ""):
            _log.info("outcomes-%d: the view is at another position; reading on from there", self.partition)
        return result.applied


def _columns(records: Sequence[StoredRecord]) -> tuple[list[bytes], list[str]]:
    """Return bodies and positions."""
    return [record.body for record in records], [record.position for record in records]


def recheck(
    skipped: SkippedRecords, topic: str, open_reader: OpenReader, apply: Callable[[Sequence[StoredRecord]], None]
) -> None:
    """Read and apply records that other versions skipped, in topic order. Both folds do this when they begin.

    Control records may be applied in any order. For outcome records, the first final outcome of a target counts;
    targets that were closed or recorded meanwhile keep their outcome.

    `apply` stores the positions of those that it cannot read either, under this version. Raises Unreachable; all of
    them are then read again the next time.
    """
    positions = skipped.of_others(topic)
    if not positions:
        return
    records = [record for position in positions if (record := _at(position, open_reader)) is not None]
    apply(records)
    skipped.forget(topic, sorted(set(positions) & set(skipped.of_others(topic))))
    _log.info("%d records of %s that another version skipped were checked again", len(records), topic)


def _at(position: str, open_reader: OpenReader) -> StoredRecord | None:
    """Return the record stored at a position, or None if the topic has deleted it."""
    with closing(open_reader(_before(position))) as reader:
        while not reader.at_end():
            records = reader.read(1, _RECHECK_READ_S)
            if records and records[0].position >= position:
                return records[0] if records[0].position == position else None
    return None


def _before(position: str) -> str:
    """Return a position after which reading begins with the entry that holds this position."""
    ledger, entry, _ = position.split(":")
    return f"{ledger}:{int(entry) - 1:020d}:{0:06d}"


@dataclass(eq=False)
class ControlFolder(Folder):
    """Applies every record of the control topic to the registry and keeps the cursor there.

    The cursor is moved after the records before it are applied, and only in the epoch (None: there is no view) that was
    current before: a view emptied in between never skips the records it lost. The epoch's mark counts only with that
    move, since a folder may still be reading the end of the topic when a new view needs it from the beginning.
    """

    epoch: Callable[[], str | None]
    view: ControlView
    topic = CONTROL

    def fold_term(self, stop: threading.Event) -> None:
        epoch = self.epoch()
        if epoch is None:
            stop.wait(self.settings.poll_s)
            return
        cursor = self.view.cursor()
        recheck(self.skipped, CONTROL, self.open_reader, self._apply_again)
        self.follow(cursor, partial(self._advance, epoch), self.view.cursor, stop)

    def _advance(self, epoch: str, cursor: str | None, records: Sequence[StoredRecord]) -> bool:
        """Apply the records and move the cursor. Return False if it is elsewhere by now, or the epoch is another."""
        marked, sealed = self._apply(records, epoch)
        moved = self.view.move_cursor(cursor, records[-1].position, epoch, marked=marked)
        if moved:
            self._finish(sealed)
        return moved

    def _apply_again(self, records: Sequence[StoredRecord]) -> None:
        self._finish(self._apply(records, "")[1])

    def _apply(self, records: Sequence[StoredRecord], epoch: str) -> tuple[bool, list[str]]:
        """Apply the records. Store the positions of skipped ones before the cursor moves past them.

        Return whether the epoch's mark is among them, and the tasks that they complete if all their targets have an
        outcome.
        """
        readable, skipped = _read(records)
        self.skipped.keep(CONTROL, skipped)
        self.view.apply_all(without_passed([pair for pair in readable if not isinstance(pair[1], EpochMark)]))
        control_records = [record for _, record in readable]
        marked = any(isinstance(record, EpochMark) and record.epoch == epoch for record in control_records)
        return marked, [record.task for record in control_records if isinstance(record, Sealed | TaskRecord)]

    def _finish(self, sealed: Sequence[str]) -> None:
        if complete := self.view.complete_among(sealed):
            self.finished(list(complete))


def _read(records: Sequence[StoredRecord]) -> tuple[list[tuple[str, ControlRecord]], dict[str, str]]:
    """Return the records with their original positions, and the reasons for skipped records by position."""
    readable: list[tuple[str, ControlRecord]] = []
    skipped: dict[str, str] = {}
    for record in records:
        try:
            readable.append(read_control(record.position, record.body))
        except Malformed as error:
            _log.error("control record %s is skipped: %s", record.position, error.cause)
            skipped[record.position] = error.cause
    return readable, skipped
