"""`python -m benchmarks catch-up` without servers: what it makes of the times, and what it refuses."""

from pathlib import Path

import pytest

from benchmarks.catch_up import Backlog, Reading, bookies_of, figures
from benchmarks.tailing import Waits
from dispatcher.model.errors import FairlaneError, Refused
from fairlane.settings import Settings


def waits(*phases: tuple[float, float]) -> Waits:
    """Return the waits of 100 messages/s in phases of 10 s, each with the milliseconds of 99 % of them and the rest."""
    found = Waits(100)
    for phase, (usual_ms, slow_ms) in enumerate(phases):
        for number in range(1_000):
            found.add(10 * phase + number / 100, (slow_ms if number % 50 == 0 else usual_ms) / 1000)
    return found


def reading(phase: int) -> Reading:
    return Reading([(10 * phase, 10 * phase + 4), (10 * phase + 5, 10 * phase + 10)], mb_s=50.0, disk_mb=7.0)


def test_each_phase_is_judged_by_the_messages_published_in_it() -> None:
    found = figures(waits((2, 10), (3, 12), (4, 30), (2, 10)), [(0, 10), (30, 40)], reading(1), reading(2))
    assert found["quiet_p50_ms"] == pytest.approx(2)
    assert found["quiet_p99_ms"] == pytest.approx(10)
    assert found["cold_p99_to_quiet"] == pytest.approx(3)
    assert found["warm_p99_to_quiet"] == pytest.approx(1.2)
    assert found["cold_from_disk_mb"] == 7


def test_messages_that_did_not_come_are_no_good_sign() -> None:
    few = Waits(100)
    few.add(0.5, 0.001)
    with pytest.raises(FairlaneError, match="Only 1 of 100 messages"):
        few.between((0, 1))


def test_a_backlog_has_a_piece_for_each_lane_at_least() -> None:
    assert Backlog(1).envelopes == 400
    assert Backlog(400).envelopes * 35_000 == pytest.approx(400e6, rel=0.05)


def test_without_a_local_estate_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="local estate"):
        bookies_of(Settings(home=tmp_path))
