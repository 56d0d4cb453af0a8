"""A cap as the provider sees it, with the real engine, ledger, channel and door in virtual time."""

from bisect import bisect_left
from random import Random

import pytest

from tests.unit.push_world import push_world

CAP = 1_000
BEGAN_S, MEASURED_S = 2.0, 4.0


@pytest.mark.parametrize("stalls_s", [0.0, 0.02])
def test_a_cap_is_used_and_no_second_has_more_than_a_twentieth_above_it(stalls_s: float) -> None:
    """stalls_s: now and then the machine stops for up to this long, as busy ones do."""
    chance = Random(7)
    with push_world(workers=2) as world:
        world.set_global("cap:app_channel:app/fcm", str(CAP))
        world.add_task("t", round(CAP * (BEGAN_S + MEASURED_S + 4)), chunk=100, channel="fcm")
        while world.clock.monotonic_s() < BEGAN_S + MEASURED_S:
            world.run(within_s=chance.uniform(0.05, 0.4))
            world.clock.advance(chance.uniform(0.0, stalls_s))
        arrived_s = [at_s for at_s in world.fcm.arrived_s if at_s >= BEGAN_S]
        spent_s = world.clock.monotonic_s() - BEGAN_S
    assert len(arrived_s) >= 0.98 * CAP * spent_s
    assert max(bisect_left(arrived_s, at_s + 1.0) - i for i, at_s in enumerate(arrived_s)) <= 1.05 * CAP
