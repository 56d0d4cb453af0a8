"""Envelopes that pass decoding and are nonsense otherwise: the engine goes on, and other tasks are sent once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.model.tier import Tier
from dispatcher.wire.envelope import ROUNDS_FORMAT, decode_envelope
from dispatcher.wire.groups import TargetGroup, pack_positions
from dispatcher.wire.topics import RETRY_STEPS_S
from tests.near_envelopes import readable, wire
from tests.unit.engine_world import EngineWorld, busy_at_first

TARGETS = 12


@settings(deadline=None)
@given(
    st.lists(readable("bad", "nobody-knows", "shared-bad"), min_size=1, max_size=6),
    st.lists(st.sampled_from(["own", "shared", "retry"]), min_size=6, max_size=6),
)
def test_any_envelopes_in_any_lane_change_nothing_for_other_tasks(bodies: list[bytes], places: list[str]) -> None:
    world = EngineWorld()
    worker = world.worker()
    lanes = {
        "own": world.add_task("bad", 4),
        "shared": world.topics.shared_lane(0),
        "retry": world.topics.retry_lanes()[0].topic,
    }
    world.add_task("shared-bad", 2, shared=True)
    for body, place in zip(bodies, places, strict=False):
        world.broker.publish(lanes[place], [decode_envelope(body)])
    world.add_task("good", TARGETS, chunk=3)
    world.add_task("good-low", TARGETS, shared=True)
    world.run(lambda: world.finished("good", "good-low"))
    world.run(within_s=3.0)
    assert world.counts("good") == world.counts("good-low") == {"sent": TARGETS}
    calls = {target: count for target, count in world.calls.items() if str(target).startswith("good")}
    assert set(calls.values()) <= {1}
    assert worker.alive


def test_one_that_is_due_in_a_thousand_years_holds_up_none_behind_it(world: EngineWorld) -> None:
    world.worker()
    world.add_task("good", TARGETS, shared=True, publish=False)
    lane = world.topics.shared_lane(0)
    far = decode_envelope(wire(task="nobody-knows", not_before_ms=253_402_300_799_999))
    world.broker.publish(lane, [far])
    world.publish("good", lane, TARGETS)
    world.run(lambda: world.finished("good"))
    assert {letter.task for letter in world.dead_letters.letters} == {"nobody-knows"}


def test_retries_do_not_wait_behind_those_from_before_the_clock_was_set_back() -> None:
    """These are due half an hour later than they were to be."""
    world = EngineWorld(busy_at_first)
    world.worker()
    world.add_task("before", 1, publish=False)
    due_ms = world.clock.wall_ms() + 1_800_000
    group = TargetGroup(positions=pack_positions([0], 1), tries=1, due_ms=due_ms, first_ms=0)
    lane = world.topics.retry_lanes()[0].topic
    retry = wire(
        format=ROUNDS_FORMAT,
        task="before",
        sequence=0,
        app="app",
        channel="null",
        published_ms=world.clock.wall_ms(),
        not_before_ms=due_ms,
        size=1,
        targets=["before:0"],
        positions=None,
        variables=None,
        groups=[group],
    )
    world.broker.publish(lane, [decode_envelope(retry)])
    world.add_task("after", 1)
    world.run(lambda: world.calls["after:0", 1] == 1, within_s=5.0)
    assert world.calls["after:0", 1] == 1
    longest = world.topics.retry_lane(Tier.HIGH, RETRY_STEPS_S[-1])
    assert len(world.broker.open(longest)) == 1, "it waits there"
