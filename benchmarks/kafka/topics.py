"""Messages/s over many topics: Kafka, Pulsar's client, and Fairlane's producers, in turn on the same machine."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from backends.pulsar.admin import PulsarAdmin
from backends.settings import PulsarSettings
from benchmarks.kafka import servers
from benchmarks.kafka.installing import ROOT, KafkaTools
from benchmarks.kafka.load import PATTERNS, Load
from benchmarks.kafka.publish_pulsar import NAMESPACE
from dispatcher.model.errors import FairlaneError

TOPICS = (3, 64, 256, 1_024)
CREATED_AT_ONCE = 8
PUBLISHERS = ("kafka", "pulsar", "fairlane")
"""Each is a module here, `publish_` before its name. The last two share a server."""
Rates = dict[str, dict[str, list[float]]]
"""Rates of all runs by publisher and pattern."""


@dataclass(frozen=True)
class Publishing:
    """A process that publishes when it is asked to."""

    name: str
    process: "subprocess.Popen[str]"
    log: Path

    def rate(self, pattern: str) -> float:
        """Do one run; return its messages/s."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{pattern}\n")
        self.process.stdin.flush()
        return float(self.hear())

    def hear(self) -> str:
        """Return the next line. Raises FairlaneError if the process has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise FairlaneError(f"The publisher {self.name} ended: {self.log.read_text()[-800:]}")
        return line.strip()


def measure(load: Load, runs: int, tools: KafkaTools, say: Callable[[str], None], *, fsync: bool) -> Rates:
    """Measure all publishers on fresh servers. load.address is not used."""
    with (
        TemporaryDirectory(prefix="fairlane-kafka-") as folder,
        servers_of(Path(folder), tools, fsync=fsync) as found,
        publishing(found, load, tools, Path(folder)) as publishers,
    ):
        return measure_runs(publishers, runs, say)


def measure_runs(publishers: Sequence[Publishing], runs: int, say: Callable[[str], None]) -> Rates:
    """Measure run by run, so that all publishers have the same machine.

    Each does one run before those that count, which warms up client and server.
    """
    rates: Rates = {publisher.name: {pattern: [] for pattern in PATTERNS} for publisher in publishers}
    for number in range(-1, runs):
        for pattern in PATTERNS:
            for publisher in publishers:
                rate = publisher.rate(pattern)
                if number >= 0:
                    rates[publisher.name][pattern].append(rate)
        say(f"run {number + 1} of {runs}: {_last(rates)}")
    return rates


def _last(rates: Rates) -> str:
    shown = [f"{name} {' and '.join(f'{runs[-1]:,.0f}' for runs in by.values() if runs)}" for name, by in rates.items()]
    return ", ".join(shown)


@dataclass(frozen=True)
class Servers:
    """The addresses of both servers."""

    kafka: str
    pulsar: PulsarSettings

    def address(self, publisher: str) -> str:
        return self.kafka if publisher == "kafka" else str(self.pulsar.url)


@contextmanager
def servers_of(folder: Path, tools: KafkaTools, *, fsync: bool) -> Iterator[Servers]:
    """Start both servers; end them afterwards."""
    with (
        servers.kafka(folder / "kafka", tools, fsync=fsync) as kafka,
        servers.pulsar(folder / "pulsar", fsync=fsync) as (pulsar, admin),
    ):
        yield Servers(kafka, PulsarSettings(url=pulsar, admin_url=admin))


@contextmanager
def publishing(found: Servers, load: Load, tools: KafkaTools, folder: Path) -> Iterator[list[Publishing]]:
    """Start all publishers and wait until they are connected to all topics; end them afterwards."""
    _create(found.pulsar, load)
    with ExitStack() as stack:
        publishers = []
        for name in PUBLISHERS:
            python = tools.python if name == "kafka" else Path(sys.executable)
            publishers.append(_started(python, name, replace(load, address=found.address(name)), folder))
            stack.callback(publishers[-1].process.kill)
        for publisher in publishers:
            publisher.hear()
        yield publishers


def _create(settings: PulsarSettings, load: Load) -> None:
    with closing(PulsarAdmin(settings)) as admin, ThreadPoolExecutor(CREATED_AT_ONCE) as pool:
        list(pool.map(lambda name: admin.create_topic(f"{NAMESPACE}/{name}"), load.names()))


def _started(python: Path, name: str, load: Load, folder: Path) -> Publishing:
    command = [str(python), "-m", f"benchmarks.kafka.publish_{name}", json.dumps(asdict(load))]
    environment, log = {**os.environ, "PYTHONPATH": str(ROOT)}, folder / f"{name}-{load.topics}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    return Publishing(name, process, log)
