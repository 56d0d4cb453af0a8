"""Real worker processes for the demo and the benchmarks, each with its own log."""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class WorkerGroup:
    """Starts and stops workers."""

    environment: dict[str, str]
    """Environment of the worker processes."""
    logs: Path
    """The folder of their logs."""
    members: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def join(self, name: str, *options: str) -> None:
        """Start a worker. `options` are added to the command `fairlane worker`."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            self.members[name] = subprocess.Popen(
                [sys.executable, "-m", "fairlane", "worker", "--name", name, *options],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def leave(self, name: str) -> None:
        """Ask a worker to finish what it has claimed and leave."""
        self.members[name].send_signal(signal.SIGTERM)

    def alive(self) -> list[str]:
        return [name for name, process in self.members.items() if process.poll() is None]

    def fallen(self) -> dict[str, int]:
        """Return the exit codes of the workers that failed."""
        codes = {name: process.poll() for name, process in self.members.items()}
        return {name: code for name, code in codes.items() if code}

    def stop(self, deadline_s: float) -> None:
        """Stop all workers: ask first, kill those left after the deadline, which is one for all of them."""
        until_s = time.monotonic() + deadline_s
        for name in self.alive():
            self.leave(name)
        for process in self.members.values():
            try:
                process.wait(max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
