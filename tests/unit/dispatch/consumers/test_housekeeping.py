"""Every chore reaches its end by another round, and the outage of one server stops no other chore."""

import threading
from functools import partial

import pytest

from consumers.upkeep.jobs import LONGEST_REST_S, Chore, Housekeeper
from dispatcher.model.errors import FairlaneError, Refused, Unreachable
from tests.actors import running
from tests.virtual_clock import VirtualClock


def refuse(error: FairlaneError) -> None:
    raise error


@pytest.mark.parametrize("error", [Unreachable("Redis is gone."), Refused("No rights.", "Give them.")])
def test_a_chore_that_cannot_be_done_keeps_no_other_from_being_done(error: FairlaneError) -> None:
    done: list[str] = []
    chores = [Chore(partial(refuse, error)), Chore(partial(done.append, "other"))]
    Housekeeper(chores, lambda: True, VirtualClock()).round()
    assert done == ["other"]


def test_what_nobody_has_foreseen_ends_no_housekeeper_and_is_done_again(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise one bad record would end one worker after the other."""
    clock, done = VirtualClock(), list[str]()

    def nonsense() -> None:
        done.append("nonsense")
        int("a number")

    keeper = Housekeeper([Chore(nonsense), Chore(partial(done.append, "other"))], lambda: True, clock)
    for _ in range(round(LONGEST_REST_S) + 1):
        keeper.round()
        clock.advance(1)
    assert done.count("nonsense") == 2
    assert done.count("other") == LONGEST_REST_S + 1
    assert caplog.text.count("Please report this defect") == 2


def test_a_chore_is_done_as_often_as_it_says() -> None:
    clock, often, rarely = VirtualClock(), list[int](), list[int]()
    keeper = Housekeeper(
        [Chore(partial(often.append, 1)), Chore(partial(rarely.append, 1), every_s=600)], lambda: True, clock
    )
    for _ in range(4):
        keeper.round()
        clock.advance(300)
    assert (len(often), len(rarely)) == (4, 2)


def test_a_chore_that_takes_long_is_done_less_often_but_not_rarely() -> None:
    clock, done = VirtualClock(), list[float]()

    def look(took_s: float) -> None:
        done.append(clock.monotonic_s())
        clock.advance(took_s)

    for took_s, wanted in ((0.01, 1.0), (0.1, 5.0), (3.0, LONGEST_REST_S)):
        done.clear()
        keeper = Housekeeper([Chore(partial(look, took_s), rest=50)], lambda: True, clock)
        while len(done) < 2:
            keeper.round()
            clock.advance(1.0)
        assert wanted <= done[1] - done[0] <= wanted + 2.0


def test_a_term_begins_anew_and_nothing_is_done_without_the_job() -> None:
    steps: list[str] = []
    answers, over = iter([False, True, True, False, False, True]), threading.Event()

    def held() -> bool:
        answer = next(answers, None)
        if answer is None:
            over.set()
        return bool(answer)

    chore = Chore(partial(steps.append, "done"), begin=partial(steps.append, "begun"))
    with running(Housekeeper([chore], held, VirtualClock(), period_s=0.001).run):
        assert over.wait(10)
    assert steps == ["begun", "done", "done", "begun", "done"]
