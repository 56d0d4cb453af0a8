"""A group of worker processes is stopped as a whole."""

import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest

from lab.worker_group import WorkerGroup
from tests.virtual_clock import VirtualClock


def test_all_workers_share_one_deadline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each takes the time that it is given, and ends when it is killed."""
    clock, waited = VirtualClock(), list[float | None]()
    monkeypatch.setattr("lab.worker_group.time.monotonic", clock.monotonic_s)

    def wait(timeout: float | None = None) -> None:
        waited.append(timeout)
        if timeout is not None:
            clock.advance(timeout)
            raise subprocess.TimeoutExpired("worker", timeout)

    WorkerGroup({}, tmp_path, {name: Mock(poll=lambda: None, wait=wait) for name in "ab"}).stop(5.0)
    assert waited == [5.0, None, 0.0, None]
