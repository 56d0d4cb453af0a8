"""A cold backlog is read beside lanes that are read as they are written: does the one delay the others?"""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import connect, topics
from backends.pulsar.publisher import LaneProducer
from benchmarks import bare, tailing
from benchmarks.tailing import Waits
from dispatcher.model.errors import FairlaneError, Refused
from dispatcher.scheduling.read_ahead import envelope_bytes
from fairlane.settings import Settings
from lab.isolation import environment, isolated, provisioned
from lab.stack import state as states
from lab.stack.homes import Home
from lab.stack.state import EstateState

TAILED, BACKLOGGED = 8, 4
"""Lanes of each kind."""
WARM_S, QUIET_S, REST_S = 4.0, 12.0, 3.0
PIECE = 100
"""Messages published at once."""
ENVELOPE_BYTES = envelope_bytes(500, 250)
"""An envelope of 500 targets."""
READ_TIMEOUT_S = 240
Span = tuple[float, float]
"""Wall times of a beginning and an end."""


@dataclass(frozen=True)
class Backlog:
    """The size of the backlog."""

    mb: int
    mb_s: int = 0
    """Bound of the speed at which it is read, one lane after the other, kept by the brokers; 0: none."""

    @property
    def of_lane(self) -> int:
        """Return the number of envelopes of each lane."""
        return max(PIECE, self.mb * 1_000_000 // ENVELOPE_BYTES // BACKLOGGED)

    @property
    def envelopes(self) -> int:
        return BACKLOGGED * self.of_lane


@dataclass(frozen=True)
class Reading:
    """One reading of the whole backlog."""

    spans: Sequence[Span]
    """A span for each lane."""
    mb_s: float
    disk_mb: float
    """Megabytes that the bookies read from disk meanwhile."""


class Bookies:
    """The bookies of the local estate: their entry logs, and what they read from disk."""

    def __init__(self, home: Home, estate: EstateState) -> None:
        self._home, self._estate = home, estate

    def drop_from_page_cache(self) -> None:
        """Drop all entry logs from the page cache. Pages that are not on disk yet cannot be dropped, so sync first."""
        for file in sorted(self._home.estate.glob("bookie-*/data/ledgers/**/*.log")):
            opened = os.open(file, os.O_RDONLY)
            try:
                os.fsync(opened)
                os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(opened)

    def read_bytes(self) -> int:
        """Return the bytes read from disk since they were started."""
        pids = [server.pid for name, server in self._estate.servers.items() if name.startswith("bookie")]
        return sum(_read_bytes(pid) for pid in pids)


def _read_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("read_bytes")))


def bookies_of(settings: Settings) -> Bookies:
    """Return the bookies of the local stack. Raises Refused if it is no estate, or not on Linux."""
    home = Home(settings.home_folder)
    estate = states.load(home.state_file).living().estate
    if estate is None or not hasattr(os, "posix_fadvise") or not Path("/proc/self/io").exists():
        raise Refused(
            "catch-up drops the entry logs of bookies from the page cache: it needs a local estate, on Linux.",
            "Start one: `fairlane stack up --bookies 3 --brokers 2`.",
        )
    return Bookies(home, estate)


@dataclass(frozen=True)
class TestBed:
    """A tenant with a backlog, and lanes that are tailed."""

    settings: Settings
    admin: PulsarAdmin
    bookies: Bookies
    backlogged: Sequence[str]
    backlog: Backlog

    def read(self, *, cold: bool) -> Reading:
        """Read the whole backlog with the bare loop, in a process of its own."""
        for lane in self.backlogged:
            self.admin.delete_subscription(lane, bare.NAME)
            self.admin.create_subscription(lane, bare.NAME)
        if cold:
            self.bookies.drop_from_page_cache()
        time.sleep(REST_S)
        disk = self.bookies.read_bytes()
        command = [sys.executable, "-m", "benchmarks.bare", str(self.backlog.of_lane), *self.backlogged]
        done = subprocess.run(
            command, env=environment(self.settings), capture_output=True, text=True, timeout=READ_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise FairlaneError(f"The backlog could not be read: {done.stderr[-500:]}")
        answer = json.loads(done.stdout)
        if answer["received"] < self.backlog.envelopes:
            raise FairlaneError(f"Only {answer['received']:,} of {self.backlog.envelopes:,} envelopes came.")
        spans = [(began_s, ended_s) for began_s, ended_s in answer["spans"]]
        rate = self.backlog.envelopes * ENVELOPE_BYTES / 1e6 / answer["busy_s"]
        return Reading(spans, rate, (self.bookies.read_bytes() - disk) / 1e6)


@contextmanager
def scene_of(settings: Settings, backlog: Backlog, client: Any) -> Iterator[tuple[TestBed, list[str]]]:
    """Yield the scene and the lanes to be tailed."""
    names = topics(settings.pulsar)
    tailed = [names.own_lane(f"tailed-{number}") for number in range(TAILED)]
    backlogged = [names.own_lane(f"backlog-{number}") for number in range(BACKLOGGED)]
    with closing(PulsarAdmin(settings.pulsar)) as admin:
        for lane in (*tailed, *backlogged):
            admin.create_lane(lane)
        for lane in backlogged:
            _fill(client, lane, backlog.of_lane)
            admin.create_subscription(lane, bare.NAME)
            if backlog.mb_s:
                namespace = "/".join(lane.split("/")[2:4])
                admin.set_policy(namespace, "subscriptionDispatchRate", _rate(backlog.mb_s))
        yield TestBed(settings, admin, bookies_of(settings), backlogged, backlog), tailed


def _rate(mb_s: int) -> dict[str, int]:
    """Return the dispatch rate of one subscription, as Pulsar's REST interface takes it."""
    return {
        "dispatchThrottlingRateInMsg": -1,
        "dispatchThrottlingRateInByte": mb_s * 1_000_000,
        "ratePeriodInSecond": 1,
    }


def _fill(client: Any, lane: str, envelopes: int) -> None:
    with closing(LaneProducer(client, lane)) as producer:
        errors: list[Exception | None] = []
        bodies = [os.urandom(ENVELOPE_BYTES) for _ in range(PIECE)]
        for start in range(0, envelopes, PIECE):
            producer.send(bodies[: envelopes - start], errors.append)
        producer.flush(120)
    if any(errors):
        raise FairlaneError(f"The backlog could not be published: {next(filter(None, errors))}")


def _quiet(seconds: float) -> Span:
    began_s = time.time()
    time.sleep(seconds)
    return began_s, time.time()


def run(settings: Settings, backlog: Backlog, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: quiet, the backlog read from memory, and from disk, and quiet again."""
    bookies_of(settings)
    own = isolated(settings, f"bench-{secrets.token_hex(3)}")
    with provisioned(own), closing(connect(own.pulsar)) as client, scene_of(own, backlog, client) as (scene, tailed):
        say(f"{backlog.envelopes:,} envelopes of {ENVELOPE_BYTES:,} bytes are stored")
        with tailing.running(client, tailed) as tail:
            time.sleep(WARM_S)
            quiet = [_quiet(QUIET_S)]
            warm, cold = scene.read(cold=False), scene.read(cold=True)
            time.sleep(REST_S)
            quiet.append(_quiet(QUIET_S))
            time.sleep(1.0)  # the last messages come
            return figures(tail.waits(), quiet, warm, cold)


def figures(waits: Waits, quiet: Sequence[Span], warm: Reading, cold: Reading) -> dict[str, float]:
    """Return p50 and p99 of the tailing lanes by phase, the ratios, and how fast the backlog was read."""
    still, read, caught = waits.between(*quiet), waits.between(*warm.spans), waits.between(*cold.spans)
    found = {
        f"{name}_{quantile}_ms": 1000 * times[int(part * (len(times) - 1))]
        for name, times in (("quiet", still), ("warm", read), ("cold", caught))
        for quantile, part in (("p50", 0.5), ("p99", 0.99))
    }
    return found | {
        "cold_p99_to_quiet": found["cold_p99_ms"] / found["quiet_p99_ms"],
        "warm_p99_to_quiet": found["warm_p99_ms"] / found["quiet_p99_ms"],
        "warm_read_mb_s": warm.mb_s,
        "cold_read_mb_s": cold.mb_s,
        "cold_from_disk_mb": cold.disk_mb,
        "warm_from_disk_mb": warm.disk_mb,
    }
