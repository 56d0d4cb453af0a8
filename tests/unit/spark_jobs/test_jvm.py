"""Java takes Spark's classes from the archive that `make classes` has made, where there is one."""

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backends.extras import Missing
from spark_jobs.session import class_archive, jvm
from spark_jobs.session.jvm import archive, archive_options

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_has_its_classes_from_the_archive(spark: "SparkSession") -> None:
    if not archive().exists():
        pytest.skip("no archive: `make classes` makes it")
    children = subprocess.run(["pgrep", "-P", str(os.getpid()), "java"], capture_output=True, text=True, check=True)
    assert any(str(archive()) in Path(f"/proc/{pid}/maps").read_text() for pid in children.stdout.split())


def test_without_an_archive_java_is_told_of_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "archive", lambda: tmp_path / "none.jsa")
    assert archive_options() == ""


def test_a_java_that_makes_no_archive_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("make_session", "_exercise", "_end"):
        monkeypatch.setattr(class_archive, name, lambda *_: None)
    monkeypatch.setattr(class_archive, "archive", lambda: tmp_path / "share" / "spark.jsa")
    with pytest.raises(Missing, match="wrote no archive"):
        class_archive.make_archive()
    assert list((tmp_path / "share").iterdir()) == []


def test_an_archive_in_a_folder_with_spaces_is_one_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a folder" / "spark.jsa"
    file.parent.mkdir()
    file.touch()
    monkeypatch.setattr(jvm, "archive", lambda: file)
    assert f'"-XX:SharedArchiveFile={file}"' in archive_options()
