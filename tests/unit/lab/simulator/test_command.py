"""`fairlane simulate` as it is called."""

import json
from pathlib import Path

import pytest

from fairlane.cli.main import run
from tests.unit.command_line import CommandLine

TINY = """
duration_s: 4
capacity: 1000
tasks:
  - {name: h, tier: high, targets: 8000, chunk: 10}
  - {name: l, tier: low, targets: 8000, chunk: 10}
workers:
  - {count: 2}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY)
    return file


def test_json_has_what_a_run_showed(tiny: Path, cli: CommandLine) -> None:
    reported = json.loads(cli(["simulate", str(tiny), "--seed", "5", "-o", "json"]).out)
    assert reported["format"] == 1
    assert reported["seed"] == 5
    assert reported["tiers"]["high"]["share"] == pytest.approx(85.7, abs=2)
    assert len(reported["windows"]["sent"]["high"]) == 4
    assert reported["violations"] == []


def test_the_table_shows_shares_caps_and_tasks(tiny: Path, cli: CommandLine) -> None:
    shown = cli(["simulate", str(tiny)]).out
    for title in ("Tiers", "Caps", "Shares by window", "Tasks", "Counts"):
        assert f"\n{title}" in shown


def test_a_violation_exits_with_1_and_says_how_to_run_it_again(tiny: Path, cli: CommandLine) -> None:
    tiny.write_text(TINY + "until: done\n")
    reported = cli(["simulate", str(tiny), "--seed", "9"], 1).err
    assert "violated: all done: 2 tasks have not ended" in reported
    assert f"run it again: fairlane simulate {tiny} --seed 9" in reported


def test_pictures_and_the_page_are_written(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "shares.svg"
    assert run(["simulate", str(tiny), "--picture", "shares", str(picture), "-o", "html"]) == 0
    assert picture.read_text().startswith("<svg")
    assert capsys.readouterr().out.startswith("<!doctype html>")


def test_that_a_picture_cannot_be_written_is_said_before_the_run(
    tiny: Path, tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(name: str, seed: int) -> None:
        raise AssertionError("it was run")

    monkeypatch.setattr("lab.simulator.run.many.run_one", never)
    assert (
        "cannot be written"
        in cli(["simulate", str(tiny), "--picture", "tasks", str(tmp_path / "no" / "such.svg")], 2).err
    )


def test_a_picture_of_a_run_that_is_not_made_leaves_no_file(tmp_path: Path) -> None:
    picture = tmp_path / "shares.svg"
    assert run(["simulate", "nowhere.yaml", "--picture", "shares", str(picture)]) == 3
    assert not picture.exists()


def test_the_list_names_the_scenarios(cli: CommandLine) -> None:
    named = {row["name"] for row in json.loads(cli(["simulate", "--list", "-o", "json"]).out)}
    assert {"all-backlogged", "crash-storm", "random", "random-large"} <= named


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Give a scenario"),
        (["nowhere.yaml"], 3, "no scenario and no file named nowhere.yaml"),
        (["random", "--seeds", "2", "-o", "html"], 2, "a picture shows a single run"),
    ],
)
def test_wrong_usage_is_said(arguments: list[str], code: int, message: str, cli: CommandLine) -> None:
    assert message in cli(["simulate", *arguments], code).err


def test_many_seeds_in_processes_of_their_own(cli: CommandLine) -> None:
    reported = json.loads(
        cli(["simulate", "random", "--seed", "100", "--seeds", "4", "--processes", "2", "-o", "json"]).out
    )
    assert (reported["seeds"], reported["first_seed"], reported["bad"]) == (4, 100, [])
    assert reported["targets"] > 0
