"""A bound that no task and no outcome topic can use up."""

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.shared_bound import SharedBound
from tests.unit.reachable import texts_in

BOUND = 1_200


def bound() -> SharedBound:
    """Tasks are named by their outcome topic and a letter."""
    return SharedBound(BOUND, lambda task: int(task[0]))


def filled(counted: SharedBound, *tasks: str) -> list[int]:
    """Add to the tasks in turn until none has room; return the targets of each."""
    targets = dict.fromkeys(tasks, 0)
    while open_tasks := [task for task in tasks if counted.has_room(task)]:
        for task in open_tasks:
            counted.add(task, 1)
            targets[task] += 1
    return list(targets.values())


def test_a_task_leaves_room_for_others_of_its_topic_and_a_topic_for_other_topics() -> None:
    counted = bound()
    assert filled(counted, "0a") == [BOUND // 3]
    [other] = filled(counted, "0b")
    assert other > 100
    [elsewhere] = filled(counted, "1a")
    assert elsewhere > 100
    assert counted.targets < BOUND


def test_all_tasks_of_one_topic_together_leave_half() -> None:
    counted = bound()
    filled(counted, *(f"0{number}" for number in range(100)))
    assert counted.targets <= BOUND / 2 + 100
    assert filled(counted, "1a")[0] > 100


@given(st.lists(st.tuples(st.sampled_from(["0a", "0b", "1a", "2a"]), st.integers(0, 400))))
def test_what_was_added_can_be_taken_away_and_leaves_nothing(added: list[tuple[str, int]]) -> None:
    counted, fresh = bound(), bound()
    for task, targets in added:
        counted.add(task, targets)
    assert counted.targets == sum(targets for _, targets in added)
    for task, targets in added:
        counted.add(task, -targets)
    assert counted.targets == 0
    assert not texts_in(counted) & {task for task, _ in added}
    assert filled(counted, "0a", "1a") == filled(fresh, "0a", "1a")
