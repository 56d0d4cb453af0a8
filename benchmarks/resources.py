"""Measures the memory of a worker and of a submission under load, and their CPU when idle."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from benchmarks.stage import Stage, stage, wait_for
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from producers.client import PushClient

IDLE_LANES = 500
IDLE_PREFIX = "idle-"
IDLE_WINDOW_S = 20.0
BACKLOG = 5_000_000
SUBMITTED = 10_000_000
_PARENT, _TIMES = 1, slice(11, 15)
"""Positions in /proc/PID/stat after the command: user and system time, of the process and of its ended children."""


def resident_mib(pid: int) -> float:
    """Return the maximum resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def cpu_s(pid: int) -> float:
    """Return the user and system CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family_cpu_s() -> float:
    """Return the user and system CPU seconds so far of this process and of all that it started.

    Among them are Spark's JVM and its Python workers. Processes that ended count if they were waited for.
    """
    processes = dict(_processes())
    ours = {os.getpid()}
    grew = True
    while grew:
        more = {pid for pid, fields in processes.items() if int(fields[_PARENT]) in ours} - ours
        ours |= more
        grew = bool(more)
    ticks = sum(int(field) for pid in ours for field in processes[pid][_TIMES])
    return ticks / os.sysconf("SC_CLK_TCK")


def _processes() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # it may have ended meanwhile
                yield int(folder.name), (folder / "stat").read_text().rpartition(")")[2].split()


def start_worker(scene: Stage) -> int:
    """Start a worker; return its process id once it serves."""
    scene.start_workers(1)
    return scene.serving()[0].pid


def hex_targets(count: int) -> "map[str]":
    """Return targets of 64 characters, generated on demand."""
    return map("{:064x}".format, range(count))


def idle(settings: Settings, say: Callable[[str], None]) -> dict[str, float]:
    """Return the CPU of one worker that holds 500 live lanes with no messages, in percent of a core."""
    with stage(settings, say) as scene:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: open_task(scene, number), range(IDLE_LANES)))
        pid = start_worker(scene)
        wait_for("all lanes attached", lambda: scene.client.workers()[0].lanes >= IDLE_LANES, 60)
        wait_for("the worker to come to rest", lambda: rate_of(pid, 2.0) < 0.5, 60)
        return {"idle_percent_of_core": rate_of(pid, IDLE_WINDOW_S) * 100, "resident_mib": resident_mib(pid)}


class NoTargets(Exception):  # not an error
    """Ends a submission before its first target."""


def no_targets() -> Iterator[str]:
    """Yield an audience that stops at once."""
    yield from iter(_break_off, "")


def _break_off() -> str:
    raise NoTargets


def rate_of(pid: int, window_s: float) -> float:
    """Return the CPU seconds per second over a window."""
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(window_s)
    return (cpu_s(pid) - before) / (time.monotonic() - began)


def open_task(scene: Stage, number: int) -> None:
    """Create a live task without targets: its submission stops before the first."""
    tier = list(Tier)[number % len(Tier)]
    task = PushTask(app="bench", tier=tier, channel="null", message={"body": "idle"}, id=f"{IDLE_PREFIX}{number}")
    with suppress(NoTargets):
        scene.client.submit(task, no_targets())


def memory(settings: Settings, say: Callable[[str], None]) -> dict[str, float]:
    """Return the maximum memory of a submission and of a worker.

    The process submits 10 million targets; the worker has a backlog of these and 5 million more.
    """
    with stage(settings, say) as scene:
        command = [sys.executable, "-m", "benchmarks.resources"]
        submitter = subprocess.run(
            [*command, str(SUBMITTED)], env=scene.crew.environment, check=True, stdout=subprocess.PIPE
        )
        backlog = PushTask(app="bench", tier=Tier.LOW, channel="null", message={"body": "memory"}, chunk=10)
        scene.client.submit(backlog, targets=hex_targets(BACKLOG))
        scene.client.set_capacity(20_000)
        pid = start_worker(scene)
        time.sleep(IDLE_WINDOW_S)
        return {"submit_10m_mib": float(submitter.stdout), "worker_15m_backlog_mib": resident_mib(pid)}


def submit_alone(count: int) -> None:
    """Submit in a separate process, and print its maximum memory in MiB."""
    with PushClient.connect(Settings()) as client:
        task = PushTask(app="bench", tier=Tier.LOW, channel="null", message={"body": "memory"}, chunk=500)
        client.submit(task, targets=hex_targets(count))
    sys.stdout.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.1f}\n")


if __name__ == "__main__":
    submit_alone(int(sys.argv[1]))
