"""Writes the texts of a capture as one archive of bounded size, and keeps the newest archives."""

import io
import json
import os
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from dispatcher.model.errors import FairlaneError

MAX_ARCHIVE_BYTES = 20_000_000
KEPT_ARCHIVES = 20
PREFIX, SUFFIX = "capture-", ".tar.gz"
MANIFEST = "manifest.json"
_RESERVED = 500_000
"""Bytes for the manifest, and for the headers of the texts."""
_PARTIAL = ".partial"
_ABANDONED_S = 3_600.0
"""Age from which on a file that another process did not finish is removed."""


class CaptureFailed(FairlaneError):
    """An archive could not be written."""


@dataclass(frozen=True)
class ArchiveEntry:
    """One text of an archive."""

    name: str
    """Path in the archive."""
    body: bytes
    cut: bool = False
    """Whether its end is missing."""


def write_archive(
    folder: Path,
    stem: str,
    entries: Sequence[ArchiveEntry],
    manifest: Mapping[str, Any],
    max_bytes: int = MAX_ARCHIVE_BYTES,
) -> Path:
    """Write an archive into a prepared folder, and return its path. Cut the largest texts until it fits `max_bytes`.

    manifest: written first, with a list of the texts that says which were cut. Raises CaptureFailed.
    """
    with _clear_errors(folder):
        partial = folder / f".{stem}-{os.getpid()}{_PARTIAL}"
        try:
            _write_bounded(partial, stem, entries, manifest, max_bytes)
            return _publish(partial, folder, stem)
        finally:
            partial.unlink(missing_ok=True)


def prepare_folder(folder: Path) -> None:
    """Make the folder if it is missing. Raises CaptureFailed if nothing can be written there, before any node is
    asked."""
    with _clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_abandoned(folder)
        with TemporaryFile(dir=folder) as file:
            file.write(b"x")


@contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CaptureFailed(
            f"The capture cannot be written to {folder}: {error.strerror or error}.",
            "Make room or rights there, or name another folder with --output.",
        ) from error


def forget_old(folder: Path, newest: Path) -> None:
    """Remove all but the newest archives. `newest` stays, whatever the clock did since the others were written."""
    with suppress(OSError):
        others = [path for path in folder.glob(f"{PREFIX}*{SUFFIX}") if path != newest]
        for path in sorted(others, key=lambda path: (path.stat().st_mtime, path.name))[: 1 - KEPT_ARCHIVES]:
            path.unlink(missing_ok=True)


def _write_bounded(
    path: Path, stem: str, entries: Sequence[ArchiveEntry], manifest: Mapping[str, Any], max_bytes: int
) -> None:
    budget = max(0, max_bytes - _RESERVED)
    while True:
        fitting = _cut(entries, budget)
        _write(path, stem, fitting, {**manifest, "files": _listed(entries, fitting)})
        if path.stat().st_size <= max_bytes or not budget:
            return
        budget = budget * 9 // 10 if budget > max_bytes // 10 else 0


def _cut(entries: Sequence[ArchiveEntry], budget: int) -> list[ArchiveEntry]:
    """Return the entries, the largest ones cut, so that they take at most about `budget` compressed bytes."""
    if sum(len(entry.body) for entry in entries) <= budget:
        return list(entries)
    sizes = [len(zlib.compress(entry.body)) for entry in entries]
    longest = longest_that_fits(sizes, budget)
    return [
        entry if size <= longest else _shortened(entry, size, longest)
        for entry, size in zip(entries, sizes, strict=True)
    ]


def longest_that_fits(sizes: Sequence[int], budget: int) -> int:
    """Return the largest size to which the texts can be cut so that all together keep to a budget.

    Smaller texts stay whole. If all fit, it is the size of the largest one.
    """
    left, count = budget, len(sizes)
    for size in sorted(sizes):
        if size * count > left:
            return max(0, left // count)
        left -= size
        count -= 1
    return max(sizes, default=0)


def _shortened(entry: ArchiveEntry, size: int, longest: int) -> ArchiveEntry:
    """Return the beginning of an entry that takes at most `longest` compressed bytes. size: what the whole takes."""
    body = entry.body
    while size > longest:
        body = body[: len(body) * longest // size * 9 // 10]
        size = len(zlib.compress(body)) if body else 0
    return replace(entry, body=body, cut=True)


def _listed(whole: Sequence[ArchiveEntry], fitting: Sequence[ArchiveEntry]) -> list[dict[str, Any]]:
    listed = []
    for before, after in zip(whole, fitting, strict=True):
        row: dict[str, Any] = {"name": after.name, "bytes": len(after.body)}
        if after.cut:
            row |= {"cut": True, "bytes_before": len(before.body)}
        listed.append(row)
    return listed


def _write(path: Path, stem: str, entries: Sequence[ArchiveEntry], manifest: Mapping[str, Any]) -> None:
    first = ArchiveEntry(MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False).encode())
    with path.open("wb") as file:
        path.chmod(0o600)
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
            for entry in (first, *entries):
                member = tarfile.TarInfo(f"{stem}/{entry.name}")
                member.size, member.mtime, member.mode = len(entry.body), int(time.time()), 0o600
                archive.addfile(member, io.BytesIO(entry.body))
        file.flush()
        os.fsync(file.fileno())


def _publish(partial: Path, folder: Path, stem: str) -> Path:
    """Give a complete archive its name, which no other archive has."""
    for number in range(1, 1_000):
        path = folder / f"{stem}{'' if number == 1 else f'-{number}'}{SUFFIX}"
        with suppress(FileExistsError):
            os.link(partial, path)
            return path
    raise OSError(f"there are too many archives named {stem}")


def _remove_abandoned(folder: Path) -> None:
    for path in folder.glob(f".{PREFIX}*{_PARTIAL}"):
        with suppress(FileNotFoundError):
            if abs(time.time() - path.stat().st_mtime) > _ABANDONED_S:
                path.unlink()
