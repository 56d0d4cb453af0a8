"""A group of worker processes is stopped as a whole."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dispatcher.clock import VirtualClock
from fairlane.worker_group import WorkerGroup


class Stubborn(subprocess.Popen[bytes]):
    """A process that ignores what it is asked, and takes the time that it is given."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.asked: list[int] = []
        self.returncode: Any = None

    def poll(self) -> int | None:
        return self.returncode  # type: ignore[no-any-return]

    def send_signal(self, sig: int) -> None:
        self.asked.append(sig)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            assert timeout is not None
            self.clock.advance(timeout)
            raise subprocess.TimeoutExpired("worker", timeout)
        return int(self.returncode)

    def kill(self) -> None:
        self.returncode = -signal.SIGKILL


def test_all_workers_share_one_deadline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = VirtualClock()
    monkeypatch.setattr("fairlane.worker_group.time.monotonic", clock.monotonic_s)
    members = {name: Stubborn(clock) for name in "abc"}
    began_s = clock.monotonic_s()
    WorkerGroup({}, tmp_path, dict(members)).stop(5.0)
    assert clock.monotonic_s() - began_s == 5.0
    assert all(one.asked == [signal.SIGTERM] and one.returncode == -signal.SIGKILL for one in members.values())
