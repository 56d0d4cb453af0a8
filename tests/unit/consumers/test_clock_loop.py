"""Timeouts of calls pass while the machine sleeps."""

import threading
import time

from consumers.delivery.courier import ClockLoop
from dispatcher.clock import VirtualClock
from dispatcher.wire.outcome import UNKNOWN
from tests.unit.consumers.envelopes import batch, envelope
from tests.unit.consumers.fakes import eventually
from tests.unit.consumers.office import TIMEOUT_S, Channel, office, reasons


class _RunningClock(VirtualClock):
    """Goes on by itself; `advance` is a sleep of the machine."""

    def monotonic_s(self) -> float:
        return super().monotonic_s() + time.monotonic()


def test_a_call_times_out_by_the_time_that_passed_while_the_machine_slept() -> None:
    clock, channel = _RunningClock(), Channel(timeout_s=3_600.0, shut=True)
    with office(channel, ClockLoop, clock) as at:
        at.send(batch([envelope(0)], use_by_s=clock.monotonic_s() + 60))
        eventually(lambda: bool(channel.running))
        timed = threading.Event()
        at.loop.call_soon_threadsafe(timed.set)  # its turn comes after that of the call's timer
        assert timed.wait(TIMEOUT_S)
        clock.advance(3_601.0)
        assert reasons(at.reported()[1]) == {(UNKNOWN, "no answer within 3600 s")}
