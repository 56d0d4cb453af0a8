"""Live tasks in groups that are served alike."""

from dispatcher.model.pools import Cap
from dispatcher.model.view import Globals, TargetCounts
from producers.desk.board.groups import TaskGroup, grouped, merged
from tests.unit.dispatch.test_verdict import WEIGHTS
from tests.unit.tasks import task_view

COUNTS = TargetCounts(total=10, pending=4, sent=3, failed=2, expired=1)
TASKS = [
    task_view("a", targets=COUNTS, rate=1.5, weight=2.0),
    task_view("b", targets=COUNTS, rate=1.0),
    task_view("c", app="news", targets=COUNTS),
    task_view("d", cap=5, targets=COUNTS),
    task_view("e", cap=7, targets=COUNTS),
    task_view("f", state="paused", targets=COUNTS),
    task_view("g", sealed=False, hold_until_sealed=True, targets=COUNTS),
]
PLAIN = Globals(capacity=10, tier_weights=WEIGHTS)


def ids(groups: list[TaskGroup]) -> list[tuple[str, int]]:
    return [(group.name, group.tasks) for group in groups]


def test_group_adds_up_its_tasks() -> None:
    first = grouped(TASKS)[0]
    assert first[6:] == ("a", 2, 3.0, 0, 2.5, 8, 0, 12, 6, 20)
    assert (first.job.weight, first.job.pending, first.job.chunk, first.job.on_hold) == (3_000, 8.0, 10.0, False)


def test_tasks_of_other_apps_or_states_and_those_with_caps_are_groups_of_their_own() -> None:
    assert ids(grouped(TASKS)) == [("a", 2), ("c", 1), ("d", 2), ("f", 1), ("g", 1)]
    assert [group.cap for group in grouped(TASKS) if group.is_capped] == [12]
    assert [group.state for group in grouped(TASKS)] == ["running", "running", "running", "paused", "held"]


def test_merging_joins_apps_that_the_settings_treat_alike() -> None:
    assert ids(merged(grouped(TASKS), PLAIN)) == [("a", 3), ("d", 2)]


def test_merging_keeps_an_app_with_a_cap_or_a_weight_of_its_own() -> None:
    capped = Globals(capacity=10, tier_weights=WEIGHTS, caps={"app/news": Cap(3, 0)})
    by_apps = Globals(capacity=10, tier_weights=WEIGHTS, sharing="apps")
    for settings in (capped, by_apps):
        assert ids(merged(grouped(TASKS), settings)) == [("a", 2), ("c", 1), ("d", 2)]


def test_merging_leaves_out_what_is_paused() -> None:
    assert merged(grouped(TASKS), Globals(capacity=10, tier_weights=WEIGHTS, paused_channels=frozenset({"null"}))) == []
