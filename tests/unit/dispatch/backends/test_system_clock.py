"""The clock that use-by times and timeouts go by."""

import time

import pytest

from backends import system_clock
from backends.system_clock import SystemClock


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_the_time_in_which_the_machine_sleeps_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", lambda clock: 7.5 if clock == time.CLOCK_BOOTTIME else 0.0)
    assert SystemClock().monotonic_s() == 7.5


def test_where_there_is_no_such_clock_the_monotonic_one_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_clock, "_BOOT_TIME", None)
    monkeypatch.setattr(time, "monotonic", lambda: 3.5)
    assert SystemClock().monotonic_s() == 3.5
