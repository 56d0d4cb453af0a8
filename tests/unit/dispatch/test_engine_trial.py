"""A trial send: only the first targets are sent before the go, whichever workers die, and all others after it."""

from itertools import pairwise

import pytest

from tests.unit.dispatch.consumers.envelopes import envelope
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


@pytest.mark.parametrize("dies_at", range(13))
def test_the_first_targets_alone_are_sent_before_the_go_and_the_rest_after_it(dies_at: int) -> None:
    """dies_at: the step at which one of two workers dies; 0: none dies, and nothing is sent twice."""
    world = EngineWorld(busy_at_first)
    submitted(world)
    world.worker().wire.dies_at = dies_at
    world.worker()
    world.run(within_s=60)
    assert {target for target, _ in world.calls} == {f"t:{number}" for number in range(FIRST)}
    assert world.counts("t") == {"sent": FIRST}
    world.change("t", "paused", "0")
    world.run_out("t")
    assert world.counts("t") == {"sent": TARGETS}
    assert dies_at or set(world.calls.values()) == {1}
