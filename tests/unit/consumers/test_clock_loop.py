"""Timeouts of calls pass while the machine sleeps."""

import queue
import threading
import time
from collections.abc import Sequence

from consumers.delivery.clock_loop import ClockLoop
from consumers.delivery.courier import ChannelCourier
from dispatcher.clock import VirtualClock
from dispatcher.wire.outcome import RETRY, Report
from fairlane.worker.process.threads import Threads
from tests.unit.consumers.envelopes import batch, envelope
from tests.unit.consumers.office import TIMEOUT_S, Channel, reasons


class _RunningClock(VirtualClock):
    """Goes on by itself; `advance` is a sleep of the machine."""

    def monotonic_s(self) -> float:
        return super().monotonic_s() + time.monotonic()


def test_a_call_times_out_by_the_time_that_passed_while_the_machine_slept() -> None:
    clock, channel = _RunningClock(), Channel(timeout_s=3_600.0)
    channel.gate.clear()
    loop = ClockLoop(clock)
    courier = ChannelCourier({"x": channel}, clock, loop)
    courier.start(Threads(threading.Event()).start)
    reports: queue.SimpleQueue[Sequence[Report | None]] = queue.SimpleQueue()
    try:
        one = batch([envelope(0)], use_by_s=clock.monotonic_s() + 60)
        courier.send(one, lambda _, found: reports.put(found))
        while not channel.running:
            time.sleep(0.001)
        timed = threading.Event()
        loop.call_soon_threadsafe(timed.set)  # its turn comes after that of the call's timer
        assert timed.wait(TIMEOUT_S)
        clock.advance(3_601.0)
        assert reasons(reports.get(timeout=TIMEOUT_S)) == {(RETRY, "no answer within 3600 s")}
    finally:
        channel.gate.set()
        courier.stop(TIMEOUT_S)
