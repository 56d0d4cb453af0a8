"""The scenarios that ship break no law and show what they promise."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache

import pytest

from lab.laws import jain
from lab.simulator.findings.result import Result
from lab.simulator.run.many import run_one
from lab.simulator.scenario.library import names

pytestmark = pytest.mark.timeout(300)
LONG = {"thousand-lanes", "crash-storm"}
TIERS = ["high", "medium", "low"]

run = cache(lambda name: run_one(name, 1))


def sent(result: Result, name: str, from_s: int = 1, to_s: int | None = None) -> int:
    """Return the targets sent of a tier or of tasks (`small-*`) between two times; the workers start in second 0."""
    start, end = (None if at_s is None else round(at_s / result.windows.window_s) for at_s in (from_s, to_s))
    if name in TIERS:
        return sum(result.windows.sent[name][start:end])
    return sum(sum(task.sent_by_window[start:end]) for task in result.tasks if fnmatchcase(task.task, name))


def shares(result: Result, names: Sequence[str], from_s: int = 1, to_s: int | None = None) -> list[float]:
    """Return the percentages of tiers or tasks between two times."""
    amounts = [sent(result, name, from_s, to_s) for name in names]
    return [100 * amount / sum(amounts) for amount in amounts]


def longest_s(result: Result, name: str) -> float:
    """Return the longest time from a task's arrival to its end."""
    tasks = [task for task in result.tasks if fnmatchcase(task.task, name)]
    return max((task.ended_s or 1e9) - (task.arrived_s or 0) for task in tasks)


def near(*values: float, within: float = 2) -> list[float]:
    return pytest.approx(values, abs=within)  # type: ignore[return-value]  # equals such lists


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in names()])
def test_a_scenario_that_ships_breaks_no_law(name: str) -> None:
    result = run(name)
    assert result.violations == []
    assert result.use is None or result.use >= (0.97 if name in ("workers-come-and-go", "crash-storm") else 0.98)


@pytest.mark.parametrize("name", ["bad-network", "retries", "crash-storm"])
def test_every_target_has_an_outcome_in_spite_of_faults(name: str) -> None:
    result = run(name)
    assert result.outcomes["pending"] == 0
    assert name == "crash-storm" or result.repeats == 0


def test_targets_that_are_tried_again_are_done_within_a_minute() -> None:
    assert longest_s(run("retries"), "*") <= 60


@pytest.mark.parametrize(
    ("name", "window_s", "within"),
    [
        ("all-backlogged", 10, 2),
        ("one-worker-has-high", 10, 2),
        ("workers-come-and-go", 10, 2),
        ("wrong-clocks", 10, 2),
        ("one-worker", 5, 1),
        ("uncapped", 4, 2),
    ],
)
def test_backlogged_tiers_share_by_weight_in_every_window(name: str, window_s: int, within: float) -> None:
    result = run(name)
    assert result.repeats == 0
    for from_s in range(1, round(result.ran_s) - window_s + 1):
        assert shares(result, TIERS, from_s, from_s + window_s) == near(60, 30, 10, within=within)


@pytest.mark.parametrize("name", ["all-backlogged", "one-worker-has-high"])
def test_tasks_of_a_tier_share_equally(name: str) -> None:
    assert min(tier.jain or 0 for tier in run(name).tiers.values()) >= 0.99


@pytest.mark.slow
def test_a_thousand_lanes_share_equally() -> None:
    assert jain([sum(task.sent_by_window[2:]) for task in run("thousand-lanes").tasks]) >= 0.95


def test_a_single_worker_keeps_gaps_short() -> None:
    gaps = [tier.longest_gap for tier in run("one-worker").tiers.values()]
    assert all(gap is not None and gap.targets <= 1.5 * gap.bound for gap in gaps)


def test_workers_without_a_capacity_are_the_limit() -> None:
    assert sent(run("uncapped"), "*") / 9 == pytest.approx(4_000, rel=0.06)


def test_apps_share_before_their_tasks() -> None:
    assert shares(run("apps"), ["many-*", "single", "heavy"]) == near(25, 25, 50)


def test_small_tasks_pass_a_big_one() -> None:
    """Ten at 200/s: 1,000 targets take 5 s."""
    result = run("big-task-first")
    assert longest_s(result, "small-*") <= 6.5
    assert shares(result, ["big", "small-*"], 6, 9) == near(10, 90, within=3)


def test_what_a_cap_leaves_goes_to_the_other_tiers() -> None:
    result = run("cap-bites")
    assert shares(result, TIERS, 1, 10) == near(60, 30, 10)
    rates = [sent(result, tier, 12, 20) / 8 for tier in TIERS]
    assert rates == pytest.approx([300, 1275, 425], rel=0.05)
    assert shares(result, TIERS, 22, 30) == near(60, 30, 10)


def test_caps_of_tasks_apps_and_channels_hold_together() -> None:
    result = run("caps")
    rates = [sent(result, name) / 29 for name in ("alone", "shop-*", "*mail*", "news-mail")]
    assert rates == pytest.approx([300, 500, 600, 100], rel=0.05)
    assert shares(result, ["shop-high", "shop-low"]) == near(85.7, 14.3, within=4)


def test_a_paused_channel_sends_nothing_and_owes_nothing() -> None:
    result = run("channel-pause")
    assert sent(result, "*mail*", 8, 10) == 0
    assert shares(result, ["push", "mail"], 11, 15) == near(50, 50, within=3)


def test_an_idle_tier_leaves_its_share_and_takes_it_again() -> None:
    result = run("idle-tier")
    assert shares(result, TIERS, 1, 9) == near(60, 30, 10)
    assert shares(result, TIERS, 11, 19) == near(0, 75, 25)
    assert shares(result, TIERS, 21, 30) == near(60, 30, 10)


def test_a_task_that_arrives_late_shares_from_then_on() -> None:
    result, tasks = run("late-arrivals"), ["first", "second", "third", "fourth"]
    for count in (2, 3, 4):
        equal = near(*[100 / count] * count)
        assert shares(result, tasks[:count], 10 * count - 9, 10 * count - (count == 4)) == equal
    assert longest_s(result, "fourth") <= 10.8


def test_a_paused_task_sends_nothing_and_a_cancelled_one_ends() -> None:
    result = run("pause")
    assert sent(result, "paused", 8, 10) == sent(result, "small", 8, 10) == 0
    assert shares(result, ["paused", "cancelled", "low"], 11, 15) == near(85.7, 0, 14.3, within=9)
    assert longest_s(result, "cancelled") <= 15


def test_weights_tiers_and_capacity_change_while_tasks_run() -> None:
    result, tasks = run("weight-change"), ["one", "other", "low"]
    assert shares(result, tasks, 1, 10) == near(42.86, 42.86, 14.29)
    assert shares(result, tasks, 12, 20) == near(64.3, 21.4, 14.3)
    assert shares(result, tasks, 22, 30) == near(37.5, 12.5, 50)
    assert sent(result, "*", 32, 40) / 8 == pytest.approx(1_000, rel=0.03)
