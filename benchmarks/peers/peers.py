"""Who is compared: how each is started, and how much of the work it gets."""

import shutil
from dataclasses import dataclass

from installing import HERE, Tools

PAIR = ("high,medium,low",) * 2
"""Two workers, each of all tiers."""
POOLS = ("high", "medium", "low")
"""A worker per tier."""

ROWS = ("throughput-1", "throughput-500", "shares", "idle-tier", "wait-10", "wait-100", "behind")


@dataclass(frozen=True)
class Peer:
    """server: redis, rabbitmq or stack. client: what its processes run on. sizes: targets of a throughput run, by
    targets a message; enough for several seconds. crew: the tiers of each worker; weights: its part of the paced
    capacity. rows: in which it takes part."""

    name: str
    title: str
    server: str
    client: str
    program: str
    sizes: dict[int, int]
    crew: tuple[str, ...] = PAIR
    weights: tuple[float, ...] = (0.5, 0.5)
    rows: tuple[str, ...] = ROWS

    def submit_command(self, tools: Tools) -> list[str]:
        return [_interpreter(self.client, tools), str(HERE / self.program), "submit"]

    def work_command(self, tools: Tools) -> list[str]:
        if self.client == "fairlane":
            channel = ["--channel", "record=fairlane_channel:RecordChannel"]
            return [str(tools.fairlane), "-m", "fairlane", "worker", "--processes", "2", *channel]
        return [_interpreter(self.client, tools), str(HERE / self.program), "work"]

    @property
    def paces_itself(self) -> bool:
        """Fairlane has a capacity; the others' handlers are slowed down instead."""
        return self.client == "fairlane"


PEERS = (
    Peer("fairlane", "Fairlane", "stack", "fairlane", "fairlane_peer.py", {1: 1_200_000, 500: 9_000_000}),
    Peer("celery", "Celery", "redis", "python", "celery_peer.py", {1: 15_000, 500: 1_500_000}),
    Peer("celery-pools", "Celery, a worker per tier", "redis", "python", "celery_peer.py", {},
         crew=POOLS, weights=(0.6, 0.3, 0.1), rows=("shares", "idle-tier", "wait-10", "wait-100")),
    Peer("dramatiq", "Dramatiq", "rabbitmq", "python", "dramatiq_peer.py", {1: 30_000, 500: 6_000_000}),
    Peer("bullmq", "BullMQ", "redis", "node", "bullmq_peer.js", {1: 30_000, 500: 3_000_000}),
)  # fmt: skip


def _interpreter(client: str, tools: Tools) -> str:
    if client == "node":
        return shutil.which("node") or "node"
    return str(tools.fairlane if client == "fairlane" else tools.python)
