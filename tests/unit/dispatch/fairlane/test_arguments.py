"""Arguments of the command line that are more than a word or a number."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import parse_duration_s
from fairlane.cli.base import exit_codes
from fairlane.cli.base.arguments import Assignment, named_values, parse_bytes, parse_count, parse_time
from fairlane.cli.base.json_option import read_message
from tests.unit.command_line import CommandLine

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("parse", "values"),
    [
        (parse_duration_s, {"90": 90, "1.5s": 1.5, "250ms": 0.25, "15m": 900, "1h30m": 5_400, "2d": 172_800}),
        (parse_duration_s, {"1h 30m": 5_400, " 1.5 h ": 5_400, "1 m 05 s": 65}),
        (parse_bytes, {"4096": 4096, "33kB": 33_000, "33 KiB": 33_792, "512MiB": 2**29, "1.5GB": 1.5e9}),
        (parse_count, {"5000": 5_000, "50k": 50_000, "1.5M": 1_500_000, "2G": 2e9}),
    ],
)
def test_durations_sizes_and_numbers(parse: Callable[[str], float], values: dict[str, float]) -> None:
    assert {text: parse(text) for text in values} == values


@pytest.mark.parametrize(
    ("parse", "texts", "example"),
    [
        (parse_duration_s, ["", "m", "1x", "-5", "h1", "1h 30", "1,5h", "٣s"], "90s"),
        (parse_bytes, ["", "MiB", "-1", "1TB", "1 M"], "4096"),
        (parse_count, ["", "k", "-1", "5 k", "1e6"], "5000"),
    ],
)
def test_what_is_none_of_them_is_refused_with_an_example(
    parse: Callable[[str], float], texts: list[str], example: str
) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=f"for example {example}"):
            parse(text)


@pytest.mark.parametrize(
    "command",
    [
        "top --every nan",
        "top --every inf",
        "estate show --watch --every nan",
        "simulate shedders --hours nan",
        "backlog snapshot --every 99999999d",
        "backlog snapshot --keep-days 9999999",
        "backlog report --since 9999999d",
    ],
)
def test_what_no_clock_can_wait_for_is_refused(command: str, cli: CommandLine) -> None:
    assert "Invalid value for '--" in cli(command.split(), exit_codes.USAGE).err


def test_a_message_is_an_object_a_file_or_a_text(tmp_path: Path) -> None:
    file = tmp_path / "message.json"
    file.write_text('{"body": "Hi"}')
    assert read_message(str(file)) == read_message('{"body": "Hi"}') == {"body": "Hi"}
    assert read_message("just a text") == "just a text"
    too_deep = '{"body": ' + "[" * 100_000
    for wrong, message in (
        (str(tmp_path / "missing.json"), "there is no file"),
        ("{not json", "is not JSON"),
        (too_deep, "is not JSON"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_message(wrong)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="not a text in UTF-8"):
        read_message(str(file))


def test_times_are_absolute_or_from_now() -> None:
    assert parse_time("+15m", NOW) == NOW + timedelta(minutes=15)
    assert parse_time("2030-01-31T13:00+01:00", NOW) == NOW
    with pytest.raises(ValueError, match="for example"):
        parse_time("tomorrow", NOW)


def test_the_values_of_an_option_are_named_and_may_be_empty_where_that_means_something() -> None:
    assert named_values("--map", ["token=target", "a=b=c"]) == {"token": "target", "a": "b=c"}
    assert named_values("--option", ["quote="], may_be_empty=True) == {"quote": ""}
    for wrong, may_be_empty in (("token=", False), ("quote", True), ("=x", True)):
        with pytest.raises(click.BadParameter, match="write NAME=VALUE"):
            named_values("--option", [wrong], may_be_empty=may_be_empty)


def test_an_assignment_names_a_field_that_there_is() -> None:
    weight = Assignment("weight", "cap")
    assert weight.convert("weight=2", None, None) == ("weight", "2")
    for wrong in ("weight", "size=2"):
        with pytest.raises(click.BadParameter, match="weight=VALUE or cap=VALUE"):
            weight.convert(wrong, None, None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tier set high=much", "A weight must be a number"),
        ("task set some-task weight=heavy", "weight: is 'heavy'; it must be a number"),
        ("task wait some-task --timeout soon", "soon"),
        ("tune producer --memory lots", "lots"),
        pytest.param(f"tune producer --memory {'9' * 400}", "is not a size", id="huge"),
        ("reconcile --day yesterday", "'yesterday' is not a day; write YYYY-MM-DD"),
    ],
)
def test_what_is_no_value_is_told_before_any_server_is_asked(line: str, message: str, cli: CommandLine) -> None:
    assert message in cli(line.split(), 2).err
