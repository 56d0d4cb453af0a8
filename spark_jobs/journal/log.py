"""The journal's log of commits: the files each one adds and removes, and how far the topics have been read.

`TABLES/journal/log/NUMBER.json`. A commit is written completely, under a name that is still free, or not at all: rows,
the positions to read on from and the state of earlier outcomes change together. A reader of one commit sees the tables
as they were then. Files that no commit names were left behind by a run that was killed.
"""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from backends.files import sync, write_durably
from dispatcher.model.errors import Malformed, Refused

FOLDER = "journal"
HOW_TO_FIX = "Restore it, or begin a new journal elsewhere."
WHOLE_EVERY = 50
"""Every commit whose number is a multiple of this lists all files, so a reader needs at most this many commits."""


class TableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file of a table (outcomes, closes, tasks or invalid_targets)."""

    table: str
    path: str
    """The path below the journal's folder."""
    rows: int
    size: int
    day: str = ""
    """The day of all its rows, if the table is partitioned by day."""
    app: str = ""
    """The app of all its rows, if the table is partitioned by app."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit: the change it made, and how far topics had been read."""

    number: int
    at_ms: int
    cursors: dict[str, str]
    """The position of the last record read, by topic."""
    states: dict[str, list[str]]
    """The files that hold an outcome topic's state, by topic."""
    added: list[TableFile]
    removed: list[str]
    whole: bool = False
    """Whether `added` lists all files of the journal."""


class JournalState(msgspec.Struct, frozen=True):
    """The journal after commit `number` (0: nothing was ever committed)."""

    number: int = 0
    cursors: Mapping[str, str] = {}
    states: Mapping[str, Sequence[str]] = {}
    files: Mapping[str, TableFile] = {}
    """The files by path."""

    def table(self, name: str) -> list[TableFile]:
        return [file for file in self.files.values() if file.table == name]

    def after(self, commit: Commit) -> "JournalState":
        kept = {} if commit.whole else {path: file for path, file in self.files.items() if path not in commit.removed}
        files = {**kept, **{file.path: file for file in commit.added}}
        return JournalState(commit.number, commit.cursors, commit.states, files)


class CommitChange(msgspec.Struct, frozen=True):
    """The changes for the next commit; anything left out stays the same."""

    cursors: Mapping[str, str] = {}
    states: Mapping[str, list[str]] = {}
    added: Sequence[TableFile] = ()
    removed: Sequence[str] = ()


class Conflict(Refused):
    """Another job wrote the commit that should have been the next."""


class JournalLog:
    """The log of one journal. tables: the folder of all tables, on a file system that all its users share."""

    def __init__(self, tables: Path) -> None:
        self.root = tables / FOLDER
        self._folder = self.root / "log"

    def make_folder(self) -> None:
        """Create the log's folder if it is missing. Raises Refused if nothing can be written there."""
        with self.writing():
            self._folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=self._folder).close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Translate errors of writing within the block into Refused."""
        try:
            yield
        except OSError as error:
            raise Refused(
                f"The journal {self.root} cannot be written: {error.strerror or error}.",
                "Check free space and permissions (or name another folder with --tables), and run it again.",
            ) from None

    def read(self) -> JournalState:
        """Return the newest state. Raises Malformed."""
        commits: list[Commit] = []
        for number in sorted(self.numbers(), reverse=True):
            commits.append(self.commit(number))
            if commits[-1].whole:
                break
        return reduce(JournalState.after, reversed(commits), JournalState())

    def numbers(self) -> list[int]:
        """Return the number of every commit that still exists. A commit lists the files of the journal's tables."""
        names = [path.stem for path in self._folder.glob("*.json")] if self._folder.is_dir() else []
        return [int(name) for name in names if name.isdecimal()]

    def commit(self, number: int) -> Commit:
        """Return one commit. Raises Malformed."""
        path = self._path(number)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Commit)
        except (OSError, msgspec.MsgspecError) as error:
            raise Malformed(f"{path} cannot be read: {error}.", HOW_TO_FIX) from None

    def append(self, base: JournalState, change: CommitChange, at_ms: int) -> JournalState:
        """Write the commit that follows `base`. Raises Conflict."""
        number = base.number + 1
        commit = Commit(
            number=number,
            at_ms=at_ms,
            cursors={**base.cursors, **change.cursors},
            states={topic: list(files) for topic, files in {**base.states, **change.states}.items()},
            added=list(change.added),
            removed=list(change.removed),
        )
        after = base.after(commit)
        if number % WHOLE_EVERY == 0:
            commit = msgspec.structs.replace(commit, added=list(after.files.values()), whole=True)
        self._write(number, msgspec.json.encode(commit))
        return after

    def _write(self, number: int, body: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f".{number}.{secrets.token_hex(4)}"
        try:
            write_durably(draft, body)
            os.link(draft, self._path(number))
        except FileExistsError:
            raise Conflict(f"Commit {number} of the journal was written by another job.", "Run it again.") from None
        finally:
            draft.unlink(missing_ok=True)
        sync(self._folder)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:010d}.json"
