"""How often the ledger is asked (law 8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.engine.rhythm import Rhythm
from dispatcher.engine.settings import EngineSettings

SETTINGS = EngineSettings(worker="w")


def calls(targets_s: float, seconds: float) -> int:
    """Count the calls of a worker that always has new demand, in these seconds after the burst."""
    rhythm, now_s, made = Rhythm(SETTINGS), 0.0, 0
    while now_s < 1.0 + seconds:
        now_s = max(now_s, rhythm.due_s(now_s, at_once=True, targets_s=targets_s))
        rhythm.asked(now_s)
        made += now_s >= 1.0
    return made


@given(st.floats(min_value=0, max_value=1e7))
def test_calls_stay_within_law_8(targets_s: float) -> None:
    assert calls(targets_s, 10.0) <= max(10 * SETTINGS.calls_per_s, 0.01 * 10 * targets_s) + SETTINGS.calls_burst + 1


@pytest.mark.parametrize(("targets_s", "asked"), [(0, 50), (5_000, 50), (12_500, 125), (1_000_000, 200)])
def test_who_sends_more_may_ask_more_often(targets_s: float, asked: int) -> None:
    assert calls(targets_s, 10.0) / 10 == pytest.approx(asked, rel=0.05)


def test_without_new_demand_the_period_rules_whatever_is_sent() -> None:
    rhythm = Rhythm(SETTINGS)
    rhythm.asked(1.0)
    assert rhythm.due_s(1.0, at_once=False, targets_s=1e6) == 1.0 + SETTINGS.period_s
