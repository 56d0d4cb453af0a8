"""Retry lanes together get a ninth of what the fresh work of their tier gets, and all of it where there is none."""

from collections import Counter

import pytest

from dispatcher.model.tier import TIERS
from tests.contract.law_service import LawService
from tests.contract.ledger_worlds import LawWorld

RATE = 2_000
STEPS_S = (1, 5, 30, 120, 600)


def service_of(world: LawWorld, *, fresh: int, retry_lanes: int, size: int = 1, weight: int = 1_000) -> LawService:
    """A service of two workers, one tier, and a capacity."""
    service = LawService(world, ask_targets=RATE)
    service.set_cap("total", RATE)
    for number in range(fresh):
        service.add(f"fresh{number}", "high", size, weight=weight)
    for step_s in STEPS_S[:retry_lanes]:
        service.retrying(f"again{step_s}", "high", size, step_s=step_s)
    for worker in ("a", "b"):
        service.join(worker, 50, [])
    hold_all(service)
    return service


def hold_all(service: LawService) -> None:
    """Let every worker hold the lanes of all tasks."""
    for tasks in service.holds.values():
        tasks[:] = service.works


def retried(granted: Counter[str]) -> float:
    """Return the part of what was granted that went to retry lanes."""
    return sum(targets for task, targets in granted.items() if task.startswith("again")) / granted.total()


@pytest.mark.parametrize("sharing", ["tasks", "apps"])
@pytest.mark.parametrize("weight", [1, 1_000, 1_000_000])
@pytest.mark.parametrize(("fresh", "retry_lanes"), [(1, 1), (1, 5), (7, 5)])
def test_retry_lanes_get_a_tenth_whatever_there_is_of_either(
    world: LawWorld, fresh: int, retry_lanes: int, weight: int, sharing: str
) -> None:
    world.set_global("sharing", sharing)
    service = service_of(world, fresh=fresh, retry_lanes=retry_lanes, weight=weight)
    service.run(5_000)
    lanes = service.sums(1_000, 5_000)
    assert retried(lanes) == pytest.approx(0.1, abs=0.01)
    assert lanes.total() >= 0.97 * 4 * RATE
    assert max(lanes[f"again{step}"] for step in STEPS_S[:retry_lanes]) <= 1.2 * 4 * RATE / 10 / retry_lanes


def test_retries_alone_have_the_whole_tier_and_give_it_up_at_once(world: LawWorld) -> None:
    service = service_of(world, fresh=0, retry_lanes=3)
    service.run(5_000)
    assert service.sums(1_000, 5_000).total() >= 0.97 * 4 * RATE
    late = service.add("late")
    hold_all(service)
    granted = service.run(1_000)[late.name]
    assert granted >= 0.9 * RATE * (1 - 0.125), "but for what was granted before its first call, and half a window"
    late.backlog = False
    service.run(3_000)
    assert service.sums(6_500, 9_000).total() >= 0.97 * 2.5 * RATE


@pytest.mark.parametrize("away_ms", [100, 2_000])
def test_retries_that_come_back_are_not_owed_and_do_not_owe(world: LawWorld, away_ms: int) -> None:
    service = service_of(world, fresh=2, retry_lanes=1, size=20)
    again = service.works["again1"]
    for _ in range(12_000 // (away_ms + 500)):
        service.run(500)
        again.backlog = False
        service.run(away_ms)
        again.backlog = True
    seconds = service.now_ms / 1_000 * 500 / (500 + away_ms)
    granted = service.sums(0, service.now_ms)["again1"]
    assert granted <= 0.13 * RATE * seconds + 20
    assert granted >= 0.07 * RATE * seconds - 20


def test_a_lead_of_retries_is_in_targets_whatever_lanes_come(world: LawWorld) -> None:
    """An envelope of retries puts them nine of its size behind fresh work. A hundred new tasks do not make it a hundred
    times as much."""
    service = service_of(world, fresh=1, retry_lanes=2, size=200)
    service.run(4_000)
    for number in range(100):
        service.add(f"more{number}", size=1)
    hold_all(service)
    service.run(1_000)
    assert retried(service.run(10_000)) == pytest.approx(0.1, abs=0.03)


def test_retries_of_one_tier_are_no_matter_of_another(world: LawWorld) -> None:
    """High has retries only, medium both, low fresh work only."""
    service = LawService(world, ask_targets=RATE)
    service.set_cap("total", RATE)
    service.retrying("again-high", "high", 1, step_s=1)
    service.retrying("again-medium", "medium", 1, step_s=5)
    for tier in TIERS[1:]:
        service.add(f"fresh-{tier}", tier)
    service.join("a", 50, service.works)
    service.run(6_000)
    granted = service.sums(1_000, 6_000)
    shares = {task: targets / granted.total() for task, targets in granted.items()}
    fair = {"again-high": 0.6, "again-medium": 0.03, "fresh-medium": 0.27, "fresh-low": 0.1}
    assert shares == pytest.approx(fair, abs=0.01)


def test_what_fresh_work_cannot_use_goes_to_retries(world: LawWorld) -> None:
    """Its task has a cap."""
    service = service_of(world, fresh=1, retry_lanes=2)
    service.set_task("fresh0", "cap", "100")
    service.run(6_000)
    granted = service.sums(1_000, 6_000, lambda dose: dose.task[:5])
    assert granted["fresh"] == pytest.approx(500, rel=0.05)
    assert granted.total() >= 0.97 * 5 * RATE


def test_sharing_by_apps_that_is_switched_on_and_off_changes_nothing_for_retries(world: LawWorld) -> None:
    service = service_of(world, fresh=3, retry_lanes=2)
    for sharing in ("apps", "tasks", "apps"):
        service.world.set_global("sharing", sharing)
        service.run(2_000)
        assert retried(service.run(3_000)) == pytest.approx(0.1, abs=0.015)
