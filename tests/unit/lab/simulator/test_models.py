"""`fairlane simulate quarantine` and `shedders`: models of the estate, as they are called."""

import json

import pytest

from fairlane.cli.main import run
from lab.simulator.estate.shedder_cases import CASES
from tests.unit.command_line import CommandLine

QUICK = ["--hours", "6", "--seeds", "2"]


def test_ratios_are_compared_with_that_of_all_at_once(cli: CommandLine) -> None:
    called = cli(["simulate", "quarantine", "--ratio", "0.3", "--ratio", "0", *QUICK, "-o", "json"])
    played = json.loads(called.out)
    assert [row["ratio"] for row in played["ratios"]] == [0, 0.3, 1]
    assert played["best_ratio"] == 0.3
    assert played["best_std_dev_to_all_at_once"] < 0.5
    assert "The ratio 0.3 has the fewest minutes of overload" in called.err


def test_an_estate_of_another_size_has_bookies_that_are_as_large_for_their_share(cli: CommandLine) -> None:
    arguments = ["simulate", "quarantine", "--bookies", "4", "--brokers", "3", "--inflow", "80", *QUICK]
    settings = json.loads(cli([*arguments, "-o", "json"]).out)["settings"]
    assert (settings["bookies"], settings["clients"], settings["minutes"]) == (4, 3, 360)
    assert settings["capacity"] == pytest.approx(25)
    assert "quarantines" in cli(arguments).out


def test_a_capacity_that_is_never_reached_has_no_quarantine(cli: CommandLine) -> None:
    played = json.loads(cli(["simulate", "quarantine", "--capacity", "1e6", *QUICK, "-o", "json"]).out)
    assert all(row["quarantines"] == 0 for row in played["ratios"])


def test_shedders_are_shown_side_by_side(cli: CommandLine) -> None:
    shown = cli(["simulate", "shedders"]).out
    for words in (*CASES, "threshold moves", "avg moves", "threshold uneven", "overload uneven"):
        assert words in shown
    played = json.loads(cli(["simulate", "shedders", "--case", "one-empty", "-o", "json"]).out)
    [case] = played["cases"]
    assert case["usages"] == [50, 50, 50, 50, 50, 0]
    assert case["plays"]["threshold"]["moves"] == 0 < case["plays"]["avg"]["moves"]


def test_a_cluster_of_ones_own_is_played_alone(cli: CommandLine) -> None:
    arguments = ["simulate", "shedders", "--usage", "90,5", "--bundles", "30", "--hours", "1", "-o", "json"]
    played = json.loads(cli(arguments).out)
    assert (played["minutes"], played["bundles"]) == (60, 30)
    assert [case["usages"] for case in played["cases"]] == [[90, 5]]


def test_settings_of_shedders_are_options(cli: CommandLine) -> None:
    settings = ["--threshold", "20", "--history", "0.5", "--overloaded", "70", "--weight", "bandwidth-out", "0.5"]
    arguments = ["simulate", "shedders", "--usage", "80/10/90,10", *settings, "-o", "json"]
    played = json.loads(cli(arguments).out)
    weights = {"cpu": 1, "bandwidth-in": 1, "bandwidth-out": 0.5, "direct-memory": 0}
    assert played["settings"] == {"weights": weights, "threshold": 20, "history": 0.5, "overloaded": 70}
    [case] = played["cases"]
    assert case["usages"] == [[80, 10, 90], 10]
    assert all(play["moves"] > 0 for play in case["plays"].values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shedders", "--usage", "1,x"], "with commas"),
        (["shedders", "--usage", "nan"], "between 0 and 100"),
        (["shedders", "--usage", "1/2/3/4/5"], "1 to 4 usages"),
        (["shedders", "--case", "none"], "one-empty"),
        (["shedders", "--history", "1.1"], "0<=x<=1"),
        (["shedders", "--weight", "disk", "1"], "direct-memory"),
        (["quarantine", "--ratio", "2"], "0<=x<=1"),
        (["quarantine", "--ratio", "nan"], "not between 0 and 1"),
        (["quarantine", "--hours", "nan"], "is not a number"),
        (["quarantine", "--capacity", "nan"], "more than 0 MB/s"),
        (["shedders", "--hours", "nan"], "is not a number"),
        (["--list", "shedders", "--bundles", "3"], "No such option"),
    ],
)
def test_wrong_usage_is_said(arguments: list[str], message: str, cli: CommandLine) -> None:
    assert message in cli(["simulate", *arguments], 2).err


@pytest.mark.parametrize("model", ["quarantine", "shedders"])
def test_help_of_a_model_does_not_ask_for_a_scenario(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", model, "--help"]) == 0
    assert f"Usage: fairlane simulate {model} [OPTIONS]" in capsys.readouterr().out
    assert run(["simulate", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: fairlane simulate [OPTIONS] [FILE|NAME]" in shown
    assert model in shown
