"""The environment of a benchmark: its own tenant and prefix on the configured servers, and its own workers."""

import json
import os
import platform
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dispatcher.model.errors import FairlaneError
from dispatcher.model.view import WorkerBeat
from fairlane.settings import Settings
from lab.isolation import environment, isolated, provisioned
from lab.worker_group import WorkerGroup
from producers.client import PushClient

SEE_LOGS = "The workers' logs are in `logs/bench`, in the folder that `fairlane config show` names as home."
"""The advice in errors when something does not happen."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The environment of a running benchmark."""

    settings: Settings
    """Settings of the benchmark's own tenant and prefix."""
    client: PushClient
    """Client connected to it."""
    crew: WorkerGroup
    folder: Path
    log: Path
    """The file of the workers' `log` channel."""
    say: Callable[[str], None]
    """Reports progress to the person."""

    def start_workers(self, count: int) -> None:
        """Start workers; return once all of them serve, so that none works alone while another starts."""
        for number in range(count):
            self.crew.join(f"worker-{number}")
        wait_for("the workers to serve", lambda: len(self.serving()) == count, 60)

    def serving(self) -> list[WorkerBeat]:
        """Return the workers that serve, which requires that the view may grant leases."""
        return [worker for worker in self.client.workers() if worker.state == "serving"]


@contextmanager
def stage(settings: Settings, say: Callable[[str], None], namespaces: int = 4) -> Iterator[Stage]:
    """Provision a new tenant and connect; afterwards clear everything away."""
    own = isolated(settings, f"bench-{secrets.token_hex(3)}", namespaces)
    with TemporaryDirectory(prefix="fairlane-bench-") as folder, provisioned(own):
        log = Path(folder) / "delivered.jsonl"
        channels = {"FAIRLANE_CHANNELS": json.dumps({"log": {"path": str(log)}})}
        crew = WorkerGroup({**environment(own), **channels}, own.home_folder / "logs" / "bench")
        try:
            with PushClient.connect(own) as client:
                yield Stage(settings=own, client=client, crew=crew, folder=Path(folder), log=log, say=say)
        finally:
            crew.stop(deadline_s=20)


def wait_for(what: str, done: Callable[[], bool], timeout_s: float, period_s: float = 0.05) -> None:
    """Wait until `done`; raise an error after the deadline that says what did not happen."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > deadline:
            raise FairlaneError(f"The benchmark waited {timeout_s:.0f} s in vain for: {what}.", SEE_LOGS)
        time.sleep(period_s)


def machine() -> dict[str, Any]:
    """Return a description of the machine that the figures were measured on."""
    with Path("/proc/cpuinfo").open() as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "cpu": model,
        "memory_gib": round(memory_gib, 1),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
    }


def targets(count: int, seed: int) -> list[str]:
    """Return targets of 64 random hex characters; the same seed gives the same ones."""
    import random

    chance = random.Random(seed)
    return [f"{chance.getrandbits(256):064x}" for _ in range(count)]


def split(items: Sequence[str], parts: int) -> list[Sequence[str]]:
    """Return contiguous parts of nearly equal size."""
    size = -(-len(items) // parts)
    return [items[start : start + size] for start in range(0, len(items), size)]
