"""Scenario files: what is wrong with one is said by field; what ships can be read."""

from pathlib import Path

import pytest

from dispatcher.model.errors import InvalidInput, NotFound
from lab.simulator.scenario.library import find, names, parse
from lab.simulator.scenario.random_scenario import ENVELOPES, random_scenario

SMALL = "duration_s: 5\ntasks:\n  - {name: a, targets: 10}\nworkers:\n  - {count: 1}\n"
NAMED = {
    "all-backlogged",
    "big-task-first",
    "one-worker-has-high",
    "late-arrivals",
    "idle-tier",
    "caps",
    "thousand-lanes",
    "crash-storm",
    "weight-change",
    "uncapped",
}


def test_the_scenarios_that_ship_can_be_read_and_say_what_they_are() -> None:
    assert set(names()) >= NAMED
    for name in names():
        assert find(name).about, name


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("capcity: 5", "capcity: there is no such field"),
        ("capacity: -1", "capacity: is '-1'; write RATE or RATE:BURST"),
        ("capacity: many", "capacity: is 'many'; write RATE or RATE:BURST"),
        ("tiers: {high: 1}", "give high, medium and low a weight"),
        ("claim_ms: 1000", "claim_ms: must be longer than"),
        ("changes: [{at_s: 1, weight: 2}]", "changes.0: names a task with weight"),
        ("changes: [{at_s: 1, task: a, capacity: 2}]", "changes.0: names a task with weight"),
        ("faults: {lost: 2}", "faults.lost: it must be at most 1"),
        ("changes: [{at_s: 1, task: b, weight: 2}]", "changes: there is no task b"),
    ],
)
def test_what_is_wrong_is_named(line: str, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parse(f"{SMALL}{line}\n", "mine")
    assert error.value.cause.startswith("Scenario mine: ")
    assert message in error.value.cause


def test_two_entries_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="tasks: the name a is given twice"):
        parse(SMALL.replace("workers:", "  - {name: a, targets: 3}\nworkers:"), "mine")
    with pytest.raises(InvalidInput, match="workers: the name w1 is given twice"):
        parse(f"{SMALL}  - {{name: w1}}\n  - {{name: w2}}\n".replace("{count: 1}", "{count: 2}"), "mine")


@pytest.mark.parametrize("text", ["- 1\n", "a: [", "just words"])
def test_what_is_no_scenario_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not"):
        parse(text, "mine")


def test_an_unknown_name_points_to_the_list() -> None:
    with pytest.raises(NotFound) as error:
        find("no-such-thing")
    assert "--list" in error.value.next_step


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="not a text in UTF-8"):
        find(str(tmp_path / "binary.yaml"))
    with pytest.raises(InvalidInput, match="cannot be read: File name too long"):
        find("x" * 5_000)


def test_a_rate_may_carry_its_burst() -> None:
    scenario = parse(f'{SMALL}capacity: "2000:100"\n', "mine")
    assert (scenario.capacity.rate, scenario.capacity.burst, scenario.capacity.text) == (2_000, 100, "2000:100")
    assert parse(f"{SMALL}capacity: 2000\n", "mine").capacity.allowance == 500


@pytest.mark.parametrize("name", ENVELOPES)
def test_made_up_scenarios_follow_from_their_seed_and_keep_to_their_size(name: str) -> None:
    for seed in range(50):
        scenario = random_scenario(seed, name)
        assert scenario == random_scenario(seed, name)
        envelopes = [-(-task.targets // task.envelope_targets) * task.count for task in scenario.tasks]
        assert sum(envelopes) <= ENVELOPES[name] + sum(task.count for task in scenario.tasks)
    assert random_scenario(1, name) != random_scenario(2, name)
