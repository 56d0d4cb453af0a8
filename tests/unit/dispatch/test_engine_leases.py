"""When the engine asks, for how much, and what it does with grants that come late, get lost or cannot be used."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from dispatcher.engine.events import LeaseAnswered
from dispatcher.model.errors import Refused
from dispatcher.model.tier import Tier
from dispatcher.wire.lease import LeaseRequest
from dispatcher.wire.outcome import Outcome
from tests.unit.engine_world import EngineWorld, on_each


def wanted(request: LeaseRequest) -> int:
    return sum(want.count * want.size for ask in request.lanes for want in ask.wants)


# ------------------------------------------------------------------ when the ledger cannot be heard
def test_a_lost_answer_is_asked_for_again_under_its_number(world: EngineWorld) -> None:
    world.add_task("t", 10)
    worker = world.worker()
    worker.leases.lose = 3
    world.run_out("t")
    first = worker.leases.requests[:4]
    assert [request.number for request in first] == [1, 1, 1, 1]
    assert first[0] == first[3]
    assert max(world.calls.values()) == 1
    assert not world.stats().get("repeats_possible", 0), "the repeated call got the same claim"


def test_what_is_claimed_goes_on_while_the_ledger_is_gone(world: EngineWorld) -> None:
    world.add_task("t", 100)
    worker = world.worker()
    worker.courier.paused.add("null")
    worker.work()
    world.add_task("later", 100)
    worker.leases.fail = 1_000_000
    worker.work()
    worker.go_on()
    world.run(lambda: world.finished("t"))
    world.run(within_s=20.0)
    assert not world.finished("later")
    assert len(worker.leases.requests) < 40, "asks with growing pauses"
    worker.leases.fail = 0
    world.run_out("t", "later")
    assert max(world.calls.values()) == 1


def test_a_refusal_ends_the_worker(world: EngineWorld) -> None:
    world.add_task("t", 10)
    worker = world.worker()
    world.folding = False
    worker.leases.fail = 1
    worker.work()
    number = worker.leases.requests[-1].number
    with pytest.raises(Refused):
        worker.engine.step(LeaseAnswered(number, None, Refused("Another worker has this name.")))


def test_a_late_double_of_an_answer_is_ignored(world: EngineWorld) -> None:
    world.add_task("t", 10)
    worker = world.worker()
    ask = worker.leases.ask

    def twice(request, answered):  # type: ignore[no-untyped-def]
        def both(*answer: Any) -> None:
            answered(*answer)
            answered(*answer)

        ask(request, both)

    worker.leases.ask = twice  # type: ignore[method-assign]
    world.sent_once("t", 10)


def test_a_double_that_comes_during_the_next_call_grants_nothing() -> None:
    world = EngineWorld(capacity=10)
    world.add_task("t", 20)
    worker = world.worker()
    ask, doubles = worker.leases.ask, list[Callable[[], None]]()

    def after_the_double_of_the_last(request, answered):  # type: ignore[no-untyped-def]
        for double in doubles:
            double()

        def noted(*result: Any) -> None:
            answered(*result)
            doubles.append(partial(answered, *result))

        ask(request, noted)

    def granted() -> int:
        stats = world.stats()
        return stats.get("granted:high", 0) - stats.get("returned:high", 0)

    worker.leases.ask = after_the_double_of_the_last  # type: ignore[method-assign]
    world.run(lambda: len(world.provider_calls) > granted() or (world.finished("t") and world.settled()))
    assert granted() == len(world.provider_calls) == 20


# ------------------------------------------------------------------ use-by
def test_what_cannot_be_sent_in_time_is_given_back_and_asked_for_again(world: EngineWorld) -> None:
    world.add_task("t", 500)
    worker = world.worker(in_flight_batches=1)
    worker.courier.paused.add("null")
    world.run(within_s=5.0)
    given_back = [given for request in worker.leases.requests for given in request.given_back]
    assert sum(given.count for given in given_back) >= 400
    assert worker.engine.stats.in_flight_batches == 1
    worker.go_on()
    world.sent_once("t", 500)
    assert not world.stats().get("repeats_possible", 0)


def test_nothing_is_handed_to_a_channel_close_to_its_use_by(world: EngineWorld) -> None:
    world.add_task("t", 600)
    worker = world.worker(in_flight_batches=1, use_by_margin_s=0.1)
    worker.courier.paused.add("null")
    left_s: list[float] = []
    on_each(worker.courier, "send", lambda batch, _: left_s.append(batch.use_by_s - world.clock.monotonic_s()))
    for wait_s in (1.88, 0.07, 0.5, 1.4, 1.95) * 5:
        worker.work()
        world.clock.advance(wait_s)
        worker.courier.answer()
    assert len(left_s) >= 10
    assert min(left_s) > 0.1


# ------------------------------------------------------------------ how often
def test_an_idle_worker_does_not_ask() -> None:
    world = EngineWorld(capacity=1_000)
    world.add_task("t", 0)
    worker = world.worker()
    world.run(within_s=30.0)
    assert worker.leases.requests == []


def test_short_of_credit_a_worker_asks_ten_times_a_second() -> None:
    world = EngineWorld(capacity=200)
    for i in range(5):
        world.add_task(f"t{i}", 2_000)
    worker = world.worker()
    world.run(within_s=2.0)
    before = len(worker.leases.requests)
    world.run(within_s=10.0)
    assert 80 <= len(worker.leases.requests) - before <= 105
    assert 2_000 <= worker.engine.stats.tiers[Tier.HIGH].sent <= 2_500, "capacity x time, and a window"


def test_new_demand_is_asked_for_at_once() -> None:
    world = EngineWorld(capacity=1_000)
    world.add_task("backlog", 50_000, tier=Tier.LOW)
    world.worker()
    world.run(within_s=3.03)
    world.add_task("alert", 10, tier=Tier.HIGH)
    assert world.run(lambda: world.calls["alert:9", 0] == 1) <= 0.05


def test_new_demand_is_asked_for_at_once_whatever_credit_there_is(world: EngineWorld) -> None:
    world.add_task("stuck", 5_000, channel="http", tier=Tier.LOW)
    worker = world.worker()
    worker.courier.paused.add("http")
    for name in ("first", "second", "third"):
        world.run(within_s=0.73)
        assert worker.engine.stats.credit_targets >= 500
        world.add_task(name, 10)
        assert world.run(lambda name=name: world.calls[f"{name}:9", 0] == 1) <= 0.02  # type: ignore[misc]


def test_a_lane_that_wakes_up_again_is_asked_for_at_once_again() -> None:
    world = EngineWorld(capacity=1_000)
    world.add_task("backlog", 50_000, tier=Tier.LOW)
    lane = world.add_task("alerts", 40, publish=False)
    world.worker()
    for i in range(20):
        world.run(within_s=0.31 + i / 100)
        world.publish("alerts", lane, 2, first=2 * i)
        assert world.run(lambda: world.calls["alerts:0", 0] == world.calls["alerts:1", 0] == i + 1) <= 0.02  # noqa: B023


def test_calls_keep_a_distance(world: EngineWorld) -> None:
    worker = world.worker()
    asked_s: list[float] = []
    on_each(worker.leases, "ask", lambda *_: asked_s.append(world.clock.monotonic_s()))
    for i in range(40):
        world.add_task(f"t{i}", 1)
        world.run(within_s=0.001)
    world.run_out(*(f"t{i}" for i in range(40)))
    assert len(asked_s) >= 5
    assert min(later - earlier for earlier, later in pairwise(asked_s)) >= 0.0049


def test_many_lanes_that_wake_up_cost_at_most_fifty_calls_a_second() -> None:
    world = EngineWorld(capacity=100_000)
    worker = world.worker()
    world.run(within_s=1.0)
    for i in range(300):
        world.add_task(f"t{i}", 1)
        world.run(within_s=0.01)
    assert len(worker.leases.requests) <= 3.5 * 50 + 15
    world.run_out(*(f"t{i}" for i in range(300)))


# ------------------------------------------------------------------ for how much
def go_on(world: EngineWorld, answers: int, seconds: float) -> None:
    """Let the one worker work, its channel give this number of answers, and time pass."""
    world.workers[0].work()
    world.workers[0].courier.answer(answers)
    world.fold_all()
    world.clock.advance(seconds)


def test_without_a_cap_no_more_is_asked_for_than_can_be_sent_soon(world: EngineWorld) -> None:
    world.add_task("t", 30_000)
    worker = world.worker(in_flight_batches=1)
    worker.courier.paused.add("null")
    for _ in range(200):
        go_on(world, 1, 0.05)
    assert max(map(wanted, worker.leases.requests)) <= 1_100
    sent = worker.engine.stats.tiers[Tier.HIGH].sent
    assert worker.engine.stats.given_back < sent / 10
    assert sent > 9_000, "50 targets each 50 ms"


def test_a_slow_channel_is_soon_asked_little_for(world: EngineWorld) -> None:
    world.add_task("t", 30_000)
    worker = world.worker(in_flight_batches=1, quantum_targets=1)
    worker.courier.paused.add("null")

    def within(seconds: int) -> tuple[int, int]:
        given_back, sent = worker.engine.stats.given_back, worker.engine.stats.tiers[Tier.HIGH].sent
        for _ in range(seconds * 20):
            go_on(world, 1, 0.05)
        return worker.engine.stats.given_back - given_back, worker.engine.stats.tiers[Tier.HIGH].sent - sent

    within(20)
    given_back, sent = within(40)
    assert sent > 600, "it never waits for a grant"
    assert given_back < 2 * sent


def test_every_lane_with_demand_is_announced() -> None:
    world = EngineWorld(capacity=100)
    for i in range(20):
        world.add_task(f"t{i}", 500)
    worker = world.worker()
    world.run(within_s=3.0)
    assert len(worker.leases.requests) > 10
    assert all(len(request.lanes) == 20 for request in worker.leases.requests[5:])
    assert all(ask.demand > 0 for request in worker.leases.requests for ask in request.lanes)


def test_lanes_share_by_weight_when_the_worker_is_the_limit(world: EngineWorld) -> None:
    for tier in Tier:
        world.add_task(f"{tier}1", 12_000, tier=tier)
        world.add_task(f"{tier}2", 12_000, tier=tier, weight=3_000)
    worker = world.worker(in_flight_batches=4)
    worker.courier.paused.add("null")
    while len(world.provider_calls) < 13_000:
        go_on(world, 2, 0.005)
    tasks = [envelope.task for envelope in world.provider_calls[2_000:12_000]]
    for tier, share in ((Tier.HIGH, 0.6), (Tier.MEDIUM, 0.3), (Tier.LOW, 0.1)):
        one, two = tasks.count(f"{tier}1"), tasks.count(f"{tier}2")
        assert abs((one + two) / len(tasks) - share) <= 0.01
        assert abs(two / (one + two) - 0.75) <= 0.06


def test_lanes_share_by_weight_when_receiving_sets_the_pace(world: EngineWorld) -> None:
    for tier in Tier:
        world.add_task(f"{tier}1", 12_000, tier=tier)
        world.add_task(f"{tier}2", 3_000, tier=tier, chunk=4)
    world.worker()
    world.run(lambda: len(world.provider_calls) >= 12_000, within_s=10.0)
    targets = [call.task[:-1] for call in world.provider_calls for _ in call.targets][3_000:13_000]
    for tier, share in ((Tier.HIGH, 0.6), (Tier.MEDIUM, 0.3), (Tier.LOW, 0.1)):
        assert abs(targets.count(tier) / len(targets) - share) <= 0.02


def test_a_capped_task_does_not_make_the_worker_ask_all_the_time(world: EngineWorld) -> None:
    world.add_task("capped", 5_000)
    world.change("capped", "cap", "100")
    worker = world.worker()
    world.run(within_s=2.0)
    before, sent = len(worker.leases.requests), worker.engine.stats.tiers[Tier.HIGH].sent
    world.run(within_s=10.0)
    assert len(worker.leases.requests) - before <= 105
    assert 950 <= worker.engine.stats.tiers[Tier.HIGH].sent - sent <= 1_050


def test_outcomes_are_counted_by_tier_and_channel(world: EngineWorld) -> None:
    world.add_task("t", 7, tier=Tier.MEDIUM, channel="log")
    worker = world.worker()
    world.run_out("t")
    assert dict(worker.engine.stats.outcomes) == {(Tier.MEDIUM, "log", int(Outcome.SENT)): 7}
    stats = worker.engine.stats.tier_stats()["medium"]
    assert (stats.granted, stats.sent, stats.envelopes, sum(stats.wait_counts)) == (7, 7, 7, 7)
