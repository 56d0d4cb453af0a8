"""Child processes, each in its own process group; none outlives the run."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

Process = subprocess.Popen[str]


class Failed(Exception):
    """A run could not be measured; the message says why."""


def start(command: list[str], environment: Mapping[str, str], log: Path, *, talks: bool = False) -> Process:
    """Start a process that logs to `log`; with `talks` its input and output are pipes."""
    pipe = subprocess.PIPE if talks else subprocess.DEVNULL
    with log.open("a") as messages:
        return subprocess.Popen(
            command, env=dict(environment), stdin=pipe, stdout=subprocess.PIPE if talks else messages, stderr=messages,
            text=True, start_new_session=True,
        )  # fmt: skip


def stop(process: Process, grace_s: float) -> None:
    """Ask the process to end, and kill its whole group after `grace_s` seconds."""
    if grace_s:
        process.terminate()
    else:
        _signal(process, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace_s or 10)
    _signal(process, signal.SIGKILL)
    process.wait(10)
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(what: str, done: Callable[[], bool], timeout_s: float, period_s: float = 0.05) -> None:
    """Wait until `done`. Raises Failed after the deadline, with what did not happen."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise Failed(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(period_s)
