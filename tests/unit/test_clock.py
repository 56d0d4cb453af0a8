"""The wall clock of a worker follows the server's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.clock import ServiceClock, VirtualClock

SERVER_MS = 1_700_000_000_000


@given(off_s=st.sampled_from([-300, -2, 0, 2, 300]), there_ms=st.integers(0, 900), back_ms=st.integers(0, 900))
def test_a_wrong_clock_is_put_right_within_the_time_of_a_call(off_s: int, there_ms: int, back_ms: int) -> None:
    own = VirtualClock(SERVER_MS + off_s * 1000)
    clock = ServiceClock(own)
    asked_s = clock.monotonic_s()
    own.advance((there_ms + back_ms) / 1000)
    clock.hear(SERVER_MS + there_ms, asked_s)
    assert clock.wall_ms() == pytest.approx(SERVER_MS + there_ms + back_ms, abs=max(there_ms, back_ms) + 1)
    own.advance(60)
    assert clock.wall_ms() == pytest.approx(SERVER_MS + there_ms + back_ms + 60_000, abs=max(there_ms, back_ms) + 1)


def test_a_clock_that_is_right_is_left_alone() -> None:
    own = VirtualClock(SERVER_MS)
    clock = ServiceClock(own)
    for there_ms, back_ms in [(1, 90), (90, 1), (400, 400)]:
        asked_s = clock.monotonic_s()
        own.advance(there_ms / 1000)
        server_ms = own.wall_ms()
        own.advance(back_ms / 1000)
        clock.hear(server_ms, asked_s)
        assert clock.wall_ms() == pytest.approx(own.wall_ms(), abs=1)


def test_a_step_of_the_machines_clock_is_not_followed() -> None:
    own = VirtualClock(SERVER_MS)
    clock = ServiceClock(own)
    own._wall_ms += 300_000  # Somebody sets it.
    own.advance(1)
    assert clock.wall_ms() == pytest.approx(SERVER_MS + 1_000, abs=1)
