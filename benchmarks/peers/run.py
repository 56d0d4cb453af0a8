"""Fairlane beside other task queues: the same work, one after the other, on this machine; prints all figures.

python benchmarks/peers/run.py                      everything, about a quarter of an hour
python benchmarks/peers/run.py --quick              small sizes, to see that it works
python benchmarks/peers/run.py --only bullmq --row wait-10 --runs 3
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import audience
from crew import CAPACITY, running
from installing import CannotInstall, Tools, install, say
from peers import PEERS, Peer
from processes import Failed
from rows import FULL, QUICK, ROWS, Row, Size
from servers import server

SEED = 2026
Figures = dict[str, float]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, one run each: not a measurement")
    parser.add_argument("--only", action="append", choices=[peer.name for peer in PEERS], help="this peer (repeatable)")
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS], help="this row (repeatable)")
    parser.add_argument("--runs", type=int, help="runs of each row (3 for throughput, 1 for the others, unless set)")
    return parser.parse_args()


def machine() -> dict[str, Any]:
    text = Path("/proc/cpuinfo").read_text()
    cpu = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cores": os.cpu_count(), "cpu": cpu, "memory_gib": round(memory_gib), "load": os.getloadavg()[0]}


def versions() -> dict[str, str]:
    """Return the versions of the compared systems, from the files that pin them and from the programs themselves."""
    here = Path(__file__).resolve().parent
    lines = (here / "requirements.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    node = json.loads((here / "package.json").read_text())["dependencies"]
    return {**pinned, **node, "python": platform.python_version(), **_packages()}


def _packages() -> dict[str, str]:
    query = ["dpkg-query", "-W", "-f", "${Package} ${Version}\n", "redis-server", "rabbitmq-server", "nodejs"]
    try:
        output = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return {}
    return dict(line.split(" ", 1) for line in output.splitlines() if " " in line)


@dataclass(frozen=True)
class PeerSetup:
    """The tools, folder and server of one peer's runs."""

    peer: Peer
    tools: Tools
    folder: Path
    environment: dict[str, str]
    """Environment that its processes need to find its server."""


def measure(setup: PeerSetup, row: Row, runs: int, size: Size) -> list[Figures]:
    """Return the runs of one cell; a run that cannot be measured is reported and left out."""
    name = f"{setup.peer.name} {row.name}"
    cells: list[Figures] = []
    for number in range(runs):
        began = time.monotonic()
        try:
            with running(
                setup.peer, setup.tools, setup.folder / f"{row.name}-{number}", setup.environment, paced=row.paced
            ) as run:
                cells.append(row.measure(run, size))
        except (Failed, OSError, ValueError) as error:
            say(f"{name} {number + 1}/{runs} FAILED: {error}")
            continue
        shown = ", ".join(f"{figure} {value:,.4g}" for figure, value in cells[-1].items())
        say(f"{name} {number + 1}/{runs} ({time.monotonic() - began:.0f} s): {shown}")
    return cells


def measure_all(chosen: argparse.Namespace, tools: Tools, folder: Path) -> dict[str, dict[str, list[Figures]]]:
    """Return the runs by row and peer."""
    size = QUICK if chosen.quick else FULL
    rows = [row for row in ROWS if not chosen.row or row.name in chosen.row]
    results: dict[str, dict[str, list[Figures]]] = {row.name: {} for row in rows}
    for peer in _peers(chosen):
        mine = [row for row in rows if row.name in peer.rows]
        if not mine:
            continue
        with server(peer.server, folder / f"{peer.name}-server", tools) as environment:
            environment["PEER_AUDIENCE"] = str(folder / "audience")
            setup = PeerSetup(peer, tools, folder / peer.name, environment)
            for row in mine:
                runs = chosen.runs or (1 if chosen.quick else row.runs)
                results[row.name][peer.name] = measure(setup, row, runs, size)
    return results


def _peers(chosen: argparse.Namespace) -> list[Peer]:
    return [peer for peer in PEERS if not chosen.only or peer.name in chosen.only]


def _audience(chosen: argparse.Namespace, path: Path) -> None:
    """Write as many targets as the largest requested row needs."""
    part = (QUICK if chosen.quick else FULL).part
    sizes = [int(size * part) for peer in _peers(chosen) for chunk, size in peer.sizes.items()
             if not chosen.row or f"throughput-{chunk}" in chosen.row]  # fmt: skip
    audience.write(path, max([200_000, *sizes]), SEED)


def main() -> int:
    chosen = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    peers = _peers(chosen)
    clients = {peer.client for peer in peers}
    began, started = time.monotonic(), datetime.now(UTC)
    try:
        tools = install({peer.server for peer in peers}, python="python" in clients, node="node" in clients)
    except CannotInstall as error:
        say(str(error))
        return 4
    about = {"measured": started.isoformat(timespec="seconds"), "quick": chosen.quick, "machine": machine(),
             "versions": versions(), "capacity": CAPACITY, "seed": SEED}  # fmt: skip
    with TemporaryDirectory(prefix="fairlane-peers-") as scratch:
        _audience(chosen, Path(scratch) / "audience")
        results = measure_all(chosen, tools, Path(scratch))
    say(f"{time.monotonic() - began:.0f} s")
    print(json.dumps({**about, "runs": results}))
    return 0 if all(runs for cells in results.values() for runs in cells.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
        sys.exit(130)
