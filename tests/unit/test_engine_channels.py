"""Engines that lack a channel: they attempt nothing on it, and what has ended leaves the lane all the same."""

from typing import Any

from tests.unit.engine_world import World


def lacking(world: World) -> Any:
    """A worker that has the channel `null` only."""
    return world.worker(channels=frozenset({"null"}))


def test_envelopes_of_a_lacking_channel_are_given_back_without_attempt_claim_or_credit() -> None:
    world = World(capacity=1_000)
    lane = world.add_task("mail", 50, channel="mail", shared=True, max_attempts=1)
    world.add_task("null", 50, shared=True)
    worker = lacking(world)
    world.run(lambda: world.finished("null"))
    world.run(within_s=1.0)
    assert {envelope.channel for envelope in world.provider_calls} == {"null"}
    assert world.view.tasks["mail"].touched_of("0") == set()
    assert sum(tier.granted for tier in worker.engine.stats.tiers.values()) == 50
    assert worker.engine.stats.buffered_targets == 0
    world.worker(channels=frozenset({"mail"}))
    world.workers.reverse()  # the other one's turn
    assert world.broker.return_refused(lane) == 50
    world.run(lambda: world.finished("mail"))
    assert max(world.calls().values()) == 1


def test_a_cancelled_task_of_a_lacking_channel_leaves_the_shared_lane() -> None:
    world = World()
    lane = world.add_task("mail", 20, channel="mail", shared=True)
    lacking(world)
    world.run(within_s=1.0)
    world.change("mail", "cancelled", "1")
    assert world.broker.return_refused(lane) == 20
    world.run(lambda: world.finished("mail") and not world.broker.open(lane))
    assert world.provider_calls == []


def test_two_workers_with_different_channels_empty_a_lane_of_both() -> None:
    """An entry of the broker that holds envelopes of both is acknowledged only by a worker that is done with all."""
    world = World()
    lane = world.add_task("mail", 20, channel="mail", shared=True)
    world.add_task("null", 20, shared=True)
    lacking(world)
    world.worker(channels=frozenset({"mail"}))
    for _ in range(4):
        world.run(within_s=0.5)
        world.workers.reverse()  # the other one's turn
        world.broker.return_refused(lane)
    assert world.finished("mail", "null")
    assert world.broker.open(lane) == []
    world.broker.forget_acks(lane)
    world.run(within_s=2.0)
    assert world.broker.open(lane) == [], "each drops what the other has sent"
