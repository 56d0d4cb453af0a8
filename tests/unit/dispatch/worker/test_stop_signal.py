"""A process that is asked to stop stops, however its signals come."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairlane.worker.process.stop_signal import StopSignal

BURST, BURST_S = 50, 0.001
WITHIN_S = 20.0
TERM, INT, HUP, USR1, USR2 = signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2
BURSTS = {
    "SIGTERM": (TERM,),
    "SIGINT": (INT,),
    "both": (TERM, INT),
    "SIGHUP": (HUP,),
    "all": (USR1, HUP, INT, TERM, USR2),
}
LOOP = """
from fairlane.worker.process.stop_signal import stop_on_signals
for _ in range({rounds}):
    stop = stop_on_signals()
    print("waits", flush=True)
    {loop}
    print("left", flush=True)
"""
LOOPS = {
    "as a worker waits": "while not stop.is_set(): stop.wait(0.2)",
    "as a guard and a journal wait": "while not stop.wait(5.0): pass",
    "without a wait": "while not stop.is_set(): pass",
}
STUCK = """
from fairlane.worker.process.stop_signal import stop_on_signals
import time
stop_on_signals()
print("waits", flush=True)
while True: time.sleep(60)
"""


@contextmanager
def process_of(code: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line, or none if the process does not write one in time: it is then killed."""
    timer = threading.Timer(WITHIN_S, process.kill)
    timer.start()
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    timer.cancel()
    return line


def send_burst(process: subprocess.Popen[str], *numbers: signal.Signals) -> None:
    began_s = time.monotonic()
    for index in range(BURST):
        while time.monotonic() - began_s < index * BURST_S / BURST:
            pass
        process.send_signal(numbers[index % len(numbers)])


@pytest.mark.parametrize("numbers", BURSTS.values(), ids=BURSTS)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_burst_of_50_signals_in_a_millisecond_ends_every_loop(loop: str, numbers: tuple[signal.Signals, ...]) -> None:
    rounds = 10
    with process_of(LOOP.format(rounds=rounds, loop=loop)) as process:
        for _ in range(rounds):
            assert line_of(process) == "waits"
            send_burst(process, *numbers)
            assert line_of(process) == "left"
        assert process.wait(WITHIN_S) == 0


def test_a_second_sigint_ends_a_stuck_process_at_once() -> None:
    with process_of(STUCK) as process:
        assert line_of(process) == "waits"
        send_burst(process, INT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.7)  # copies of the first one end nothing
        process.send_signal(INT)
        assert process.wait(WITHIN_S) == 130


def test_no_number_of_sigterms_ends_a_stuck_process() -> None:
    with process_of(STUCK) as process:
        assert line_of(process) == "waits"
        for _ in range(3):
            process.send_signal(TERM)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.6)


@pytest.mark.parametrize("number", [USR1, USR2])
def test_a_burst_of_a_users_signal_changes_nothing(number: signal.Signals) -> None:
    with process_of(LOOP.format(rounds=1, loop=LOOPS["as a worker waits"])) as process:
        assert line_of(process) == "waits"
        send_burst(process, number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.7)
        process.send_signal(TERM)
        assert line_of(process) == "left"
        assert process.wait(WITHIN_S) == 0


def test_a_process_that_shall_outlive_its_terminal_does() -> None:
    nohup = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    with process_of(nohup + LOOP.format(rounds=1, loop=LOOPS["as a worker waits"])) as process:
        assert line_of(process) == "waits"
        send_burst(process, HUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.7)
        process.send_signal(TERM)
        assert line_of(process) == "left"


def test_a_stop_of_another_thread_ends_the_wait() -> None:
    stop = StopSignal()
    threading.Timer(0.1, stop.set).start()
    assert stop.wait(WITHIN_S)
    assert stop.is_set()


def test_a_wait_without_a_stop_lasts_its_time() -> None:
    stop, began_s = StopSignal(), time.monotonic()
    assert not stop.wait(0.3)
    assert time.monotonic() - began_s >= 0.3
    assert not stop.wait(-1.0)


def test_the_handler_takes_no_lock() -> None:
    """It may run where this thread has just taken the lock of the event."""
    stop = StopSignal()
    with stop._cond:  # type: ignore[attr-defined]  # noqa: SLF001 -- the lock that `set` of an event takes
        handler = threading.Thread(target=stop.receive, args=(TERM, None), daemon=True)
        handler.start()
        handler.join(WITHIN_S)
        assert stop.is_set()


TIDIES = """
import signal, time
from fairlane.worker.process.stop_signal import interrupted_by
try:
    with interrupted_by(signal.SIGTERM, signal.SIGINT):
        try:
            print("waits", flush=True)
            time.sleep(60)
        finally:
            time.sleep(0.2)
            print("tidied up", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_burst_interrupts_a_block_once_so_that_it_tidies_up() -> None:
    with process_of(TIDIES) as process:
        assert line_of(process) == "waits"
        send_burst(process, TERM, INT)
        assert line_of(process) == "tidied up"
        assert line_of(process) == "interrupted"
        assert process.wait(WITHIN_S) == 0
