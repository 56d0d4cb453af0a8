"""The supervisor keeps its workers alive and takes them down in order."""

import errno
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from backends.system_clock import SystemClock
from dispatcher.model.errors import Hung, InvalidInput
from dispatcher.retry import Backoff
from fairlane.worker.process.supervisor import Supervisor, SupervisorSettings, spawned
from tests.unit.dispatch.consumers.fakes import eventually

QUICK = SupervisorSettings(drain_s=5.0, kill_after_s=0.5, backoff=Backoff(0.05, 0.1))
STUBBORN = SupervisorSettings(drain_s=0.2, kill_after_s=0.2, backoff=Backoff(0.05, 0.1))


def obedient() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        time.sleep(0.1)


def stubborn() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(0.1)


def starting() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        time.sleep(0.1)


def ignores_sigterm(process: BaseProcess) -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn:"))
    return bool(int(ignored.split()[1], 16) & 1 << signal.SIGTERM - 1)


def hung() -> None:
    os._exit(Hung.exit_code)


def wrongly_set() -> None:
    os._exit(InvalidInput.exit_code)


class Unstartable(BaseProcess):
    def start(self) -> None:
        raise BlockingIOError(errno.EAGAIN, "no more processes")


class Run:
    def __init__(
        self, target: Callable[[], None], settings: SupervisorSettings, count: int = 2, failing: int = 0
    ) -> None:
        """failing: how many starts fail."""
        self.failing = failing
        self.started: list[BaseProcess] = []
        self.target = target
        self.stop = threading.Event()
        self.codes: list[int] = []
        supervisor = Supervisor(self.start, [f"w{n}" for n in range(count)], SystemClock(), settings)
        self.thread = threading.Thread(target=lambda: self.codes.append(supervisor.run(self.stop)))
        self.thread.start()

    def start(self, name: str) -> BaseProcess:
        process = spawned(self.target, name)
        if self.failing:
            self.failing -= 1
            return Unstartable()
        self.started.append(process)
        return process

    def await_started(self, count: int) -> None:
        eventually(lambda: len([process for process in self.started if process.pid]) >= count, 30)

    def end(self) -> int:
        self.stop.set()
        self.thread.join(30)
        return self.codes[0]


def test_workers_that_were_still_starting_have_left_in_order() -> None:
    run = Run(starting, QUICK)
    run.await_started(2)
    assert run.end() == 0


def test_workers_are_asked_to_leave() -> None:
    run = Run(obedient, QUICK)
    run.await_started(2)
    run.end()
    assert not any(process.is_alive() for process in run.started)
    assert len(run.started) == 2


def test_a_worker_that_ended_itself_is_followed_by_another_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Run(hung, QUICK, count=1)
    run.await_started(2)
    run.end()
    assert "process w0 ended (exit code 6: a part of it hung); starting it again" in caplog.text


def test_a_worker_that_cannot_be_started_is_started_later(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(obedient, QUICK, count=1, failing=2)
    run.await_started(1)
    run.end()
    assert caplog.text.count("process w0 cannot be started ([Errno 11] no more processes); starting it again") == 2


def test_a_worker_that_a_signal_without_a_name_ended_is_followed_by_another(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(obedient, QUICK, count=1)
    run.await_started(1)
    os.kill(run.started[0].pid or 0, signal.SIGRTMIN + 1)
    run.await_started(2)
    run.end()
    assert f"process w0 ended (killed by signal {signal.SIGRTMIN + 1}: Real-time signal 1)" in caplog.text
    assert [process.name for process in run.started] == ["w0", "w0"]
    assert not run.started[1].is_alive()


def test_wrong_settings_end_all_at_once_with_the_exit_code_of_one_worker(caplog: pytest.LogCaptureFixture) -> None:
    """Another start would meet the same settings."""
    run = Run(wrongly_set, QUICK)
    run.thread.join(30)
    assert run.codes == [InvalidInput.exit_code]
    assert len(run.started) == 2
    assert not any(process.is_alive() for process in run.started)
    assert "its settings are wrong; stopping all" in caplog.text


def test_one_that_does_not_leave_is_killed_and_the_exit_code_says_so() -> None:
    run = Run(stubborn, STUBBORN, count=1)
    run.await_started(1)
    eventually(lambda: ignores_sigterm(run.started[0]), 30)
    assert run.end() == 1
    assert not run.started[0].is_alive()
