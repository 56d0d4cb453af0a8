"""A trial send: only the first targets are sent before the go, whichever workers die, and all others after it."""

from itertools import pairwise

import pytest

from tests.unit.consumers.envelopes import envelope
from tests.unit.engine_world import MESSAGE, EngineWorld, busy_at_first

CHUNK, FIRST, TARGETS = 10, 25, 200


def submitted(world: EngineWorld) -> None:
    """As a submission with first=25 leaves it. Here workers hold the task's own lane, too."""
    lane = world.add_task("t", TARGETS, chunk=CHUNK, first=FIRST, publish=False)
    names = [f"t:{number}" for number in range(TARGETS)]
    cuts = [0, 10, 20, 25, *range(35, TARGETS, CHUNK), TARGETS]
    parts = [names[begin:end] for begin, end in pairwise(cuts)]
    made = [envelope(number, part, message=MESSAGE, task="t", app="app") for number, part in enumerate(parts)]
    world.broker.publish(next(one.topic for one in world.topics.retry_lanes()), made[:3])
    world.broker.publish(lane, made[3:])


def sent(world: EngineWorld) -> set[str]:
    return {target for one in world.provider_calls for target in one.targets}


EARLY = {f"t:{number}" for number in range(FIRST)}


def test_the_rest_is_sent_after_the_go_and_nothing_twice() -> None:
    world = EngineWorld()
    submitted(world)
    for _ in range(2):
        world.worker()
    world.run(within_s=30)
    assert sent(world) == EARLY
    assert world.counts("t") == {"sent": FIRST}
    world.change("t", "paused", "0")
    world.sent_once("t", TARGETS)


@pytest.mark.parametrize("dies_at", range(1, 13))
def test_no_other_target_is_sent_before_the_go_if_a_worker_dies(dies_at: int) -> None:
    world = EngineWorld(busy_at_first)
    submitted(world)
    first = world.worker()
    first.wire.dies_at = dies_at
    world.worker()
    world.run(within_s=60)
    assert sent(world) == EARLY
    assert world.counts("t") == {"sent": FIRST}
    world.change("t", "paused", "0")
    world.run_out("t")
    assert world.counts("t") == {"sent": TARGETS}
