"""The compared systems: how each is started, and how much of the work it gets."""

import shutil
from dataclasses import dataclass

from installing import HERE, Tools

PAIR = ("high,medium,low",) * 2
"""Two workers, each for all tiers."""
POOLS = ("high", "medium", "low")
"""One worker per tier."""

ROWS = ("throughput-1", "throughput-500", "shares", "idle-tier", "wait-10", "wait-100", "behind")


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One compared system."""

    name: str
    title: str
    server: str
    """redis, rabbitmq or stack."""
    client: str
    """The environment in which its processes run."""
    program: str
    sizes: dict[int, int]
    """Targets of a throughput run, by targets per message; enough for several seconds."""
    crew: tuple[str, ...] = PAIR
    """The tiers of each worker."""
    weights: tuple[float, ...] = (0.5, 0.5)
    """Each worker's part of the paced capacity."""
    rows: tuple[str, ...] = ROWS
    """The rows in which it takes part."""

    def submit_command(self, tools: Tools) -> list[str]:
        return [_interpreter(self.client, tools), str(HERE / self.program), "submit"]

    def work_command(self, tools: Tools) -> list[str]:
        if self.client == "fairlane":
            channel = ["--channel", "record=fairlane_channel:RecordChannel"]
            return [str(tools.fairlane), "-m", "fairlane", "worker", "--processes", "2", *channel]
        return [_interpreter(self.client, tools), str(HERE / self.program), "work"]

    @property
    def paces_itself(self) -> bool:
        """Return whether the peer enforces the capacity itself.

        Fairlane does; the handlers of the others are slowed down instead.
        """
        return self.client == "fairlane"


PEERS = (
    Peer(
        name="fairlane",
        title="Fairlane",
        server="stack",
        client="fairlane",
        program="fairlane_peer.py",
        sizes={1: 1_200_000, 500: 9_000_000},
    ),
    Peer(
        name="celery",
        title="Celery",
        server="redis",
        client="python",
        program="celery_peer.py",
        sizes={1: 15_000, 500: 1_500_000},
    ),
    Peer(
        name="celery-pools",
        title="Celery, a worker per tier",
        server="redis",
        client="python",
        program="celery_peer.py",
        sizes={},
        crew=POOLS,
        weights=(0.6, 0.3, 0.1),
        rows=("shares", "idle-tier", "wait-10", "wait-100"),
    ),
    Peer(
        name="dramatiq",
        title="Dramatiq",
        server="rabbitmq",
        client="python",
        program="dramatiq_peer.py",
        sizes={1: 30_000, 500: 6_000_000},
    ),
    Peer(
        name="bullmq",
        title="BullMQ",
        server="redis",
        client="node",
        program="bullmq_peer.js",
        sizes={1: 30_000, 500: 3_000_000},
    ),
)


def _interpreter(client: str, tools: Tools) -> str:
    if client == "node":
        return shutil.which("node") or "node"
    return str(tools.fairlane if client == "fairlane" else tools.python)
