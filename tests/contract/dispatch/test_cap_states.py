"""`fairlane channel show` says how much of a cap may be used now, why not all of it, and until when."""

from collections.abc import Callable

import pytest

from dispatcher.model.pools import CapPhase, CapState
from dispatcher.wire.lease import Status
from quotas.ledger import read_cap_states
from tests.contract.ledger_worlds import LawWorld, ask_own

CAP = 1_200
OWN, GROUP = "app_channel/shop/null", "quota/project"
FOR_MS = 20_000


@pytest.fixture
def state(world: LawWorld) -> Callable[[str], CapState]:
    world.add("shop")
    world.set_global("cap:app_channel:shop/null", str(CAP))
    return lambda pool: read_cap_states(world.view, [pool], world.place.lua)[pool]


def left_ms(world: LawWorld, found: CapState) -> int:
    return found.until_ms - world.clock.wall_ms()


def test_a_cap_that_is_used_as_it_is_set_is_full(state: Callable[[str], CapState]) -> None:
    assert state(OWN) == CapState(phase=CapPhase.FULL, part=1.0)


def test_a_cap_is_halved_until_its_end_then_grows_and_then_is_full(
    world: LawWorld, state: Callable[[str], CapState]
) -> None:
    assert world.ledger.slow_flow("null", "shop", FOR_MS)
    found = state(OWN)
    assert (found.phase, found.part, left_ms(world, found)) == (CapPhase.HALVED, 0.5, FOR_MS)
    world.advance(FOR_MS + 10_000)
    found = state(OWN)
    assert (found.phase, found.part, left_ms(world, found)) == (CapPhase.GROWING, 0.55, 90_000)
    world.advance(90_000)
    assert state(OWN).phase is CapPhase.FULL


def test_a_quota_group_rests_until_it_is_used_and_reaches_its_cap_in_a_minute(
    world: LawWorld, state: Callable[[str], CapState]
) -> None:
    world.set_global("quota:null:shop", "project")
    world.set_global("cap:quota:project", str(CAP))
    assert state(GROUP).phase is CapPhase.RESTING
    for seconds in range(61):
        asked = ask_own("shop", 1_000 * seconds, 100)
        assert world.statuses(seconds + 1, asked)[0][0] in (Status.GRANTED, Status.NO_CREDIT)
        found = state(GROUP)
        if seconds < 60:
            assert (found.phase, left_ms(world, found)) == (CapPhase.RAMP, 60_000 - 1_000 * seconds)
            assert found.part == pytest.approx(max(seconds, 1) / 60, abs=0.001)
        world.advance(1_000)
    assert state(GROUP).phase is CapPhase.FULL
    world.advance(60_001)
    assert state(GROUP).phase is CapPhase.RESTING


def test_to_look_changes_nothing(world: LawWorld, state: Callable[[str], CapState]) -> None:
    """A group that rests goes on resting, and its ramp begins when it is used."""
    world.set_global("quota:null:shop", "project")
    world.set_global("cap:quota:project", str(CAP))
    for _ in range(3):
        state(GROUP)
        world.advance(30_000)
    assert state(GROUP).phase is CapPhase.RESTING
    assert read_cap_states(world.view, []) == {}
