"""`fairlane estate capture`, without servers: it records what there is, and refuses what is nonsense."""

import tarfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from dispatcher.model.errors import NotFound
from fairlane.cli.base import exit_codes
from producers.client import PushClient
from tests.unit.command_line import CommandLine

CAPTURE = ["estate", "capture"]


@pytest.fixture(autouse=True)
def servers_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_PULSAR_URL", "pulsar://127.0.0.1:1")
    monkeypatch.setenv("FAIRLANE_PULSAR_ADMIN_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("FAIRLANE_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("FAIRLANE_HOME", str(tmp_path / "a home"))


def test_the_path_of_the_archive_is_printed_and_it_is_below_the_home(cli: CommandLine, tmp_path: Path) -> None:
    path = Path(cli(CAPTURE).out.strip())
    assert path.parent == tmp_path / "a home" / "captures"
    with tarfile.open(path) as archive:
        assert f"{path.name.removesuffix('.tar.gz')}/manifest.json" in archive.getnames()


def test_another_folder_may_be_named_and_a_task_that_cannot_be_looked_up(cli: CommandLine, tmp_path: Path) -> None:
    result = cli([*CAPTURE, "--task", "sale", "--output", str(tmp_path / "out")])
    assert "Its usual lane is recorded." in result.err
    (path,) = (tmp_path / "out").iterdir()
    assert path.name.endswith("-task-sale-asked-for-by-hand.tar.gz")


@pytest.mark.parametrize("nonsense", ["", "a b", "../../etc/passwd", "x" * 500, "\x1b[31m"])
def test_what_is_no_task_is_refused_and_leaves_nothing(cli: CommandLine, tmp_path: Path, nonsense: str) -> None:
    result = cli([*CAPTURE, "--task", nonsense], exit_codes.USAGE)
    assert "is no id of a task" in result.err
    assert "\x1b" not in result.err
    assert not (tmp_path / "a home").exists()


def test_a_task_that_does_not_exist_is_said_so(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PushClient, "task", Mock(side_effect=NotFound("There is no task sale.")))
    assert "There is no task sale." in cli([*CAPTURE, "--task", "sale"], exit_codes.NOT_FOUND).err


def test_a_folder_that_cannot_be_made_is_a_clear_error(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = cli([*CAPTURE, "--output", str(tmp_path / "file" / "out")], exit_codes.FAILURE)
    assert f"cannot be written to {tmp_path / 'file' / 'out'}: Not a directory" in result.err
    assert "--output" in result.err
