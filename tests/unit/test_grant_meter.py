"""What was granted last, and under which caps, as the grace reads it."""

import pytest

from dispatcher.grant_meter import SPAN_S, WINDOW_S, GrantMeter, UnderCaps, rate_under
from dispatcher.lease import GivenBack
from tests.unit.engine_world import World

OVER_S = SPAN_S + WINDOW_S


@pytest.mark.parametrize(
    ("granted", "cap", "targets"),
    [
        ({1_000: 4_250}, 1_000, 4_250),
        ({12_000: 12_000}, 1_000, 1_000),
        ({500: 2_000}, 1_000, 2_000),
        ({12_000: 12_000, 1_000: 1_000}, 1_000, 2_000),
        ({0: 50_000, 1_000: 1_000}, 1_000, 1_000),
        ({0: 50_000}, 0, 50_000),
        ({1_000: -10}, 1_000, 0),
        ({}, 1_000, 0),
        ({1_000: 10_000}, 1_000, 1_000 * OVER_S),
    ],
)
def test_what_was_granted_under_another_cap_counts_for_its_part(granted: UnderCaps, cap: int, targets: float) -> None:
    assert rate_under(granted, cap) == pytest.approx(targets / OVER_S)


def test_tasks_of_long_ago_are_forgotten_with_their_caps() -> None:
    world = World(capacity=1_000_000)
    worker = world.worker(grace_s=30.0)
    meter: GrantMeter = worker.engine._grace.meter
    for number in range(1_100):
        world.add_task(f"t{number}", 10, chunk=10)
    world.run(within_s=3.0)
    assert len(meter._caps) > 1_100
    world.run(within_s=20.0)
    world.add_task("late", 10, chunk=10)
    world.run(within_s=3.0)
    assert set(meter.under_caps(world.clock.monotonic_s())) == {
        "total",
        "channel/null",
        "app/app",
        "app_channel/app/null",
        "task/late",
    }
    assert len(meter._caps) < 10


def test_what_is_given_back_of_a_task_that_is_forgotten_by_then_counts_for_nothing() -> None:
    world = World(capacity=1_000_000)
    meter: GrantMeter = world.worker(grace_s=30.0).engine._grace.meter
    for number in range(1_100):
        world.add_task(f"t{number}", 10, chunk=10)
    world.run(within_s=3.0)
    later_s = world.clock.monotonic_s() + 20.0
    meter.given_back([GivenBack("w.1", "lane", "t7", "main", 0, 0, 1, 10)], later_s)
    assert not meter.under_caps(later_s)
