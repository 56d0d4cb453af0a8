"""What the journal consists of: a log of commits, each of which says which files were added and taken away, and how far
the topics have been read.

`TABLES/journal/log/NUMBER.json`. A commit is written whole under a name that nobody has used, or not at all: rows, the
place to read on from and what is remembered of earlier outcomes change together. A reader that goes by one commit sees
the tables as they were then. Files that no commit names are what a run that was killed left behind.
"""

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from dispatcher.model.errors import Malformed, Refused

FOLDER = "journal"
HOW_TO_MEND = "Restore it, or begin a new journal elsewhere."
WHOLE_EVERY = 50
"""Commits; each such one names all files, so that no more than so many are read."""


class TableFile(msgspec.Struct, frozen=True):
    """A Parquet file of a table (outcomes, closes or tasks). path: below the journal's folder. day, app: of all its
    rows, where the table is parted by them."""

    table: str
    path: str
    rows: int
    size: int
    day: str = ""
    app: str = ""


class Commit(msgspec.Struct, frozen=True):
    """cursors: topic -> position of the last record read. states: outcome topic -> files of what is remembered of it.
    whole: `added` are all files there are."""

    number: int
    at_ms: int
    cursors: dict[str, str]
    states: dict[str, list[str]]
    added: list[TableFile]
    removed: list[str]
    whole: bool = False


class JournalState(msgspec.Struct, frozen=True):
    """The journal after commit `number` (0: nothing was ever committed). files: by path."""

    number: int = 0
    cursors: Mapping[str, str] = {}
    states: Mapping[str, Sequence[str]] = {}
    files: Mapping[str, TableFile] = {}

    def table(self, name: str) -> list[TableFile]:
        return [file for file in self.files.values() if file.table == name]

    def after(self, commit: Commit) -> "JournalState":
        kept = {} if commit.whole else {path: file for path, file in self.files.items() if path not in commit.removed}
        files = {**kept, **{file.path: file for file in commit.added}}
        return JournalState(commit.number, commit.cursors, commit.states, files)


class CommitChange(msgspec.Struct, frozen=True):
    """What a commit is to change; what it says nothing of stays."""

    cursors: Mapping[str, str] = {}
    states: Mapping[str, list[str]] = {}
    added: Sequence[TableFile] = ()
    removed: Sequence[str] = ()


class Conflict(Refused):
    """Somebody else wrote the commit that was to be the next."""


class JournalLog:
    """The log of one journal. tables: the folder of all tables, on a file system that all who use it share."""

    def __init__(self, tables: Path) -> None:
        self.root = tables / FOLDER
        self._folder = self.root / "log"

    def read(self) -> JournalState:
        """The newest state. Raises Malformed."""
        commits: list[Commit] = []
        for number in sorted(self.numbers(), reverse=True):
            commits.append(self.commit(number))
            if commits[-1].whole:
                break
        state = JournalState()
        for commit in reversed(commits):
            state = state.after(commit)
        return state

    def numbers(self) -> list[int]:
        """Of all commits that are kept."""
        names = [path.stem for path in self._folder.glob("*.json")] if self._folder.is_dir() else []
        return [int(name) for name in names if name.isdecimal()]

    def commit(self, number: int) -> Commit:
        """Raises Malformed."""
        path = self._path(number)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Commit)
        except (OSError, msgspec.MsgspecError) as error:
            raise Malformed(f"{path} cannot be read: {error}.", HOW_TO_MEND) from None

    def append(self, base: JournalState, change: CommitChange, at_ms: int) -> JournalState:
        """Writes the commit that follows `base`. Raises Conflict."""
        number = base.number + 1
        commit = Commit(
            number,
            at_ms,
            {**base.cursors, **change.cursors},
            {topic: list(files) for topic, files in {**base.states, **change.states}.items()},
            list(change.added),
            list(change.removed),
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


def cannot_write(root: Path, error: OSError) -> Refused:
    """What is told where files cannot be written."""
    cause = f"The journal {root} cannot be written: {error.strerror or error}."
    return Refused(cause, "See to room and rights (or name another folder with --tables), and run it again.")


def write_durably(path: Path, body: bytes) -> None:
    """It outlives a loss of power."""
    with path.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """What was written to a file, or the names in a directory, outlive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def relative(root: Path, paths: Iterable[Path]) -> list[str]:
    """As TableFile has them."""
    return [path.relative_to(root).as_posix() for path in paths]
