"""One run of one peer: its submitting process, its workers, and the records they leave."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import records
from installing import HERE, ROOT, Tools
from peers import Peer
from processes import Failed, Process, start, stop

CAPACITY = 2_000
"""Targets/s of all workers together, in the paced rows."""
LEAVE_S = 25.0


@dataclass(kw_only=True)
class Run:
    """One run of one peer."""

    peer: Peer
    tools: Tools
    folder: Path
    """The folder of this run."""
    environment: dict[str, str]
    """The environment of its processes."""
    paced: bool
    """Whether the capacity is CAPACITY; else it is unlimited."""
    workers: list[Process] = field(default_factory=list)
    submitter: Process | None = None

    @property
    def records(self) -> Path:
        return self.folder / "records"

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send one request to the submitting process; return its answer."""
        pipe = self._submitting().stdin
        assert pipe is not None
        pipe.write(json.dumps(request) + "\n")
        pipe.flush()
        return self.hear()

    def hear(self) -> dict[str, Any]:
        pipe = self._submitting().stdout
        assert pipe is not None
        line = pipe.readline()
        if not line:
            raise Failed(f"the submitting process ended: {tail(self.folder / 'submit.log')}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _submitting(self) -> Process:
        assert self.submitter is not None, "open() comes first"
        return self.submitter

    def submit(self, task: str, tier: str, first: int, count: int, chunk: int) -> dict[str, float]:
        return self.ask(op="submit", id=task, tier=tier, first=first, count=count, chunk=chunk)

    def open(self) -> None:
        """Start the submitting process and let it connect."""
        command = self.peer.submit_command(self.tools)
        self.submitter = start(command, self.environment, self.folder / "submit.log", talks=True)
        while "ready" not in (reply := self.hear()):
            self.environment.update(reply["environment"])

    def work(self) -> None:
        """Start the workers. Without pacing, each waits with its first message until all have one."""
        if self.peer.paces_itself:
            self.ask(op="hold")
        crew = self.peer.crew[:1] if self.peer.paces_itself else self.peer.crew
        for number, (tiers, weight) in enumerate(zip(crew, self.peer.weights, strict=False)):
            pace = {"PEER_PACE": str(CAPACITY * weight if self.paced else 0), "PEER_TIERS": tiers}
            log = self.folder / f"worker-{number}.log"
            self.workers.append(start(self.peer.work_command(self.tools), {**self.environment, **pace}, log))
        self.ask(op="release")

    def close(self) -> None:
        """End the workers and clear the remaining work.

        Fairlane's workers leave in order: otherwise its tenant cannot be deleted.
        """
        for worker in self.workers:
            stop(worker, LEAVE_S if self.peer.paces_itself else 0)
        if self.submitter is not None:
            if self.submitter.poll() is None and self.submitter.stdin:
                self.ask(op="clear")
                self.submitter.stdin.close()
                self.submitter.wait(60)
            stop(self.submitter, 5)

    def so_far(self) -> int:
        """Return the number of messages handled, without reading them."""
        return records.count(self.records)

    def fallen(self) -> str:
        """Return the end of the log of a worker that ended by itself, or nothing."""
        logs = [self.folder / f"worker-{n}.log" for n, worker in enumerate(self.workers) if worker.poll() is not None]
        return tail(logs[0]) if logs else ""


def tail(path: Path) -> str:
    return path.read_text()[-600:] if path.exists() else ""


@contextmanager
def running(peer: Peer, tools: Tools, folder: Path, environment: dict[str, str], *, paced: bool) -> Iterator[Run]:
    """Yield a run with its submitting process connected; it is ended and cleared away whatever happens."""
    for name in ("records", "gate"):
        (folder / name).mkdir(parents=True)
    own = {
        "PEER_RECORDS": str(folder / "records"),
        "PEER_GATE": str(folder / "gate"),
        "PEER_WORKERS": str(1 if paced else len(peer.crew)),
        "PEER_CAPACITY": str(CAPACITY if paced else 0),
        "PEER_PACE": "1" if paced else "0",
        "NODE_PATH": str(tools.node_modules),
        "PYTHONPATH": f"{HERE}:{ROOT}",
    }
    run = Run(peer=peer, tools=tools, folder=folder, environment={**os.environ, **environment, **own}, paced=paced)
    try:
        run.open()
        yield run
    finally:
        run.close()
