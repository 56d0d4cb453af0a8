"""Law 6: caps are prepaid; what is granted in any time stays below cap x time + burst, the first second included."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.wire.lease import GivenBack, Status
from tests.contract.ledger_crowd import Backlog, add_tasks, assert_tallied, crowd_of
from tests.contract.ledger_worlds import LawWorld, Worlds, ask_own, given_back, run, set_cap, statuses

WINDOW_S = 0.25
CAPS = ["capacity", "cap:channel:null", "cap:app:shop", "cap:app_channel:shop/null", "task"]


def test_after_a_lull_no_more_than_a_window_is_saved(world: LawWorld) -> None:
    crowd = crowd_of(world, {"high": 1, "medium": 1, "low": 1}, rate=1_000, workers=1, period_ms=50, ask_targets=5_000)
    crowd.run_until(500)
    world.advance(60_000)
    before = len(crowd.doses)
    crowd.run_until(600)
    assert sum(dose.targets for dose in crowd.doses[before:]) <= 1_000 * (WINDOW_S + 0.1) + 3


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(envelope=st.sampled_from([1, 7, 100]), cap=st.sampled_from([1, 50, 900]), total=st.sampled_from([0, 2_000]))
def test_a_tasks_cap_is_never_exceeded_and_is_used(worlds: Worlds, envelope: int, cap: int, total: int) -> None:
    world = worlds()
    task = add_tasks(world, {"high": 1}, cap=cap)["high"]
    world.set_capacity(total)
    crowd = Backlog(world, held={"a": task, "b": task}, period_ms={"a": 100, "b": 40}, size=envelope)
    crowd.run_until(6_000)
    for window_ms in (100, 1_000, 5_000):
        assert crowd.most_in(window_ms) <= cap * window_ms / 1_000 + max(cap * WINDOW_S, 1) + envelope
    assert crowd.sums(0, 6_000).total() >= 0.97 * cap * 6 - envelope


@pytest.mark.parametrize("rates", [[20, 300], [300, 20, 300]], ids=str)
@pytest.mark.parametrize("field", CAPS)
def test_time_at_a_lower_rate_is_not_paid_at_a_higher_one_that_is_set_after_it(
    world: LawWorld, field: str, rates: list[int]
) -> None:
    """The bucket is empty at first, and not read between the changes, of which the last is 50 ms ago."""

    def granted(number: int) -> int:
        return world.granted(number, ask_own("t", 10_000 * number, 9_000))

    world.add("t")
    set_cap(world, field, f"{rates[0]}:2000")
    granted(1)
    world.advance(200_000)
    assert 1_000 <= granted(2) <= 2_000
    for rate in rates[1:]:
        world.advance(900 if rate == 300 else 0)
        set_cap(world, field, f"{rate}:2000")
    world.advance(50)
    assert granted(3) <= 20 * 0.9 + 300 * 0.05 + 1
    world.advance(1_000)
    assert 298 <= granted(4) <= 301


@pytest.mark.parametrize("field", CAPS)
def test_a_clock_that_steps_back_neither_stops_a_cap_nor_is_paid_for_twice(world: LawWorld, field: str) -> None:
    """By five minutes: it goes on from there at its rate; what the bucket held is all that it holds."""
    world.add("t")
    set_cap(world, field, "1000")
    granted = iter(range(1, 100))

    def grants() -> int:
        """Return the targets granted by three calls, 50 ms apart."""
        found = 0
        for number in (next(granted) for _ in range(3)):
            world.advance(50)
            found += world.granted(number, ask_own("t", 1_000 * number, 900))
        return found

    for _ in range(4):
        grants()
    world.advance(-300_000)
    assert 99 <= grants() <= 101
    assert 149 <= grants() <= 151


def test_a_burst_is_granted_at_once_and_no_more(live: LawWorld) -> None:
    """Less what the idle tiers keep of it."""
    live.set_global("cap:channel:null", "20:100")
    granted, waits = live.statuses(1, ask_own("t", 0, 500))
    assert (granted[0], waits[0]) == (Status.GRANTED, Status.NO_CREDIT)
    assert 90 <= granted[1] <= 100


def test_without_a_capacity_everything_is_granted(live: LawWorld) -> None:
    assert live.statuses(1, ask_own("t", 0, 5_000, size=500)) == [(Status.GRANTED, 5_000)]


def test_whole_envelopes_are_granted_on_credit(live: LawWorld) -> None:
    """A bucket above zero may go below it by one envelope, and then the debt is paid first: 500 less the 80 that were
    there (the first 20 fill what the idle tiers keep)."""
    live.set_capacity(1_000)
    live.lease(1, ask_own("t", 0, 2, size=500))
    live.advance(100)
    answer = live.lease(2, ask_own("t", 0, 2, size=500))
    assert statuses(answer) == [(Status.GRANTED, 1), (Status.NO_CREDIT, 1)]
    live.advance(420)
    assert live.statuses(3, ask_own("t", 1, 1, size=500)) == [(Status.NO_CREDIT, 1)]
    live.advance(20)
    assert live.statuses(4, ask_own("t", 1, 1, size=500)) == [(Status.GRANTED, 1)]


def granted_again(live: LawWorld, **lease: int) -> tuple[GivenBack, int]:
    """The targets of a second call at the capacity, and how they are given back."""
    live.set_capacity(1_000)
    live.lease(1, ask_own("t", 0, 500))
    live.advance(100)
    granted = live.statuses(2, ask_own("t", 0, 500), **lease)[0][1]
    return given_back("t", 0, granted, "w.2"), granted


def test_what_is_given_back_in_time_can_be_granted_to_others(live: LawWorld) -> None:
    back, granted = granted_again(live)
    answer = live.lease(3, ask_own("t", 0, 500), given_back=[back])
    assert statuses(answer)[0] == (Status.GRANTED, granted)
    assert live.stats()["returned:high"] == granted
    assert live.stats()["granted:high"] == 2 * granted


def test_what_is_given_back_after_the_lease_is_spent(live: LawWorld) -> None:
    back, _ = granted_again(live, lease_ms=100)
    live.advance(100)
    answer = live.lease(3, ask_own("t", 0, 500), given_back=[back])
    assert statuses(answer) == [(Status.GRANTED, 100), (Status.NO_CREDIT, 400)]
    assert "returned:high" not in live.stats()


def test_what_is_recorded_and_given_back_all_the_same_is_not_refunded(live: LawWorld) -> None:
    """The record of a third came under another claim, as after a stall: that was sent."""
    back, granted = granted_again(live)
    live.record("t", run(0, granted // 3), claim="another.1")
    answer = live.lease(3, ask_own("t", 500, 500), given_back=[back])
    assert statuses(answer)[0] == (Status.GRANTED, granted - granted // 3)
    assert_tallied(live)


@pytest.mark.parametrize("field", ["capacity", "cap:channel:null", "task"])
def test_what_is_given_back_to_a_full_bucket_is_not_saved_up(world: LawWorld, field: str) -> None:
    world.add("t")
    set_cap(world, field, "1000")
    world.lease(1, ask_own("t", 0, 900))
    world.advance(250)
    granted = world.statuses(2, ask_own("t", 1_000, 900))[0][1]
    world.advance(500)
    back = given_back("t", 1_000, granted, "w.2")
    pieces = world.statuses(3, ask_own("t", 2_000, 900), given_back=[back])
    assert pieces[0][0] == Status.GRANTED
    assert pieces[0][1] <= 1_000 * WINDOW_S + 1


def test_what_a_lane_holds_back_for_want_of_credit_blocks_the_rest_of_it_only(world: LawWorld) -> None:
    world.add("capped", cap=4)
    world.add("free")
    world.set_capacity(0)
    answer = world.lease(1, ask_own("capped", 0, 10), ask_own("free", 0, 10))
    assert statuses(answer, 0) == [(Status.GRANTED, 1), (Status.NO_CREDIT, 9)]
    assert statuses(answer, 1) == [(Status.GRANTED, 10)]
