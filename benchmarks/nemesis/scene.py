"""The processes that faults hit: workers behind proxies, and submitters; each is restarted when it has ended."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cuttable_proxy import CuttableProxy, cuttable_proxies
from benchmarks.estate_brokers import Brokers
from benchmarks.nemesis import provider
from benchmarks.nemesis.plan import SUBMITTERS, WORKERS
from benchmarks.redis_pair import RedisPair
from fairlane.settings import Settings
from lab.isolation import environment
from lab.worker_group import WorkerGroup

AGAIN_S = 1.0
"""Delay between the end of a process and the next start in its place."""
STOP_S = 30.0


@dataclass(kw_only=True)
class ProcessSlot:
    """The slot of a worker or a submitter, and the process that fills it."""

    name: str
    start: Callable[[int], subprocess.Popen[bytes]]
    """Starts the incarnation with that number."""
    process: subprocess.Popen[bytes] | None = None
    number: int = 0
    vacant: bool = False
    """Whether the process must not be started now."""
    ended: int = 0
    """How often it has ended without being killed."""
    due_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def incarnation(self) -> str:
        return f"{self.name}-{self.number}"

    def tend(self) -> None:
        """Start a process if there is none."""
        with self.lock:
            if self.vacant or time.monotonic() < self.due_s:
                return
            if self.process is None:
                self.number += 1
                self.process = self.start(self.number)
            elif self.process.poll() is not None:
                self.ended += 1
                self.process, self.due_s = None, time.monotonic() + AGAIN_S

    def kill(self) -> None:
        """Kill the process; the place stays empty until `vacant` is reset."""
        with self.lock:
            self.vacant = True
            if self.process is not None:
                self.process.kill()
                self.process.wait()
                self.process = None

    def signal(self, number: signal.Signals) -> None:
        with self.lock:
            if self.process is not None and self.process.poll() is None:
                self.process.send_signal(number)

    def leave(self, deadline_s: float) -> bool:
        """Ask the process to end, and kill it after the deadline; return whether it ended by itself in time."""
        with self.lock:
            self.vacant = True
            process = self.process
        if process is None:
            return True
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class TestBed:
    """All servers and processes of a run."""

    settings: Settings
    """Settings that reach all servers without a proxy."""
    folder: Path
    brokers: Brokers
    redis: RedisPair
    workers: list[ProcessSlot]
    submitters: list[ProcessSlot]
    proxies: list[list[CuttableProxy]]
    """Pulsar's proxies, by worker."""

    def tend(self) -> None:
        for process in (*self.workers, *self.submitters):
            process.tend()


@contextmanager
def scene(
    settings: Settings, folder: Path, brokers: Brokers, redis: RedisPair, seed: int, channel: str
) -> Iterator[TestBed]:
    """Yield places for all processes, which end with the context."""
    with ExitStack() as stack:
        numbers = [*brokers.ports.brokers, *brokers.ports.webs]
        proxies = [stack.enter_context(cuttable_proxies(*numbers)) for _ in range(WORKERS)]
        workers = [
            _worker(f"w{index}", behind(settings, proxies[index], f"w{index}"), folder, channel)
            for index in range(WORKERS)
        ]
        submitters = [_submitter(f"s{index}", settings, folder, seed) for index in range(SUBMITTERS)]
        try:
            yield TestBed(
                settings=settings,
                folder=folder,
                brokers=brokers,
                redis=redis,
                workers=workers,
                submitters=submitters,
                proxies=proxies,
            )
        finally:
            for process in (*workers, *submitters):
                process.signal(signal.SIGCONT)
                process.kill()


def behind(settings: Settings, proxies: list[CuttableProxy], name: str) -> Settings:
    """Return settings for the same servers through a worker's own proxies.

    The worker identifies itself to Redis' proxy by its name.
    """
    first, second, web, _ = (proxy.port for proxy in proxies)
    url = f"pulsar://127.0.0.1:{first},127.0.0.1:{second}"
    pulsar = settings.pulsar.model_copy(update={"url": url, "admin_url": f"http://127.0.0.1:{web}"})
    redis = settings.redis.model_copy(update={"url": f"{settings.redis.address}?client_name={name}"})
    return settings.model_copy(update={"pulsar": pulsar, "redis": redis})


def _worker(name: str, settings: Settings, folder: Path, channel: str) -> ProcessSlot:
    def start(number: int) -> subprocess.Popen[bytes]:
        incarnation = f"{name}-{number}"
        of_channel = provider.environment(folder / f"calls-{incarnation}.jsonl", incarnation, channel)
        crew = WorkerGroup({**environment(settings), **of_channel}, folder)
        crew.join(incarnation)
        return crew.members[incarnation]

    return ProcessSlot(name=name, start=start)


def _submitter(name: str, settings: Settings, folder: Path, seed: int) -> ProcessSlot:
    command = [sys.executable, "-m", "benchmarks.nemesis.submitters", name]

    def start(number: int) -> subprocess.Popen[bytes]:
        with (folder / f"{name}-{number}.log").open("ab") as log:
            return subprocess.Popen(
                [*command, str(folder / f"submitted-{name}.jsonl"), str(seed)],
                env=environment(settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    return ProcessSlot(name=name, start=start)
