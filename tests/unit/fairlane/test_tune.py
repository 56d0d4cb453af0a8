"""`fairlane tune producer` says what the formula gives, and why."""

import json
import shlex

import pytest

from fairlane.cli.base import exit_codes
from fairlane.cli.base.arguments import parse_bytes
from tests.unit.command_line import CommandLine

EXAMPLE = shlex.split("tune producer --partitions 12 --rate 50000 --message-bytes 33000 --memory 512MiB")


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


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("33kB", 33_000), ("33 KiB", 33_792), ("512MiB", 2**29), ("1.5GB", 1.5e9)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1TB", "1 M"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="for example 4096"):
        parse_bytes(text)
