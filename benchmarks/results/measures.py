"""The measures of the page of results: a command for each, run one after the other, and the file of their figures."""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.results.spread import spread
from benchmarks.stage import machine
from dispatcher.model.errors import Refused
from fairlane.cli.base.output import say

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results.json")
MEASURES = {
    "picks-10": "picks --lanes 10 --runs 5",
    "picks-1000": "picks --lanes 1000 --runs 5",
    "picks-100000": "picks --lanes 100000 --runs 5",
    "picks-mixed": "picks --lanes 100000 --mixed --runs 5",
    "rendering": "rendering --runs 3",
    "throughput-1": "throughput --runs 5",
    "throughput-500": "throughput --chunk 500 --runs 5",
    "latency": "latency --runs 3",
    "steady-200": "steady --rate 200 --runs 3",
    "steady-25000": "steady --rate 25000 --runs 3",
    "steady-500": "steady --chunk 500 --rate 1250000 --runs 3",
    "laws-1": "laws --workers 1 --runs 3",
    "laws-8": "laws --workers 8 --runs 3",
    "laws-free-1": "laws --workers 1 --no-capacity --runs 3",
    "laws-free-8": "laws --workers 8 --no-capacity --runs 3",
    "full-speed-500": "full-speed --chunk 500 --runs 3",
    "full-speed-20": "full-speed --chunk 20 --runs 3",
    "full-speed-1": "full-speed --chunk 1 --runs 3",
    "full-speed-8": "full-speed --workers 8 --chunk 20 --seconds 24 --runs 2",
    "shares": "shares --runs 3",
    "fairness": "fairness --runs 3",
    "controls": "controls --runs 2",
    "many-lanes": "many-lanes --runs 2",
    "many-tasks": "many-tasks --runs 1",
    "rotation": "rotation --runs 2",
    "memory": "memory --runs 1",
    "rebuild": "rebuild --runs 3",
    "fold": "fold --runs 1",
    "producer-1": "producer --runs 2",
    "producer-500": "producer --chunk 500 --runs 2",
    "delivery-80": "delivery --with-engine --requests 60000 --latency-ms 80 --runs 3",
    "delivery-0": "delivery --with-engine --latency-ms 0 --runs 3",
    "delivery-http": "delivery --http --requests 60000 --latency-ms 0 --runs 3",
    "kills": "delivery-trial kills --runs 1",
    "outage": "delivery-trial outage --targets 20000 --seconds 180 --runs 1",
    "neighbour": "delivery-trial neighbour --runs 1",
    "cap": "delivery-trial cap --seconds 62 --workers 1 --runs 1",
    "pause": "delivery-trial pause --seconds 4 --workers 3 --runs 1",
    "ingest": "ingest --runs 1",
    "report": "report --runs 1",
    "reconcile": "reconcile --runs 1",
}
"""Arguments of `python -m benchmarks`, by the name of the measure. Together they take one to two hours."""
APART = {
    "api": "api --runs 1",
    "ingest-kills": "ingest --rows 4000000 --kills 5 --driver-kills 1 --runs 1",
    "producer-blocked-1": "producer --blocked --runs 1",
    "producer-blocked-500": "producer --blocked --chunk 500 --runs 1",
    "catch-up": "catch-up --runs 5",
    "catch-up-25": "catch-up --mb-s 25 --runs 2",
    "catch-up-7": "catch-up --mb-s 7 --runs 1",
    "estate-faults": "estate-faults --runs 3",
    "estate-day": "estate-day --minutes 30 --runs 1",
    "estate-sizes": "estate-sizes --targets 20000000 --runs 1",
    "clients": "benchmarks/delivery/clients/run.py --runs 3",
    "peers": "benchmarks/peers/run.py --runs 3",
    "kafka-topics": "benchmarks/kafka/run.py topics",
    "kafka-priority": "benchmarks/kafka/run.py priority",
}
"""Measures that need other servers or programs, or another hour. They run by name only, and keep their own commit."""
COMMANDS = MEASURES | APART
_TEXTS = (".", ":(exclude)*.md", ":(exclude)*.svg", f":(exclude){RESULTS.relative_to(ROOT)}")
"""The files whose changes count: figures stay those of their commit when documents and results change."""


def load() -> dict[str, Any]:
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {"measured": {}}


def measure_all(names: Sequence[str]) -> list[str]:
    """Run these measures (all but those apart if none is named), and return which of them failed.

    Figures are stored after each measure. Without names, those of earlier runs are dropped, except for those apart.
    """
    document, about = load(), {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": _commit()}
    if not APART.keys() >= set(names or MEASURES):
        document |= about | {"machine": machine()}
    if not names:
        document["measured"] = {name: entry for name, entry in document["measured"].items() if name in APART}
    failed = []
    for name in names or MEASURES:
        say(f"{name}: {COMMANDS[name]}")
        document["measured"].pop(name, None)
        if figures := _figures(COMMANDS[name]):
            entry = {"command": COMMANDS[name], "apart": name in APART, "figures": figures}
            document["measured"][name] = about | entry
        else:
            failed.append(name)
        _store(document)
    return failed


def _store(document: dict[str, Any]) -> None:
    """Write the file with a line for each measure, so that a run changes only the lines of its measures."""
    about = json.dumps({name: value for name, value in document.items() if name != "measured"})
    measured = sorted(document["measured"].items())
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in measured)
    RESULTS.write_text(f'{about[:-1]}, "measured": {{\n{lines}\n}}}}\n')


def _figures(arguments: str) -> dict[str, dict[str, float]]:
    """Return the spread of each figure of a benchmark that runs in a process of its own; nothing if it fails."""
    first, *rest = arguments.split()
    command = [first, *rest] if first.endswith(".py") else ["-m", "benchmarks", first, *rest, "-o", "json"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    document = json.loads(done.stdout or '{"figures": {}}')
    return document["figures"] if "figures" in document else spread(document["runs"])


def _commit() -> str:
    """Return the last commit that changed a program. Raises Refused if the checkout has other changes."""
    if _git("status", "--porcelain", "--untracked-files=no"):
        raise Refused("The checkout has changes that are in no commit.", "Commit them: figures name their commit.")
    return _git("log", "-1", "--format=%h")


def _git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments, "--", *_TEXTS], cwd=ROOT, text=True).strip()
