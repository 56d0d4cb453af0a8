"""Twenty seconds of faults from a seed: nothing is lost, left open or sent twice. What breaks that is caught."""

import json
from pathlib import Path

import pytest

from benchmarks.command import bench
from benchmarks.nemesis.run import Trial, run
from fairlane import Settings
from fairlane.cli.main import run as command
from lab.stack import java
from tests.conftest import GIVEN, skipped_without
from tests.integration.saboteur import Saboteur

pytestmark = [pytest.mark.needs_stack, pytest.mark.slow, pytest.mark.timeout(500)]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The servers are the test's own; the sabotaged workers import from here."""
    with skipped_without("Java"):
        java.find(GIVEN)
    monkeypatch.setenv("FAIRLANE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    return tmp_path


def test_twenty_seconds_of_faults_lose_nothing_and_send_nothing_twice_without_a_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The seed has a worker killed and two stopped, Redis stopped, topics unloaded and nonsense in a lane."""
    code = command(["nemesis", "--minutes", "0.34", "--seed", "12", "-o", "json"], bench)
    report = json.loads(capsys.readouterr().out)
    assert (code, report["faults_not_applied"]) == (0, [])
    assert {"kill worker", "stop worker", "stop Redis", "unload bundle"} <= report["faults"].keys()
    counts = {name: report[name]["count"] for name in ("lost", "never_ended", "twice_and_not_excused")}
    assert counts == {"lost": 0, "never_ended": 0, "twice_and_not_excused": 0}
    assert report["calls"] >= report["accepted"] > 1_000


def test_outcomes_that_are_not_recorded_and_calls_that_are_made_twice_are_caught(home: Path) -> None:
    """The seed has no fault in so short a time: whatever is found is the saboteur's."""
    channel = f"{Saboteur.__module__}:{Saboteur.__name__}"
    report = run(Settings(), Trial(seed=9, seconds=6, channel=channel, calm_s=20), print)
    assert not report.holds
    verdict = report.verdict
    assert (report.faults, verdict.lost, verdict.excused) == ([], [], [])
    assert 0 < len(verdict.never_ended) < verdict.accepted / 2
    assert 0 < len(verdict.not_excused) < verdict.accepted / 2
    assert all(case.calls for case in (*verdict.never_ended, *verdict.not_excused))
