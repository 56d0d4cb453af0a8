"""Work that one outcome topic or one task keeps unfinished is bounded and leaves room for all others."""

from typing import Any

import pytest

from dispatcher.model.tier import Tier
from dispatcher.ports import Done
from dispatcher.wire.outcome import OutcomeRecord
from dispatcher.wire.topics import Topics
from tests.unit.engine_world import EngineWorld, busy_at_first
from tests.unit.memory_courier import Script, all_sent

PARTITIONS = 4
TOPICS = Topics(outcome_partitions=PARTITIONS)
BUDGET = 20_000
HELD = 10_000
SETTINGS: dict[str, Any] = {
    "budget_targets": BUDGET,
    "lane_ceiling_targets": BUDGET // 2,
    "unsettled_targets": BUDGET * 3 // 4,
    "held_targets": BUDGET // 4,
}


def task_of(partition: int, prefix: str = "t") -> str:
    """The name of a task with this outcome topic."""
    return next(name for number in range(1_000) if TOPICS.partition_of(name := f"{prefix}{number}") == partition)


def new_world(script: Script = all_sent, capacity: int = 5_000) -> EngineWorld:
    return EngineWorld(script, topics=TOPICS, capacity=capacity)


def finish_beside(world: EngineWorld, stuck: list[str], others: list[str], within_s: float) -> None:
    """See the others finished while the topic of the stuck ones is away, and these once it is back."""
    [worker] = world.workers
    stats, held = worker.engine.stats, []

    def done() -> bool:
        held.append(stats.buffered_targets + stats.in_flight_targets + stats.unsettled_targets)
        return world.finished(*others)

    world.run(done, within_s=within_s)
    assert not any(world.finished(task) for task in stuck)
    assert max(held) <= BUDGET + 1_000
    world.outcomes.away.clear()
    world.run_out(*stuck)
    assert set(world.calls.values()) == {1}
    assert stats.unsettled_targets == stats.held_envelopes == 0


def test_an_outcome_topic_that_is_away_stops_no_task_of_the_others() -> None:
    world = new_world()
    world.outcomes.away.add(0)
    world.worker(**SETTINGS)
    stuck = [task_of(0, prefix) for prefix in "abc"]
    for task in stuck:
        world.add_task(task, 2 * BUDGET, chunk=10)
    world.run(within_s=20.0)
    others = [task_of(partition) for partition in range(1, PARTITIONS)]
    for task in others:
        world.add_task(task, 10_000, chunk=10)
    finish_beside(world, stuck, others, within_s=40.0)


def test_an_outcome_topic_that_is_away_stops_no_other_task_of_a_lane_that_they_share() -> None:
    world = new_world()
    world.outcomes.away.add(0)
    world.worker(**SETTINGS)
    stuck, other = task_of(0), task_of(1)
    world.add_task(stuck, 2 * BUDGET, chunk=10, tier=Tier.LOW, shared=True)
    world.add_task(other, 2_000, chunk=10, tier=Tier.LOW, shared=True)
    finish_beside(world, [stuck], [other], within_s=60.0)


def test_held_envelopes_of_one_task_hold_up_no_other_task_of_a_retry_lane() -> None:
    """Another worker claims them, and will not say for long what became of them."""
    world = new_world(busy_at_first, capacity=20_000)
    first = world.worker("first")
    world.beating = True
    world.add_task("held", HELD)
    free = world.add_task("free", 500, publish=False)
    world.run(lambda: first.engine.stats.retried == HELD)
    first.outcomes.cut = True
    world.run(lambda: len(world.provider_calls) == 2 * HELD)
    lane = next(name for name in world.broker.lanes() if "retry-high" in name and world.broker.open(name))
    waiting = len(world.broker.open(lane))
    assert waiting > HELD / 2
    first.cut_off()
    second = world.worker("second", **SETTINGS)
    world.publish("free", free, 500)
    world.run(lambda: world.finished("free"))
    assert len(world.broker.open(lane)) == waiting
    assert second.engine.stats.held_envelopes <= 1_000
    first.reconnect()
    world.run_out("held")
    assert set(world.calls.values()) == {1}


def test_a_lane_that_is_let_go_of_gives_back_its_part_of_the_bound() -> None:
    world = new_world()
    lane = world.topics.retry_lane(Tier.HIGH, 1)
    worker = world.worker(**SETTINGS)
    world.add_task("t", 5_000, publish=False, seal=False)
    world.publish("t", lane, 3_000, writer="stage-1")
    world.run(within_s=5.0)
    assert worker.engine.stats.held_envelopes
    info = world.lanes[lane]
    world.remove_lane(lane)
    world.run(within_s=1.0)
    assert worker.engine.stats.held_envelopes == 0
    world.add_lane(info)
    world.run(within_s=5.0)
    assert 0 < worker.engine.stats.held_envelopes <= 1_000


def test_a_task_at_its_bound_goes_on_at_once_when_its_outcomes_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited a quarter of a second each time, so that large envelopes went at half the speed."""
    world = new_world(capacity=0)
    worker = world.worker(**SETTINGS)
    receipts: list[Done] = []
    store = world.outcomes.publish

    def publish(task: str, record: OutcomeRecord, done: Done) -> None:
        store(task, record, lambda _error: receipts.append(done))

    monkeypatch.setattr(worker.outcomes, "publish", publish)
    task = task_of(0)
    world.add_task(task, 5 * BUDGET, chunk=500)

    def stalled() -> bool:
        """Nothing more is sent without the receipts."""
        sent.append(len(world.provider_calls))
        return world.finished(task) or sent[-1] == sent[-3]

    while not world.finished(task):
        sent = [-1, -1]
        world.run(stalled)
        while receipts:
            receipts.pop()(None)
    assert max(world.calls.values()) == 1
    assert world.clock.monotonic_s() < 1.0, "virtual time"
