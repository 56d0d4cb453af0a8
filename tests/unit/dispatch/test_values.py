"""How values are written: numbers, limits, durations and moments have one form each."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.values import duration, limit, moment, number, percent, text_of

NOW = datetime(2026, 11, 23, 22, 0, tzinfo=UTC)


def ms(at: datetime) -> float:
    return at.timestamp() * 1000


@pytest.mark.parametrize("unset", [None, "", {}, [], ()])
def test_what_is_not_set_has_one_sign(unset: Any) -> None:
    assert text_of(unset) == limit(0) == limit(None) == percent(None) == duration(None) == moment(0, NOW) == "-"


def test_large_numbers_have_separators() -> None:
    assert [number(one) for one in (0, 0.5, 12, 999.4, 1_000, 5_000_000, 1234.5)] == [
        *("0", "0.5", "12", "999.4", "1,000", "5,000,000", "1,234")
    ]


def test_a_moment_of_today_is_a_time_and_another_day_has_its_date() -> None:
    assert moment(ms(NOW - timedelta(hours=2, seconds=5)), NOW) == "19:59:55"
    assert moment(ms(NOW - timedelta(days=1)), NOW) == "2026-11-22 22:00:00"


def test_a_moment_is_in_the_zone_of_now() -> None:
    here = NOW.astimezone(timezone(timedelta(hours=3)))
    assert moment(ms(NOW - timedelta(hours=3)), here) == "2026-11-23 22:00:00"
    assert moment(ms(NOW), here) == "01:00:00"


def test_a_moment_beyond_all_calendars_is_still_shown() -> None:
    assert moment(10**18, NOW) == "1,000,000,000,000,000,000"


def test_durations_are_said_as_people_say_them() -> None:
    assert [duration(value) for value in (0, 0.0025, 4, 59.6, 75, 7_199, 7_260, 200_000)] == [
        *("0 s", "0.0025 s", "4 s", "1 m 00 s", "1 m 15 s", "2 h 00 m", "2 h 01 m", "2 d 08 h")
    ]


@given(st.floats(0, 10**9))
def test_a_duration_never_reads_as_sixty_of_a_unit(seconds: float) -> None:
    text = duration(seconds)
    assert "60 s" not in text.split("m ")[-1]
    assert "60 m" not in text
