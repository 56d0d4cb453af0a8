"""Archives have a bounded size, are whole or not there, and the oldest of them are removed."""

import errno
import json
import os
import random
import tarfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from fairlane.estate.capture.archive import (
    KEPT_ARCHIVES,
    ArchiveEntry,
    CaptureFailed,
    forget_old,
    prepare_folder,
    write_archive,
)


def noise(size: int) -> bytes:
    """Bytes that cannot be compressed."""
    return random.Random(size).randbytes(size)


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as opened:
        members = [(member, opened.extractfile(member)) for member in opened]
        return {member.name.partition("/")[2]: file.read() for member, file in members if file is not None}


def test_an_archive_has_all_texts_and_a_manifest_that_lists_them(tmp_path: Path) -> None:
    prepare_folder(tmp_path / "new")
    path = write_archive(tmp_path / "new", "capture-1", [ArchiveEntry("a/b.txt", b"text")], {"reason": "r"})
    assert path == tmp_path / "new" / "capture-1.tar.gz"
    assert contents(path)["a/b.txt"] == b"text"
    manifest = json.loads(contents(path)["manifest.json"])
    assert manifest == {"reason": "r", "files": [{"name": "a/b.txt", "bytes": 4}]}
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("sizes", [[900_000], [90_000] * 5, [10, 70_000, 300_000], [10_000] * 40])
def test_the_largest_texts_are_cut_to_the_bound_and_the_manifest_says_so(tmp_path: Path, sizes: list[int]) -> None:
    entries = [
        ArchiveEntry("small.txt", b"small"),
        *(ArchiveEntry(f"{n}.bin", noise(size + n)) for n, size in enumerate(sizes)),
    ]
    path = write_archive(tmp_path, "capture-1", entries, {}, max_bytes=700_000)
    assert 150_000 < path.stat().st_size <= 700_000
    stored = contents(path)
    assert stored["small.txt"] == b"small"
    files = {row["name"]: row for row in json.loads(stored["manifest.json"])["files"]}
    for entry in entries:
        assert entry.body.startswith(stored[entry.name])
        assert files[entry.name].get("cut", False) == (len(stored[entry.name]) < len(entry.body))
    assert files["0.bin"].get("bytes_before", sizes[0]) == sizes[0]


def test_texts_that_compress_well_stay_whole_though_they_are_larger_than_the_archive_may_be(tmp_path: Path) -> None:
    entries = [ArchiveEntry("metrics.txt", b"pulsar_topics_count 5\n" * 50_000)]
    path = write_archive(tmp_path, "capture-1", entries, {}, max_bytes=600_000)
    assert contents(path)["metrics.txt"] == entries[0].body


def test_a_manifest_that_is_too_large_by_itself_leaves_the_texts_out(tmp_path: Path) -> None:
    entries = [ArchiveEntry("a.bin", noise(200_000))]
    path = write_archive(tmp_path, "capture-1", entries, {"x": noise(200_000).hex()}, max_bytes=550_000)
    assert path.stat().st_size <= 550_000
    assert json.loads(contents(path)["manifest.json"])["files"][0]["cut"]


def test_two_archives_of_the_same_second_have_names_of_their_own(tmp_path: Path) -> None:
    paths = [write_archive(tmp_path, "capture-1", [], {}) for _ in range(3)]
    assert [path.name for path in paths] == ["capture-1.tar.gz", "capture-1-2.tar.gz", "capture-1-3.tar.gz"]


def test_a_full_disk_is_a_clear_error_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(tarfile.TarFile, "addfile", Mock(side_effect=full))
    with pytest.raises(CaptureFailed, match="No space left on device"):
        write_archive(tmp_path, "capture-1", [ArchiveEntry("a", b"a")], {})
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_removed_and_what_another_one_writes_is_not(tmp_path: Path) -> None:
    old, new = tmp_path / ".capture-old-1.partial", tmp_path / ".capture-new-2.partial"
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    prepare_folder(tmp_path)
    assert not old.exists()
    assert new.exists()


def test_the_newest_archives_are_kept_and_other_files_too(tmp_path: Path) -> None:
    for number in range(KEPT_ARCHIVES + 5):
        path = write_archive(tmp_path, f"capture-{number:03d}", [], {})
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    (tmp_path / "notes.txt").touch()
    os.utime(path, (0, 0))  # the clock was set back: the newest one looks oldest
    forget_old(tmp_path, path)
    names = sorted(one.name for one in tmp_path.glob("capture-*"))
    assert len(names) == KEPT_ARCHIVES
    assert path.name in names
    assert "capture-004.tar.gz" not in names
    assert (tmp_path / "notes.txt").exists()


def test_a_folder_with_few_archives_loses_none(tmp_path: Path) -> None:
    paths = [write_archive(tmp_path, f"capture-{number}", [], {}) for number in range(3)]
    forget_old(tmp_path, paths[-1])
    assert all(path.exists() for path in paths)
