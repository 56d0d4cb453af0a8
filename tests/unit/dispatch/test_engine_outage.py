"""A worker whose ledger is gone sends what it has leased, and waits. Nothing that happens meanwhile makes it guess."""

import pytest

from tests.unit.engine_world import EngineWorld

CAPACITY = 1_000
TARGETS = 20_000


def in_full_swing() -> tuple[EngineWorld, str]:
    """Two workers in the middle of a task, and its lane."""
    world = EngineWorld(capacity=CAPACITY)
    world.worker()
    world.worker()
    lane = world.add_task("t", TARGETS, chunk=10)
    world.run(within_s=5.0)
    return world, lane


def sent_within(world: EngineWorld, seconds: float) -> int:
    before = len(world.provider_calls)
    world.run(within_s=seconds)
    return len(world.provider_calls) - before


def given_back(world: EngineWorld) -> int:
    return sum(worker.engine.stats.given_back for worker in world.workers)


@pytest.mark.parametrize("outage_s", [3.0, 30.0, 300.0])
def test_without_the_ledger_only_what_was_leased_is_sent_and_later_all_of_it_once(outage_s: float) -> None:
    world, _ = in_full_swing()
    world.lose_ledger()
    world.run(within_s=2.0)  # a lease's length
    assert sent_within(world, outage_s) == 0
    world.find_ledger()
    world.sent_once("t", TARGETS)


@pytest.mark.parametrize("event", ["an unload", "forgotten acks", "a resumed submission"])
def test_what_the_broker_brings_again_while_the_ledger_is_gone_is_not_sent_again(event: str) -> None:
    """An unload sets the count of deliveries back to 0, so nothing but the ledger tells a first one from a second."""
    world, lane = in_full_swing()
    world.lose_ledger()
    world.run(within_s=3.0)
    match event:
        case "an unload":
            world.broker.take_away(lane)
        case "forgotten acks":
            world.broker.forget_acks(lane)
        case _:
            world.broker.repeat(lane)
    assert sent_within(world, 30.0) == 0
    world.find_ledger()
    world.sent_once("t", TARGETS)


@pytest.mark.parametrize("kept", [True, False])
def test_an_answer_that_comes_long_after_its_use_by_is_given_back_and_asked_for_again(kept: bool) -> None:
    """kept: whether the ledger still has the answer; after a minute it carries the call out once more."""
    world, _ = in_full_swing()
    for worker in world.workers:
        worker.leases.lose = 1_000_000  # calls are carried out, their answers lost
    world.run(within_s=100.0)
    if not kept:
        world.view.command("DEL", *(world.view.keys.call(worker.name) for worker in world.workers))
    before = given_back(world)
    for worker in world.workers:
        worker.leases.lose = 0
    world.run(lambda: given_back(world) > before, within_s=5.0)
    world.sent_once("t", TARGETS)
