"""The fold of the control topic into the registry, so that a client that crashes midway loses nothing."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from backends.redis.registry.registry import ControlView
from backends.redis.skipped_records import CONTROL
from consumers.upkeep.folder import Folder, recheck
from dispatcher.model.errors import Malformed
from dispatcher.ports import StoredRecord
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import ControlRecord, Sealed, TaskRecord
from dispatcher.wire.outcome import EpochMark
from dispatcher.wire.submission import without_passed

_log = logging.getLogger(__name__)


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
