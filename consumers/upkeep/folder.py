"""The fold of one outcome topic into the view: read from the view's cursor, apply in order, move the cursor."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from consumers.upkeep.recheck import Kept, recheck
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.ports import Fold, OpenReader, StoredRecord

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


class OutcomeFolder:
    """Folds one outcome topic for as long as this worker is elected to do so.

    Two folders at once are harmless: the view refuses a batch that does not start at its cursor. An emptied view has no
    cursor, so the fold then starts from the topic's beginning by itself.
    """

    def __init__(
        self,
        partition: int,
        fold: Fold,
        open_reader: OpenReader,
        held: Held,
        finished: Callable[[list[str]], None],
        settings: FoldSettings,
        kept: Kept | None = None,
    ) -> None:
        """kept: this topic's skipped records. None: they are not read again."""
        self._kept = kept
        self._partition = partition
        self._fold = fold
        self._open_reader = open_reader
        self._held = held
        self._finished = finished
        self._settings = settings

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set. Waits for a server that is gone."""
        run_while_held(self._term, self._held, stop, self._settings.pause_s, f"fold of outcomes-{self._partition}")

    def _term(self, stop: threading.Event) -> None:
        """Fold from one reading of the cursor until the job is no longer ours or the cursor was moved by another."""
        cursor = self._fold.cursor(self._partition)
        if self._kept is not None and cursor:
            recheck(self._kept, str(self._partition), self._open_reader, partial(self._apply_again, cursor))
        reader = self._open_reader(cursor)
        idle = IdleWatch(self._settings)
        try:
            while self._held() and not stop.is_set():
                records = reader.read(self._settings.batch, self._settings.poll_s)
                if records:
                    moved = self._apply(cursor, records)
                    if moved is None:
                        stop.wait(self._settings.poll_s)
                        return
                    cursor = moved
                elif idle.due() and self._fold.cursor(self._partition) != cursor:
                    return
        finally:
            reader.close()

    def _apply_again(self, cursor: str, records: Sequence[StoredRecord]) -> None:
        """Apply skipped records. Raise Unreachable if another folder has moved the view's cursor."""
        if records and not self._fold.apply(self._partition, cursor, cursor, *_columns(records)).applied:
            raise Unreachable(
                f"Another worker has advanced the view of outcomes-{self._partition}.", "The fold is tried again."
            )

    def _apply(self, expected: str | None, records: Sequence[StoredRecord]) -> str | None:
        """Apply the records. Return the new cursor, or None if the view's cursor is not at `expected`."""
        result = self._fold.apply(self._partition, expected, records[-1].position, *_columns(records))
        if result.finished:
            self._finished(list(result.finished))
        if not result.applied:
            if result.cursor == (expected or ""):
                return None  # a snapshot is being restored
            _log.info("outcomes-%d: the view is at another position; reading on from there", self._partition)
            return None
        return records[-1].position


def _columns(records: Sequence[StoredRecord]) -> tuple[list[bytes], list[str]]:
    """Return bodies and positions."""
    return [record.body for record in records], [record.position for record in records]


class IdleWatch:
    """Counts reads that found nothing, and says when to check the view."""

    def __init__(self, settings: FoldSettings) -> None:
        self._every = max(1, round(settings.idle_check_s / max(settings.poll_s, 0.001)))
        self._empty_reads = 0

    def due(self) -> bool:
        self._empty_reads += 1
        if self._empty_reads < self._every:
            return False
        self._empty_reads = 0
        return True


def run_while_held(
    term: Callable[[threading.Event], None], held: Held, stop: threading.Event, pause_s: float, what: str
) -> None:
    """Run `term` repeatedly while `held`. If Pulsar or Redis is gone, log it once and wait for them.

    This also applies to refusals and missing topics: ending the thread would end one worker after another.
    """
    reachable = True
    while not stop.is_set():
        if not held():
            stop.wait(pause_s / 5)
            continue
        try:
            term(stop)
        except FairlaneError as error:
            if reachable:
                level = logging.WARNING if isinstance(error, Unreachable) else logging.ERROR
                _log.log(level, "%s waits: %s", what, error)
            reachable = False
            stop.wait(pause_s)
        else:
            if not reachable:
                _log.info("%s continues", what)
            reachable = True
