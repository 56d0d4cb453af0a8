"""`fairlane dead-letters` and `fairlane invalid export`, with a client in memory."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairlane.cli.handlers import targets
from producers.outcomes.record import ReasonGroup, TargetFilter, TargetRecord
from producers.outcomes.replay import Replay
from tests.records import invalid_target, target_record
from tests.unit.command_line import CommandLine

AT_MS = 1_795_600_000_123


class Letters:
    """Notes the calls that change something."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, TargetFilter, int | None]] = []
        self.chosen: list[TargetFilter] = []

    def groups(self, chosen: TargetFilter, state: str = "open") -> list[ReasonGroup]:
        self.chosen.append(chosen)
        if state != "open":
            return []
        return [
            ReasonGroup(
                task="sale", app="shop", channel="fcm", outcome=outcome, reason="HTTP 503", state="open", replay="",
                count=count, example="tok-1", first_ms=AT_MS, last_ms=AT_MS,
            )
            for outcome, count in (("failed", 3), ("message", 1))
        ]  # fmt: skip

    def targets(self, chosen: TargetFilter, state: str) -> Iterator[TargetRecord]:
        for number in range(1_500):
            yield target_record(f"tok-{number}", task="sale", variables={"n": number}, reason="HTTP 503", state=state)

    def replay(self, chosen: TargetFilter, limit: int | None, on_progress: Any) -> list[Replay]:
        self.calls.append(("replay", chosen, limit))
        on_progress("sale.replay-1", 3, 3)
        return [
            Replay(task="sale", replay="sale.replay-1", targets=3, state="replaying"),
            Replay(task="old", replay="old.replay-1", targets=3, state="replayed", refused=2),
        ]

    def drop(self, chosen: TargetFilter, limit: int | None) -> int:
        self.calls.append(("drop", chosen, limit))
        return 4


class Client:
    def __init__(self) -> None:
        self.dead_letters = Letters()
        self.asked: list[tuple[TargetFilter, bool]] = []
        self.fails = False

    def invalid_targets(self, chosen: TargetFilter, *, repeats: bool) -> Iterator[TargetRecord]:
        self.asked.append((chosen, repeats))
        for name in ("tok,1", 'tok"2'):
            yield invalid_target(name, AT_MS, channel="apns", at_ms=AT_MS + 1, task="sale")
        if self.fails:
            raise RuntimeError("the server is gone")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(targets, "client_of", lambda _: nullcontext(made))
    return made


# ------------------------------------------------------------------ dead letters
def test_letters_are_listed_and_shown(cli: CommandLine, client: Client) -> None:
    listed = cli(["dead-letters", "list", "--app", "shop", "--error", "503", "-o", "json"])
    assert [row["count"] for row in json.loads(listed.out)] == [3, 1]
    assert client.dead_letters.chosen == [TargetFilter(app="shop", error="503")]
    table = cli(["dead-letters", "list"])
    assert "HTTP 503" in table.out
    assert "There are no dropped dead letters" in cli(["dead-letters", "list", "--state", "dropped"]).err
    shown = cli(["dead-letters", "show", "--task", "sale", "--limit", "2", "-o", "json"])
    assert [(row["target"], row["variables"]) for row in json.loads(shown.out)] == [
        ("tok-0", {"n": 0}),
        ("tok-1", {"n": 1}),
    ]
    assert "There are more than 1,000" in cli(["dead-letters", "show"]).err


@pytest.mark.parametrize("command", ["replay", "drop"])
def test_a_change_needs_a_filter_and_a_yes(cli: CommandLine, client: Client, command: str) -> None:
    cli(["dead-letters", command, "--yes"], 2)
    assert "there is no terminal" in cli(["dead-letters", command, "--task", "sale"], 5).err
    dry = cli(["dead-letters", command, "--task", "sale", "--dry-run"])
    assert ("HTTP 503" in dry.out, client.dead_letters.calls) == (True, [])
    done = cli(["dead-letters", command, "--task", "sale", "--limit", "9", "--yes", "-o", "json"])
    assert client.dead_letters.calls == [(command, TargetFilter(task="sale"), 9)]
    if command == "drop":
        assert json.loads(done.out) == {"dropped": 4}
    else:
        assert json.loads(done.out)[0]["replay"] == "sale.replay-1"
        assert "sale.replay-1 is being submitted by another process" in done.err
        assert "2 of 3 targets of old.replay-1 were refused" in done.err
    cli(["dead-letters", command, "--all", "--yes"])


@pytest.mark.parametrize("option", ["--task", "--app", "--error"])
@pytest.mark.parametrize("command", ["list", "show", "replay", "drop"])
def test_an_empty_filter_as_of_a_variable_that_is_not_set_selects_nothing(
    cli: CommandLine, client: Client, command: str, option: str
) -> None:
    arguments = ["--yes"] if command in ("replay", "drop") else []
    assert "is empty" in cli(["dead-letters", command, option, "", *arguments], 2).err
    assert (client.dead_letters.calls, client.dead_letters.chosen) == ([], [])


def test_times_may_be_given_as_how_long_ago(cli: CommandLine, client: Client) -> None:
    cli(["dead-letters", "list", "--since", "2h", "--until", "2026-11-25T12:00:00+00:00"])
    (chosen,) = client.dead_letters.chosen
    assert chosen.since is not None
    assert timedelta(hours=2) <= datetime.now(UTC) - chosen.since < timedelta(hours=2, minutes=1)
    assert chosen.until == datetime(2026, 11, 25, 12, tzinfo=UTC)
    for nonsense in ("yesterday", "9999999999h", "9" * 40 + "d", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00+14:00"):
        assert "is not a time" in cli(["dead-letters", "list", "--since", nonsense], 2).err


# ------------------------------------------------------------------ invalid targets
def test_invalid_targets_are_written_as_json_lines_and_as_csv(cli: CommandLine, client: Client, tmp_path: Path) -> None:
    expected = [
        {
            "app": "shop", "channel": "apns", "target": name, "reason": "gone", "task": "sale",
            "died_at": "2026-11-25T09:46:40.123+00:00", "seen_at": "2026-11-25T09:46:40.124+00:00",
        }
        for name in ("tok,1", 'tok"2')
    ]  # fmt: skip
    printed = cli(["invalid", "export", "--app", "shop", "--channel", "apns"])
    assert [json.loads(line) for line in printed.out.splitlines()] == expected
    assert "2 invalid targets written" in printed.err
    assert client.asked == [(TargetFilter(app="shop", channel="apns"), False)]
    file = tmp_path / "gone.csv"
    cli(["invalid", "export", "--out", str(file), "--repeats"])
    with file.open(newline="") as rows:
        assert list(csv.DictReader(rows)) == expected
    assert list(csv.DictReader(io.StringIO(cli(["invalid", "export", "--format", "csv"]).out))) == expected
    assert client.asked[1][1] is True


def test_a_file_appears_when_it_is_complete(cli: CommandLine, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "gone.jsonl"
    file.write_text("that of yesterday")
    client.fails = True
    cli(["invalid", "export", "--out", str(file)], 1)
    assert (file.read_text(), [one.name for one in tmp_path.iterdir()]) == ("that of yesterday", ["gone.jsonl"])


@pytest.mark.parametrize("name", ["missing/gone.csv", "."])
def test_a_file_that_cannot_be_written_is_named_before_anything_is_read(
    name: str, cli: CommandLine, client: Client, tmp_path: Path
) -> None:
    printed = cli(["invalid", "export", "--out", str(tmp_path / name)], 2)
    assert "cannot be written" in printed.err
    assert not client.asked
