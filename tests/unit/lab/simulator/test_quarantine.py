"""A quarantine by probability levels the inflow of bookies, where one of all clients at once makes it swing."""

from dataclasses import replace

import pytest

from dispatcher.model.errors import InvalidInput
from lab.simulator.estate.quarantine import QuarantineSettings, best_of, compare_ratios, play_quarantine

DAY = QuarantineSettings()


def test_the_best_ratio_at_least_halves_the_spread_of_the_inflow_and_the_overload() -> None:
    rows = compare_ratios(DAY, (0.2, 0.3, 0.5, 1.0), seeds=(1, 2))
    all_at_once = rows[-1]
    best = best_of(rows)
    assert 0 < best.ratio < 1
    assert best.std_dev <= all_at_once.std_dev / 2
    assert best.overloaded_minutes <= all_at_once.overloaded_minutes / 2


def test_without_a_quarantine_the_inflow_is_even_and_weak_bookies_stay_overloaded() -> None:
    off, best = compare_ratios(DAY, (0.0, 0.3), seeds=(1, 2))
    assert off.std_dev == pytest.approx(0, abs=1e-9)
    assert off.overloaded_minutes > 2 * best.overloaded_minutes


def test_the_same_seed_gives_the_same_day() -> None:
    hour = replace(DAY, minutes=60, ratio=0.3)
    assert play_quarantine(hour, 7) == play_quarantine(hour, 7)


@pytest.mark.parametrize(
    "wrong", [{"ratio": 1.1}, {"ratio": float("nan")}, {"bookies": 0}, {"ensemble": 0}, {"inflow": 0}]
)
def test_an_estate_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="quarantine"):
        QuarantineSettings(**wrong)  # type: ignore[arg-type]  # of any kind
