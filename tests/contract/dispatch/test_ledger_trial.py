"""A trial send: before its go, exactly the first envelopes of a task are granted, wherever they are."""

import pytest

from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import RETRY
from tests.contract.ledger_worlds import LawWorld, ask_own, ask_retry, mixed, own_lane, want
from tests.contract.registry_records import task_of

FIRST, CHUNK = 25, 10
"""Three envelopes; the third has five targets."""


@pytest.fixture
def trial(world: LawWorld) -> LawWorld:
    world.add("t", first=FIRST, chunk=CHUNK)
    return world


def go(world: LawWorld, paused: str = "0") -> None:
    world.change("t", "paused", paused)


def test_only_the_first_envelopes_are_granted_in_a_retry_lane(trial: LawWorld) -> None:
    assert trial.word(ask_retry(want("t", 0, 5, size=CHUNK))) == [
        (Status.GRANTED, 3, ""),
        (Status.MOVE, 2, own_lane("t")),
    ]


def test_nothing_is_granted_in_the_tasks_own_lane_but_the_first_envelopes(trial: LawWorld) -> None:
    assert trial.word(ask_own("t", 3, 1_000)) == [(Status.PARKED, 1_000, "")]


def test_a_target_of_the_first_ones_is_tried_again_before_the_go(trial: LawWorld) -> None:
    trial.record("t", mixed(0, [RETRY] * CHUNK), mixed(4, [RETRY] * CHUNK))
    assert trial.word(ask_retry(want("t", 0, 1, attempt=1, size=CHUNK)))[0][0] == Status.GRANTED
    assert trial.word(ask_retry(want("t", 4, 1, attempt=1, size=CHUNK)))[0][0] == Status.MOVE


def test_after_the_go_everything_is_granted(trial: LawWorld) -> None:
    go(trial)
    assert trial.word(ask_own("t", 3, 100)) == [(Status.GRANTED, 100, "")]
    assert trial.word(ask_retry(want("t", 0, 1, size=CHUNK))) == [(Status.MOVE, 1, own_lane("t"))]


def test_a_pause_stops_the_first_targets_too(trial: LawWorld) -> None:
    go(trial, paused="1")
    assert trial.word(ask_retry(want("t", 0, 1, size=CHUNK))) == [(Status.MOVE, 1, own_lane("t"))]
    assert trial.word(ask_own("t", 0, 1)) == [(Status.PARKED, 1, "")]


@pytest.mark.parametrize("what", ["the channel is paused", "its audience is not complete", "a cap", "its own cap"])
def test_what_else_holds_them_back_leaves_them_where_workers_find_them(trial: LawWorld, what: str) -> None:
    """No worker holds the task's own lane before the go."""
    if what == "the channel is paused":
        trial.set_global("channel_paused:null", "1")
    elif what == "a cap":
        trial.set_global("cap:channel:null", "1")
    elif what == "its own cap":
        trial.change("t", "cap", "1")
    else:
        trial.add("t2", first=FIRST, chunk=CHUNK, hold_until_sealed=True)
    task = "t2" if what == "its audience is not complete" else "t"
    pieces = trial.word(ask_retry(want(task, 0, 3, size=CHUNK)))
    assert pieces[-1][0] == Status.HELD
    assert sum(count for _, count, _ in pieces) == 3


def test_cancelled_first_targets_end_like_all_others(trial: LawWorld) -> None:
    trial.change("t", "cancelled", "1")
    assert trial.word(ask_retry(want("t", 0, 1, size=CHUNK))) == [(Status.MOVE, 1, own_lane("t"))]


def test_it_waits_for_its_go_from_the_beginning_and_says_so(trial: LawWorld) -> None:
    def view() -> tuple[str, int, bool]:
        task = task_of(trial.registry, "t")
        return task.state, task.first, task.waits_for_go

    assert view() == ("paused", FIRST, True)
    go(trial)
    assert view() == ("running", FIRST, False)
    go(trial, paused="1")
    assert view() == ("paused", FIRST, False)


def test_the_go_may_be_read_before_the_record(world: LawWorld) -> None:
    """As after a rebuild, when a change of the task was applied by its client first."""
    world.change("t", "paused", "0")
    world.add("t", first=FIRST, chunk=CHUNK)
    task = task_of(world.registry, "t")
    assert (task.state, task.waits_for_go) == ("running", False)
