"""An ingestion whose executors and driver are killed while it runs, on a private Spark cluster.

The channel counts missing and doubled targets.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import urllib3

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import topics
from benchmarks.counting import DIGITS, compare
from benchmarks.ingest import BAD, DOUBLES, make_table
from benchmarks.spark_cluster import SparkCluster, spark_cluster
from benchmarks.stage import Stage, stage, wait_for
from dispatcher.model.errors import FairlaneError, NotFound
from fairlane.settings import Settings

TASK, CHUNK = "ingested", 500
TARGET = f"concat(substr(sha2(cast({{number}} as string), 256), 1, {60 - DIGITS}), lpad({{number}}, {DIGITS}, '0'))"
DRIVER_DIES_AT = 0.3
"""Part of all envelopes that is stored when a driver is killed."""
LONGEST_S = 3_600.0
_DROPPED = re.compile(r'^fairlane_envelopes_total\{event="dropped"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True)
class Kills:
    """The size of the table, and the number of kills."""

    rows: int
    memory: str
    executors: int
    """Number of executors killed one after the other in the run that completes the task."""
    drivers: int
    """Number of earlier runs that are ended by killing their driver."""

    @property
    def envelopes(self) -> int:
        """Return the approximate number of envelopes for all rows."""
        return self.rows // CHUNK


def expected(rows: int) -> bytes:
    """Return, by number, 1 if that target is to be sent, else 0.

    Rows that benchmarks.ingest.make_table makes doubles or bad are not sent.
    """
    return bytes(number % DOUBLES != DOUBLES - 1 and number % BAD != 1 for number in range(rows))


def run(settings: Settings, kills: Kills, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run. Raises FairlaneError if an ingestion fails, or ends before everything that should die was killed."""
    with stage(settings, say) as scene:
        audience = _table(scene, kills)
        say(f"a table of {kills.rows:,} rows is made")
        with spark_cluster(scene.folder / "cluster", kills.memory) as cluster:
            scenario = _Scenario(scene, cluster, kills, audience)
            began_s = time.monotonic()
            for _ in range(kills.drivers):
                scenario.lose_driver()
            scenario.lose_executors()
            ingest_s = time.monotonic() - began_s
        stored = scenario.stored()
        dropped = _deliver(scene, kills)
        counted = compare(scene.folder, expected(kills.rows))
        view = scene.client.task(TASK).progress()
    return {
        **asdict(counted),
        "sent": view.targets.sent,
        "stored_envelopes": stored,
        "refused_at_claim_envelopes": dropped,
        "ingest_s": ingest_s,
    }


class _Scenario:
    def __init__(self, scene: Stage, cluster: SparkCluster, kills: Kills, audience: str) -> None:
        self._scene = scene
        self._cluster = cluster
        self._kills = kills
        self._say = scene.say
        file = scene.folder / "task.yaml"
        fields = {"id": TASK, "app": "bench", "tier": "high", "channel": "count", "message": "Hi {name}"}
        file.write_text(json.dumps({**fields, "chunk": CHUNK, "expected_targets": 1_000_000}))
        self._command = [
            sys.executable, "-m", "fairlane", "ingest", str(file), "--audience", audience, "--master", cluster.url,
            "--memory", kills.memory, "--tables", str(scene.folder / "tables"), "-o", "json",
        ]  # fmt: skip

    def lose_driver(self) -> None:
        """Do a run that is killed with its driver."""
        with self._ingest() as process:
            self._await(process, self.stored() + int(self._kills.envelopes * DRIVER_DIES_AT))
            os.killpg(process.pid, signal.SIGKILL)
        self._say("the driver was killed")

    def lose_executors(self) -> None:
        """Do a run that completes, with executors killed until half of it is stored."""
        step = max(self._kills.envelopes // (2 * self._kills.executors + 2), 1)
        with self._ingest() as process:
            for number in range(self._kills.executors):
                self._await(process, self.stored() + step)
                wait_for("an executor", lambda: bool(self._cluster.executors()), LONGEST_S)
                os.kill(min(self._cluster.executors()), signal.SIGKILL)
                self._say(f"executor {number + 1} of {self._kills.executors} was killed")
            if process.wait(LONGEST_S):
                raise FairlaneError(f"The ingestion failed: {self._log.read_text()[-1000:]}")

    def stored(self) -> int:
        """Return the number of envelopes in the lane so far, from all writers."""
        settings = self._scene.settings.pulsar
        with closing(PulsarAdmin(settings)) as admin:
            try:
                return int(admin.stats(topics(settings).own_lane(TASK))["msgInCounter"])
            except NotFound:
                return 0

    @property
    def _log(self) -> Path:
        return self._scene.folder / "ingest.log"

    @contextmanager
    def _ingest(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Start the command, with its JVM in one process group that ends with the block."""
        env = self._scene.crew.environment
        with self._log.open("wb") as log:
            process = subprocess.Popen(self._command, env=env, stdout=log, stderr=log, start_new_session=True)
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _await(self, process: "subprocess.Popen[bytes]", envelopes: int) -> None:
        wait_for("envelopes", lambda: self.stored() >= envelopes or process.poll() is not None, LONGEST_S)
        if process.poll() is not None:
            last_output = self._log.read_text()[-1000:]
            raise FairlaneError(f"The ingestion ended before all was killed: {last_output}", "Take more rows.")


def _table(scene: Stage, kills: Kills) -> str:
    from spark_jobs.session.session import SessionSettings, make_session

    spark = make_session(SessionSettings(app_name="fairlane bench ingest", driver_memory=kills.memory))
    try:
        return make_table(spark, kills.rows, scene.folder / "audience", TARGET)
    finally:
        spark.stop()


def _deliver(scene: Stage, kills: Kills) -> int:
    """Send everything with two workers; return how many envelopes they received whose writer does not count."""
    channel = {"folder": str(scene.folder), "targets": kills.rows}
    scene.crew.environment |= {
        "FAIRLANE_WORKER_CHANNELS": json.dumps({"count": "benchmarks.counting:CountingChannel"}),
        "FAIRLANE_CHANNELS": json.dumps({"count": channel}),
    }
    scene.start_workers(2)
    scene.client.task(TASK).wait(LONGEST_S)
    return sum(_dropped(worker.metrics_port) for worker in scene.serving())


def _dropped(port: int) -> int:
    text = urllib3.request("GET", f"http://127.0.0.1:{port}/metrics", timeout=10.0).data.decode()
    return int(sum(map(float, _DROPPED.findall(text))))
