"""`fairlane tune producer` and `fairlane tune cluster` say what to set and why; the latter writes its files."""

import json
import shlex
from pathlib import Path

import pytest

from fairlane.cli.base import exit_codes
from tests.unit.command_line import CommandLine

EXAMPLE = shlex.split("tune producer --partitions 12 --rate 50000 --message-bytes 33000 --memory 512MiB")
CLUSTER = shlex.split("tune cluster --targets-per-s 50k --machines 4x128GiB,32cpu,nvme --mixed")


def test_the_settings_as_json(cli: CommandLine) -> None:
    document = json.loads(cli([*EXAMPLE, "-o", "json"]).out)
    assert document["need"]["memory_bytes"] == 512 * 1024 * 1024
    values = {name: chosen["value"] for name, chosen in document["settings"].items()}
    assert values["pending_messages_all"] == 12 * values["pending_messages"]
    assert all(chosen["reason"] for chosen in document["settings"].values())


def test_the_settings_as_a_table(cli: CommandLine) -> None:
    head, *lines = cli(EXAMPLE).out.splitlines()
    assert head.split() == ["setting", "value", "reason"]
    assert len(lines) == 9


def test_a_memory_that_is_short_is_remarked_on(cli: CommandLine) -> None:
    assert "Give 378 MiB, or 2 partitions" in cli([*EXAMPLE[:-1], "64MiB"]).err


@pytest.mark.parametrize("wrong", [["--partitions", "0"], ["--memory", "2x"], ["--memory", "100kB"], ["--rate", "0"]])
def test_what_cannot_be_is_a_usage_error(wrong: list[str], cli: CommandLine) -> None:
    assert cli([*EXAMPLE, *wrong], exit_codes.USAGE).out == ""


def test_the_plan_as_json(cli: CommandLine) -> None:
    document = json.loads(cli([*CLUSTER, "-o", "json"]).out)
    memory = document["figures"]["memory of a machine"]["value"]
    assert memory == "system 2, broker 31 (10 + 21), bookie 32 (10 + 22), page cache 63 GiB"
    for part in ("figures", "broker.conf", "bookkeeper.conf"):
        assert all(figure["reason"] for figure in document[part].values())
    assert document["remarks"] == []


def test_the_plan_as_a_table(cli: CommandLine) -> None:
    head, *lines = cli(CLUSTER).out.splitlines()
    assert head.split() == ["part", "name", "value", "reason"]
    assert len(lines) > 40


def test_too_few_machines_are_a_failure_with_the_reason(cli: CommandLine) -> None:
    result = cli([*CLUSTER[:-3], "--machines", "2x32GiB,8cpu,nvme", "--mixed"], exit_codes.FAILURE)
    assert "2 bookies are too few: 3 for one more than an entry has copies" in result.err


def test_files_are_written_where_they_are_asked_for(cli: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "a plan"
    assert "its README.md says how" in cli([*CLUSTER, "--write", str(folder), "--zookeeper", "zk:2181"]).err
    names = sorted(path.name for path in folder.rglob("*") if path.is_file())
    assert {"README.md", "autorecovery.conf", "bookkeeper.conf", "broker.conf", "zookeeper.conf"} < set(names)
    assert "metadataStoreUrl=zk:zk:2181\n" in (folder / "broker.conf").read_text()


def test_a_folder_that_cannot_be_written_is_named(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    result = cli([*CLUSTER, "--write", str(tmp_path / "taken" / "below")], exit_codes.USAGE)
    assert "cannot be written" in result.err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--machines", "many"],
        ["--targets-per-s", "0"],
        ["--targets-per-s", "fast"],
        ["--chunk", "501"],
        ["--copies", "0"],
        ["--target-bytes", "5GB"],
        ["--zookeeper", "zk"],
        ["--cluster", "a b"],
    ],
)
def test_a_plan_that_cannot_be_is_a_usage_error(wrong: list[str], cli: CommandLine, tmp_path: Path) -> None:
    assert cli([*CLUSTER, "--write", str(tmp_path / "plan"), *wrong], exit_codes.USAGE).out == ""
