"""The door of a pool: grants leave evenly, what a stall of ours leaves behind is lost, and what one of the
provider held back counts when it goes on."""

import asyncio

import pytest

from consumers.delivery.fleet_gate import FleetGate, WaitingRequests
from dispatcher.channels.guards.door import BURST_S, KEPT_S, NEVER_S, STALL_S, Door, Doors, Load, StallWatch
from dispatcher.wire.lease import Pace
from tests.virtual_clock import VirtualClock


def leaving(door: Door, from_s: float, to_s: float, step_s: float = 0.001) -> int:
    """Return how many requests leave while the door is asked every step."""
    count, steps = 0, round((to_s - from_s) / step_s)
    for number in range(steps):
        while door.wait_s(from_s + number * step_s) <= 0.0:
            door.leave()
            count += 1
    return count


def test_a_grant_leaves_evenly_from_its_start_to_its_end() -> None:
    door = Door()
    door.allot(100, 1.0, 0.5)
    assert leaving(door, 0.0, 1.0) == 0
    assert leaving(door, 1.0, 1.25) == pytest.approx(50, abs=1)
    assert leaving(door, 1.25, 3.0) == pytest.approx(50, abs=1)
    assert door.wait_s(3.0) == NEVER_S


def test_what_a_stall_leaves_behind_is_not_made_up_for() -> None:
    door = Door()
    door.allot(1_000, 0.0, 1.0)
    assert leaving(door, 0.0, 0.2) == pytest.approx(200, abs=1)
    assert leaving(door, 0.8, 1.1) == pytest.approx(200 + 1_000 * BURST_S, abs=2)


def test_grants_that_overlap_add_up() -> None:
    door = Door()
    door.allot(100, 0.0, 1.0)
    door.allot(300, 0.0, 1.0)
    assert leaving(door, 0.0, 0.5) == pytest.approx(200, abs=1)


def test_the_wait_is_the_time_until_the_next_request() -> None:
    door = Door()
    door.allot(10, 2.0, 1.0)
    assert door.wait_s(0.5) == pytest.approx(1.5)
    assert door.wait_s(2.0) == pytest.approx(0.1)
    assert door.wait_s(2.05) == pytest.approx(0.05)
    assert door.wait_s(2.1) == 0.0


def test_a_grant_that_comes_late_has_lost_what_is_past() -> None:
    door = Door()
    door.wait_s(10.0)
    door.allot(1_000, 9.5, 1.0)
    assert leaving(door, 10.0, 11.0) == pytest.approx(500 + 1_000 * BURST_S, abs=2)


def pace(pool: str, flow: str, targets: int, delay_us: int = 0, rate: int = 1_000) -> Pace:
    return Pace(pool, flow, targets, delay_us, rate)


def test_a_flow_of_two_pools_leaves_when_both_let_it() -> None:
    doors = Doors()
    doors.allot([pace("quota/p", "fcm/shop", 250), pace("channel/fcm", "fcm/shop", 25)], {"fcm/shop"}, 0.0)
    left = sum(doors.wait_s("fcm/shop", number / 1_000) <= 0.0 for number in range(1_000))
    assert left == pytest.approx(25, abs=1)


def test_apps_of_a_group_share_its_door() -> None:
    doors = Doors()
    doors.allot([pace("quota/p", "fcm/shop", 50), pace("quota/p", "fcm/bank", 50)], {"fcm/shop", "fcm/bank"}, 0.0)
    left = [
        sum(doors.wait_s(flow, number / 1_000) <= 0.0 for flow in ("fcm/shop", "fcm/bank")) for number in range(500)
    ]
    assert sum(left) == pytest.approx(100, abs=1)
    assert not doors.is_paced("fcm/news", 0.1)


def test_a_flow_without_grants_for_a_while_is_no_longer_paced() -> None:
    doors = Doors()
    doors.allot([pace("quota/p", "fcm/shop", 100)], {"fcm/shop"}, 0.0)
    assert doors.is_paced("fcm/shop", 0.25 + KEPT_S - 0.01)
    assert not doors.is_paced("fcm/shop", 0.25 + KEPT_S)
    assert doors.wait_s("fcm/shop", 10.0) == NEVER_S, "a call that is paced still does not leave"


def test_flow_that_is_granted_something_without_a_pace_has_no_cap_any_more() -> None:
    doors = Doors()
    slow = [pace("app_channel/shop/fcm", "fcm/shop", 100, rate=1), pace("channel/fcm", "fcm/bank", 9)]
    doors.allot(slow, {"fcm/shop", "fcm/bank"}, 0.0)
    doors.allot([], {"fcm/shop"}, 0.1)
    assert not doors.is_paced("fcm/shop", 0.1)
    assert doors.is_paced("fcm/bank", 0.1)
    assert [door.cap for door in doors.by_pool.values()] == [0, 1_000]


def test_pool_whose_cap_was_removed_holds_up_no_flow_that_has_another() -> None:
    doors, flows = Doors(), {"fcm/shop"}
    doors.allot([pace("app_channel/shop/fcm", "fcm/shop", 100, rate=1), pace("channel/fcm", "fcm/shop", 100)], flows, 0)
    doors.allot([pace("channel/fcm", "fcm/shop", 100)], flows, 0.1)
    left = sum(doors.wait_s("fcm/shop", number / 1_000) <= 0.0 for number in range(100, 350))
    assert left == pytest.approx(200, abs=30)


# ------------------------------------------------------------- the keeper
async def test_requests_leave_in_order_and_the_last_ones_are_sent_away() -> None:
    clock, open_s = VirtualClock(), 0.0
    tokens = 3

    def wait_s(now_s: float) -> float:
        nonlocal tokens
        if tokens and now_s >= open_s:
            tokens -= 1
            return 0.0
        return 0.001

    keeper = WaitingRequests(wait_s, lambda _: 0.0, clock)
    until_s = clock.monotonic_s() + 1.0
    waiting = [asyncio.ensure_future(keeper.enter(until_s)) for _ in range(5)]
    await asyncio.sleep(0.05)
    assert [one.done() for one in waiting] == [True] * 3 + [False] * 2
    waiting[3].cancel()
    clock.advance(1.0)
    done = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5.0)
    assert [one is True for one in done] == [True] * 3 + [False] * 2


async def test_the_gate_paces_what_the_ledger_granted() -> None:
    clock = VirtualClock()
    gate = FleetGate(clock)
    assert not gate.is_paced("fcm/shop")
    gate.allot([pace("quota/p", "fcm/shop", 10, rate=40)], {"fcm/shop"}, clock.monotonic_s())
    assert gate.is_paced("fcm/shop")
    first = asyncio.ensure_future(gate.enter("fcm/shop", clock.monotonic_s() + 1.0))
    await asyncio.sleep(0.01)
    assert not first.done()
    clock.advance(0.025)
    await asyncio.sleep(0.06)
    assert first.done()
    assert first.result()


# ------------------------------------------------------------- stalls
def answers(watch: StallWatch, from_s: float, to_s: float, took_s: float = 0.05) -> list[dict[str, Load]]:
    """Let a request leave and be answered every 10 ms. Return what the answers ended."""
    ended = []
    for number in range(round((to_s - from_s) * 100)):
        watch.left("fcm/shop", Load())
        ended.append(watch.answered(took_s, 0.05, from_s + number / 100))
    return ended


def test_answers_that_come_as_usual_are_no_stall() -> None:
    watch = StallWatch()
    assert answers(watch, 1.0, 3.0) == [{}] * 200


def test_what_left_without_an_answer_is_told_once() -> None:
    watch = StallWatch()
    answers(watch, 1.0, 2.0)
    for _ in range(30):
        watch.left("fcm/shop", Load(5, 1))
    watch.left("fcm/bank", Load())
    assert watch.answered(2.0, 0.05, 4.0) == {"fcm/shop": Load(150, 30), "fcm/bank": Load(1, 1)}
    assert watch.answered(2.0, 0.05, 4.001) == {}


def test_a_stall_of_ours_is_none_of_the_provider() -> None:
    """Nothing leaves during it, and what had left before has arrived."""
    watch = StallWatch()
    answers(watch, 1.0, 2.0)
    assert watch.answered(2.0, 0.05, 4.0) == {}


def test_a_flow_with_few_requests_is_not_stalled_by_its_usual_time() -> None:
    watch = StallWatch()
    for number in range(10):
        watch.left("fcm/shop", Load())
        assert watch.answered(0.5, 0.5, 10.0 + number) == {}, STALL_S


def test_others_wait_until_what_the_stall_held_back_has_had_its_time() -> None:
    door = Door()
    door.allot(1_000, 0.0, 1.0)
    assert leaving(door, 0.0, 0.2) > 190
    door.pay(300)
    assert leaving(door, 0.2, 0.49) == 0
    assert leaving(door, 0.49, 1.0) > 480


def test_a_request_that_costs_more_than_one_is_paid_for_by_those_after_it() -> None:
    door = Door()
    door.allot(100, 0.0, 1.0)
    assert door.wait_s(0.01) == 0.0
    door.leave(50)
    assert door.wait_s(0.02) > 0.45
    assert door.wait_s(0.5) > 0.0
    assert door.wait_s(0.52) == 0.0
    assert door.left(0.52) < 51
