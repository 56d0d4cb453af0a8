"""Logs of moves on disk: one file for each run, a lock that one run at a time holds, and the mark that stops it.

A log has a line of JSON for each move that was begun, written before the broker is asked.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from backends.files import sync
from backends.system_clock import SystemClock
from dispatcher.model.errors import DECODING_ERRORS, InvalidInput, NotFound, Refused
from estate.plans.balance import Move

FORMAT: Literal[2] = 2
KEPT_LOGS = 50


class _Line(msgspec.Struct, frozen=True, array_like=True):
    """A move that was begun, as it is stored."""

    format: Literal[2]
    at_ms: int
    bundle: str
    source: str
    target: str


class MoveLogs:
    """The logs in one folder. Runs on other machines have folders of their own, and are not seen."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stop_mark = folder / "stop"

    @contextmanager
    def run(self) -> Iterator[Callable[[], bool]]:
        """Hold the lock of a run; yield what returns whether it must stop. Raises Refused if another is under way."""
        with self._locked():
            self._stop_mark.unlink(missing_ok=True)
            yield self._stop_mark.exists

    @contextmanager
    def log(self) -> Iterator[Callable[[Move], None]]:
        """Begin the log of a run; yield what writes a move into it."""
        path = self._folder / f"{SystemClock().wall_ms():015d}-{os.getpid()}.jsonl"
        with path.open("xb") as file:
            sync(self._folder)  # or a crash of the machine could lose the file, whose lines are synced
            yield partial(_append, file)
        for old in self._paths()[:-KEPT_LOGS]:
            old.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._folder / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fix = "Wait for its end, or end it with `fairlane estate balance --stop`."
                raise Refused("Moves are under way on this machine.", fix) from None
            yield

    def stop(self) -> None:
        """Ask the run that is under way to begin no further move. Raises NotFound if there is none."""
        try:
            with self._locked():
                raise NotFound("No moves are under way on this machine.")
        except Refused:
            self._stop_mark.touch()

    def last(self) -> tuple[Path, list[Move]]:
        """Return the last log that was not undone, and the moves that put everything back, the last one first.

        Moves that were under way when the run died are among them: a bundle that is still at its source is left there
        by the check that comes before a move. Raises NotFound; InvalidInput.
        """
        for path in reversed(self._paths()):
            begun = _moves(path)
            if begun:
                return path, [Move(move.bundle, move.target, move.source) for move in reversed(begun)]
        raise NotFound("There is no run of moves to undo on this machine.")

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("*.jsonl"))


def _append(file: BinaryIO, move: Move) -> None:
    """Write a line so that a death after it cannot lose it."""
    line = _Line(FORMAT, SystemClock().wall_ms(), move.bundle, move.source, move.target)
    file.write(msgspec.json.encode(line) + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _moves(path: Path) -> list[Move]:
    """Read a log. A last line without its end was cut off by a death, and is left out. Raises InvalidInput."""
    moves = []
    for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            line = msgspec.json.decode(text, type=_Line)
        except DECODING_ERRORS as error:
            fix = "Delete the file if another version of Fairlane wrote it; its moves cannot be undone."
            raise InvalidInput(f"{path}: line {number} is no move: {error}.", fix) from error
        moves.append(Move(line.bundle, line.source, line.target))
    return moves
