"""A provider that asks a flow to slow down halves its cap for the fleet, once; then it grows back."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.ledger_crowd import Backlog
from tests.contract.ledger_worlds import LawWorld, Worlds, ask_own

CAP = 1_000
FOR_MS = 20_000


@pytest.fixture
def capped(world: LawWorld) -> LawWorld:
    world.add("shop")
    world.add("bank", app="bank")
    world.set_global("cap:app_channel:shop/null", str(CAP))
    world.set_global("cap:app_channel:bank/null", str(CAP))
    return world


class Rate:
    """Draws all it can get, ten times a second."""

    def __init__(self, world: LawWorld, task: str = "shop") -> None:
        self.world = world
        self.task = task
        self.number = 0

    def of(self, ms: int) -> float:
        """Return the targets/s granted in this time."""
        granted = 0
        for _ in range(ms // 100):
            self.world.advance(100)
            self.number += 1
            granted += self.world.granted(self.number, ask_own(self.task, 10_000 * self.number, 9_000))
        return granted * 1_000 / ms


def slow(world: LawWorld, channel: str = "null", for_ms: int = FOR_MS) -> bool:
    return world.ledger.slow_flow(channel, "shop", for_ms)


def test_its_rate_is_halved_for_the_time_and_grows_by_a_twentieth_each_ten_seconds(capped: LawWorld) -> None:
    rate = Rate(capped)
    rate.of(1_000)
    assert slow(capped)
    assert rate.of(FOR_MS - 100) == pytest.approx(CAP / 2, rel=0.02)
    rate.of(200)
    assert rate.of(9_000) == pytest.approx(CAP / 2, rel=0.02)
    rate.of(1_000)
    assert rate.of(9_000) == pytest.approx(CAP * 0.55, rel=0.02)
    rate.of(90_000)
    assert rate.of(9_000) == pytest.approx(CAP, rel=0.02)


def test_many_workers_that_report_it_halve_it_once(capped: LawWorld) -> None:
    rate = Rate(capped)
    rate.of(1_000)
    assert all(slow(capped) for _ in range(10))
    assert rate.of(5_000) == pytest.approx(CAP / 2, rel=0.02)


def test_a_provider_that_asks_again_after_the_time_halves_what_is_left(capped: LawWorld) -> None:
    rate = Rate(capped)
    rate.of(1_000)
    assert slow(capped)
    capped.advance(FOR_MS)
    assert slow(capped)
    rate.of(500)
    assert rate.of(5_000) == pytest.approx(CAP / 4, rel=0.02)


def test_it_lasts_also_if_the_flow_rests_meanwhile(capped: LawWorld) -> None:
    rate = Rate(capped)
    rate.of(1_000)
    assert slow(capped, for_ms=3_600_000)
    rate.of(1_000)
    capped.advance(1_800_000)
    rate.of(500)
    assert rate.of(5_000) == pytest.approx(CAP / 2, rel=0.02)


def test_other_apps_and_channels_keep_their_rate(capped: LawWorld) -> None:
    other = Rate(capped, "bank")
    other.of(1_000)
    assert slow(capped)
    assert other.of(5_000) == pytest.approx(CAP, rel=0.02)


def test_a_flow_without_a_cap_of_its_own_cannot_be_slowed(capped: LawWorld) -> None:
    capped.set_global("cap:channel:sms", "10")
    capped.set_global("cap:app:shop", "10")
    assert not slow(capped, "sms")


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(slowed_at=st.lists(st.integers(0, 5_000), max_size=4), envelope=st.sampled_from([1, 40]))
def test_slowing_never_grants_more_than_the_cap(worlds: Worlds, slowed_at: list[int], envelope: int) -> None:
    world = worlds()
    world.add("shop")
    world.set_global("cap:app_channel:shop/null", str(CAP))
    crowd = Backlog(world, held={"a": ["shop"], "b": ["shop"]}, period_ms={"a": 100, "b": 40}, size=envelope)
    for at_ms in sorted(slowed_at):
        crowd.run_until(at_ms + 1)
        assert slow(world, for_ms=500)
    crowd.run_until(7_000)
    for window_ms in (100, 1_000, 5_000):
        assert crowd.most_in(window_ms) <= CAP * (window_ms / 1_000 + 0.25) + envelope
