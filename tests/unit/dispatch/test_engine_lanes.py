"""The lanes a worker holds: bounded buffers, lanes that do not get in each other's way, coming and going."""

from collections import Counter
from unittest.mock import Mock

import pytest
from msgspec import structs

from dispatcher.engine.events import LaneReady, LanesChanged
from dispatcher.engine.sending import MAX_IDLE_FLOWS
from dispatcher.model.tier import TIERS, Tier
from dispatcher.ports import Delivery
from tests.contract.registry_records import sealed
from tests.records import lane_info
from tests.unit.engine_world import EngineWorld
from tests.unit.reachable import texts_in


# ------------------------------------------------------------------ bounds
def test_what_a_worker_holds_is_bounded_in_targets(world: EngineWorld) -> None:
    lanes = [world.add_task(f"t{i}", 10_000, chunk=50) for i in range(4)]
    world.outcomes.receipts.fail = 1_000_000
    worker = world.worker(budget_targets=5_000, lane_roomy_targets=500)
    most = 0
    for _ in range(40):
        world.run(within_s=0.05)
        most = max(most, sum(world.broker.held(worker.lanes, lane) for lane in lanes) * 50)
    assert 5_000 <= most <= 5_000 + 4 * 100
    world.outcomes.receipts.fail = 0
    world.run_out(*(f"t{i}" for i in range(4)))
    assert max(world.calls.values()) == 1


def test_a_slow_lane_holds_few_and_a_fast_one_many(world: EngineWorld) -> None:
    slow = world.add_task("slow", 10_000)
    fast = world.add_task("fast", 20_000)
    world.change("slow", "cap", "100")
    world.change("fast", "cap", "5000")
    worker = world.worker(lane_roomy_targets=100)
    world.run(within_s=2.0)
    for _ in range(10):
        world.run(within_s=0.1)
        assert 50 <= world.broker.held(worker.lanes, slow) <= 200
        assert 1_000 <= world.broker.held(worker.lanes, fast) <= 6_000


def test_a_lane_is_filled_up_while_the_ledger_takes_its_time_even_if_the_lane_yields_little_at_once() -> None:
    world = EngineWorld()
    lane = world.add_task("t", 1_200, publish=False)
    worker = world.worker(lane_roomy_targets=1_000)
    worker.leases.fail = 1_000_000
    for first in range(0, 1_200, 30):
        world.publish("t", lane, 30, first=first)
        world.run(within_s=0.01)
    assert 850 <= world.broker.held(worker.lanes, lane) <= 1_000
    worker.leases.fail = 0
    world.run_out("t")
    assert len(world.provider_calls) == 1_200


def test_every_lane_gets_its_turn_when_the_budget_is_spent() -> None:
    world = EngineWorld(capacity=1_000)
    for i in range(50):
        world.add_task(f"big{i}", 400, chunk=200)
    world.worker(budget_targets=2_000, lane_roomy_targets=100)
    world.run(lambda: world.finished(*(f"big{i}" for i in range(50))), within_s=30)


@pytest.mark.parametrize(("chunk", "most"), [(500, 50_000), (20, 20_000), (1, 1_000)])
def test_a_turn_brings_some_of_every_tier_by_weight_and_no_more_than_is_soon_decoded(chunk: int, most: int) -> None:
    """So that an answer of the ledger is soon read, and no tier runs out of credit meanwhile."""
    world = EngineWorld()
    tiers = {world.add_task(str(tier), 1_000 * chunk, chunk=chunk, tier=tier): tier for tier in TIERS}
    worker = world.worker(budget_targets=1_000_000, lane_roomy_targets=100_000)
    brought: Counter[Tier] = Counter()
    drain = worker.lanes.drain

    def counted(lane: str, max_targets: int) -> tuple[list[Delivery], bool]:
        deliveries, empty = drain(lane, max_targets)
        brought[tiers[lane]] += sum(len(delivery.envelope.targets) for delivery in deliveries)
        return deliveries, empty

    worker.lanes.drain = counted  # type: ignore[method-assign]
    worker.engine.run(Mock(is_set=Mock(side_effect=[False, True])))
    assert most <= brought.total() < most + 2_000 + chunk
    assert [brought[tier] / most for tier in TIERS] == pytest.approx([0.6, 0.3, 0.1], abs=0.07)


# ------------------------------------------------------------------ lanes do not get in each other's way
def test_a_lane_that_yields_nothing_delays_nobody(world: EngineWorld) -> None:
    world.add_task("t", 1_000)
    worker = world.worker()
    dead = lane_info("persistent://fairlane/tasks-00/dead", "dead")
    drain = worker.lanes.drain
    asked = []

    def stubborn(lane: str, max_targets: int) -> tuple[list[Delivery], bool]:
        if lane == dead.name:
            asked.append(lane)
            return [], False  # says there is something, and never gives it
        return drain(lane, max_targets)

    worker.lanes.drain = stubborn  # type: ignore[method-assign]
    worker.inbox.put(LanesChanged([*world.held_lanes(), dead]))
    worker.inbox.put(LaneReady(dead.name))
    assert world.run_out("t") < 0.5
    assert 0 < len(asked) < 150


@pytest.mark.parametrize("shared", [False, True])
def test_a_channel_without_room_holds_up_no_other(world: EngineWorld, *, shared: bool) -> None:
    world.add_task("slow", 500, channel="http", shared=shared)
    world.add_task("quick", 500, tier=Tier.LOW, shared=shared)
    worker = world.worker(channel_batches={"http": 2})
    worker.courier.paused.add("http")
    world.run(lambda: world.finished("quick"), within_s=3.0)
    assert len(worker.courier.waiting) == 2
    worker.go_on()
    world.run_out("slow")


def test_of_envelopes_that_must_wait_a_lane_holds_a_thousand_and_others_go_on(world: EngineWorld) -> None:
    lane = world.add_task("t", 5_000, publish=False, seal=False)
    world.publish("t", lane, 5_000, writer="stage-1")
    world.add_task("other", 500)
    worker = world.worker()
    world.run(lambda: world.finished("other"), within_s=5.0)
    world.run(within_s=10.0)
    assert 1_000 <= worker.engine.stats.held_envelopes <= 2_000
    assert world.broker.held(worker.lanes, lane) <= 2_000
    asked = len(worker.leases.requests)
    world.run(within_s=10.0)
    assert len(worker.leases.requests) - asked < 60
    world.write(sealed("t", 5_000, ["stage-1"]))
    world.sent_once("t", 5_000)


def test_envelopes_behind_those_that_must_wait_are_sent(world: EngineWorld) -> None:
    lane = world.add_task("t", 50, publish=False, seal=False)
    world.publish("t", lane, 300, writer="stage-1")
    world.publish("t", lane, 50)
    world.worker()
    world.run(lambda: world.counts("t") == {"sent": 50}, within_s=2.0)


# ------------------------------------------------------------------ pauses
def test_a_paused_lane_is_asked_about_seldom_and_goes_on_when_it_may(world: EngineWorld) -> None:
    world.add_task("t", 2_000)
    world.change("t", "paused", "1")
    worker = world.worker()
    world.run(within_s=20.0)
    assert world.provider_calls == []
    assert len(worker.leases.requests) <= 12, "about every two seconds"
    world.change("t", "paused", "0")
    worker.look()
    assert world.run(lambda: bool(world.provider_calls)) < 0.2
    world.run_out("t")


# ------------------------------------------------------------------ coming and going
def test_a_lane_is_let_go_of_when_what_is_under_way_is_settled(world: EngineWorld) -> None:
    lane = world.add_task("t", 500)
    worker = world.worker(in_flight_batches=1)
    worker.courier.paused.add("null")
    world.run(within_s=0.5)
    world.remove_lane(lane)
    world.run(within_s=0.5)
    assert lane in worker.lanes.attached
    worker.courier.answer()
    world.run(within_s=0.5)
    assert lane not in worker.lanes.attached
    assert worker.engine.stats.lanes == len(worker.lanes.attached)
    assert len(world.provider_calls) == 50
    assert len(world.broker.open(lane)) == 450
    assert not world.held(), "what was granted and not sent is given back"


def test_a_lane_that_comes_again_while_it_is_let_go_of_is_attached_again(world: EngineWorld) -> None:
    lane = world.add_task("t", 500)
    worker = world.worker(in_flight_batches=1)
    worker.courier.paused.add("null")
    world.run(within_s=0.5)
    info = world.lanes[lane]
    world.remove_lane(lane)
    world.run(within_s=0.5)
    world.add_lane(info)
    world.run(within_s=0.5)
    worker.go_on()
    world.sent_once("t", 500)


def test_a_task_that_changes_its_tier_is_served_by_the_new_one() -> None:
    world = EngineWorld(capacity=1_000)
    lane = world.add_task("mover", 20_000, tier=Tier.LOW)
    world.add_task("high", 20_000, tier=Tier.HIGH)
    worker = world.worker()
    world.run(within_s=3.0)
    world.change("mover", "tier", "high")
    world.lanes[lane] = structs.replace(world.lanes[lane], tier="high")
    worker.look()
    world.run(within_s=2.0)
    seen = len(world.provider_calls)
    world.run(within_s=5.0)
    tasks = [envelope.task for envelope in world.provider_calls[seen:]]
    assert abs(tasks.count("mover") / len(tasks) - 0.5) < 0.03


def test_a_lane_that_was_given_up_for_missing_is_attached_again(world: EngineWorld) -> None:
    world.add_task("t", 10)
    worker = world.worker()
    attach = worker.lanes.attach
    worker.lanes.attach = lambda lane, prefetch_targets: None  # type: ignore[method-assign]
    world.run(within_s=1.0)
    worker.lanes.attach = attach  # type: ignore[method-assign]
    world.run_out("t")


def test_a_lane_that_holds_little_or_much_after_all_has_its_prefetch_changed(world: EngineWorld) -> None:
    lane = world.add_task("t", 10)
    worker = world.worker()
    held = lane_info(lane, "t")
    asked = []
    for nearly_empty in (False, True, False):
        worker.inbox.put(LanesChanged([structs.replace(held, nearly_empty=nearly_empty)]))
        world.run(within_s=0.05)
        asked.append(worker.lanes.prefetch_targets)
    assert asked[0] == asked[2] > 0 == asked[1]


def test_channels_that_have_passed_leave_nothing_behind(world: EngineWorld) -> None:
    """A shared lane brings what apps name as a channel, and each name costs a little of every pick and every look."""
    worker = world.worker()
    names = [f"t{number}" for number in range(300)]
    for name in names:
        world.add_task(name, 3, chunk=1, tier=Tier.LOW, shared=True, channel=f"channel-{name}")
    world.run_out(*names)
    world.run(within_s=1.0)
    kept = {text for text in texts_in(worker.engine, but=worker.engine.stats) if text.startswith("channel-")}
    assert len(kept) <= MAX_IDLE_FLOWS
