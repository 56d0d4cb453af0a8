"""Journals of moves on disk: one file for each run, a lock that one run at a time holds, and the mark that stops it."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from backends.durable_files import sync
from dispatcher.clock import Clock
from dispatcher.model.errors import NotFound, Refused
from estate.journal import JournalEntry, journal_line, parse_journal

_UNDONE = ".undone"
KEPT_JOURNALS = 50


@dataclass(frozen=True)
class MoveRun:
    """A run that is under way: its journal, and whether it should stop."""

    path: Path
    record: Callable[[JournalEntry], None]
    stop_mark: Path

    def must_stop(self) -> bool:
        return self.stop_mark.exists()


class MoveJournals:
    """The journals in one folder. Runs on other machines have folders of their own, and are not seen."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def run(self, clock: Clock) -> Iterator[MoveRun]:
        """Begin a run. Raises Refused if another one is under way here."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stop_mark = self._folder / "stop"
        with self._locked():
            stop_mark.unlink(missing_ok=True)
            path = self._folder / f"{clock.wall_ms():015d}-{os.getpid()}.jsonl"
            with path.open("xb") as file:
                sync(self._folder)  # or a crash of the machine could lose the file, whose lines are synced
                yield MoveRun(path, lambda entry: _append(file, journal_line(entry, clock.wall_ms())), stop_mark)
            self._forget_old()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._folder / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fix = "Wait for its end, or end it with `fairlane estate balance --stop`."
                raise Refused("Moves are under way on this machine.", fix) from None
            yield

    def stop(self) -> None:
        """Ask the run that is under way to begin no further move. Raises NotFound if there is none."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with self._locked():
                raise NotFound("No moves are under way on this machine.")
        except Refused:
            (self._folder / "stop").touch()

    def last(self) -> tuple[Path, list[JournalEntry]]:
        """Return the last journal that has moves and was not undone. Raises NotFound; InvalidInput."""
        for path in sorted(self._folder.glob("*.jsonl"), reverse=True):
            entries = parse_journal(path.read_bytes())
            if entries and not path.with_suffix(_UNDONE).exists():
                return path, entries
        raise NotFound("There is no run of moves to undo on this machine.")

    @staticmethod
    def mark_undone(path: Path) -> None:
        """Remember that a run was put back completely."""
        path.with_suffix(_UNDONE).touch()

    def _forget_old(self) -> None:
        for path in sorted(self._folder.glob("*.jsonl"))[:-KEPT_JOURNALS]:
            path.unlink(missing_ok=True)
            path.with_suffix(_UNDONE).unlink(missing_ok=True)


def _append(file: BinaryIO, line: bytes) -> None:
    """Write a line so that a death after it cannot lose it."""
    file.write(line)
    file.flush()
    os.fsync(file.fileno())
