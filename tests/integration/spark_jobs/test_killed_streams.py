"""A stream from outcomes to a new audience, whose driver is killed at each step of its source and of its sink."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from backends.pulsar import client as pulsar_client
from backends.pulsar.record_topics import OutcomeTopic
from fairlane.settings import Settings
from producers.client import PushClient
from spark_jobs.journal.outcome_topics import connected
from tests.integration.worker_crew import crew, environment
from tests.s3_server import connector, s3_server
from tests.unit.spark_jobs.journal_world import named_targets, outcomes, ran

pytest.importorskip("pyspark")
pytest.importorskip("moto")

STEPS = ("latestOffset", "partitions", "read", "write", "written", "commit", "committed")
RECORDS, AT_ONCE, NAMED = 10 * len(STEPS), 3, 2
RUN_S, DELIVERED_S = 400.0, 60.0
DRIVER = f"""
import os
import signal
import sys

from fairlane import Settings
from spark_jobs import SessionSettings, make_session
from spark_jobs.journal.outcomes_source import OutcomesSource, StreamReader
from spark_jobs.session.servers import values_of
from spark_jobs.source.source import FairlaneSource, StreamWriter

STEP, LOCATION, PACKAGES, GROUP = *sys.argv[1:], os.getpgid(0)


def die_at(step):
    if step == STEP:
        os.killpg(GROUP, signal.SIGKILL)  # with Java and all of its Python workers, as a machine does


class Reader(StreamReader):
    def latestOffset(self, start, limit):
        end = super().latestOffset(start, limit)
        die_at("latestOffset")
        return end

    def partitions(self, start, end):
        die_at("partitions")
        return super().partitions(start, end)

    def read(self, partition):
        for batch in super().read(partition):
            yield batch
            die_at("read")


class Writer(StreamWriter):
    def write(self, iterator):
        die_at("write")
        message = super().write(iterator)
        die_at("written")
        return message

    def commit(self, messages, batchId):
        die_at("commit")
        super().commit(messages, batchId)
        die_at("committed")


settings = Settings()
values = values_of(settings)
given = dict(servers=settings, storage=settings.storage, conf={{"spark.jars.packages": PACKAGES}})
spark = make_session(SessionSettings(app_name="stream", master="local[2]", driver_memory="512m", **given))


class Source(OutcomesSource):
    servers = values

    def streamReader(self, schema):
        return Reader(self._options())


class Sink(FairlaneSource):
    servers = values

    def streamWriter(self, schema, overwrite):
        return Writer(super().streamWriter(schema, overwrite)._target)


spark.dataSource.register(Source)
spark.dataSource.register(Sink)
stream = spark.readStream.format("fairlane-outcomes").option("maxRecordsPerBatch", "{AT_ONCE}").load()
task = dict(id="again", app="shop", tier="high", channel="log", message="Hello again")
stream.select("target").writeStream.format("fairlane").options(**task, checkpointLocation=LOCATION).trigger(
    availableNow=True
).start().awaitTermination()
spark.stop()
"""


class Checkpoint(NamedTuple):
    """Where Spark keeps the progress of the stream, the packages it needs for that, and the variables with the keys."""

    location: str
    packages: str
    variables: dict[str, str]


@pytest.fixture(params=["folder", "bucket"])
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkpoint]:
    if request.param == "folder":
        yield Checkpoint(str(tmp_path / "checkpoint"), "", {})
        return
    with s3_server() as store:
        store.make_bucket("pushes")
        yield Checkpoint("s3a://pushes/checkpoint", connector(), store.variables)


def record_outcomes(settings: Settings) -> list[str]:
    """Store records that name targets. Returns the targets."""
    topics, targets = pulsar_client.topics(settings.pulsar), list[str]()
    with connected(settings.pulsar) as client, closing(OutcomeTopic(client, topics)) as log:
        for number in range(RECORDS):
            named = [f"device-{number}-{index}" for index in range(NAMED)]
            parts = ran(first=number, size=NAMED), named_targets(sequence=number, targets=named)
            log.append(number % topics.outcome_partitions, outcomes(*parts, task="sale"))
            targets += named
    return targets


def run(settings: Settings, folder: Path, checkpoint: Checkpoint, step: str) -> int:
    """Run the stream until it dies at a step, or has read all records. Returns its exit code."""
    command = [sys.executable, str(folder / "driver.py"), step, checkpoint.location, checkpoint.packages]
    env = environment(settings) | checkpoint.variables
    with subprocess.Popen(command, env=env, start_new_session=True, cwd=folder) as driver:
        try:
            return driver.wait(RUN_S)
        finally:
            driver.kill()


@pytest.mark.timeout(1_800)
def test_stream_whose_driver_is_killed_at_each_step_sends_each_row_once(
    checkpoint: Checkpoint, fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    targets = record_outcomes(fresh_settings)
    (tmp_path / "driver.py").write_text(DRIVER)
    codes = {step: run(fresh_settings, tmp_path, checkpoint, step) for step in (*STEPS, "none")}
    assert codes == dict.fromkeys(STEPS, -signal.SIGKILL) | {"none": 0}
    with crew(fresh_settings, tmp_path / "crew", "one") as members:
        tasks = [task.id for task in api.tasks(id_prefix="again-")]
        assert all(api.task(task).wait(DELIVERED_S).state == "completed" for task in tasks)
        assert sum(map(members.targets, tasks), Counter()) == Counter(targets)
