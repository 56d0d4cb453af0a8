"""The outcome journal on the real servers: what workers recorded lands once, whatever is killed."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatcher.model.task import PushTask
from dispatcher.wire.outcome import Outcomes, decode_record
from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.worker_crew import Crew, crew, environment, eventually

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

from backends.pulsar import client as pulsar_client
from backends.pulsar.record_topics import OutcomeTopic
from spark_jobs.journal.files import CLOSES, OUTCOMES, STATES, journal_table
from spark_jobs.journal.outcome_topics import TopicSpan, connected, last_positions, read_span
from spark_jobs.journal.tables import closes, outcomes, tasks
from spark_jobs.session.servers import values_of
from spark_jobs.session.session import register

pytestmark = pytest.mark.timeout(900)
MESSAGE = {"title": "Hi"}
SIZES = {"one": (3_000, 1), "fifty": (5_000, 50), "five-hundred": (4_000, 500)}
"""The tasks sent first: targets, and targets per envelope."""
IDENTITY = ["task", "writer", "sequence", "position"]
CHANNEL = """
from dispatcher.wire.outcome import RETRY, Outcome, Report, Verdict

INVALID, FAILED = Verdict(int(Outcome.INVALID), "unregistered"), Verdict(int(Outcome.FAILED), "no")

def verdicts(envelope):
    for index, target in enumerate(envelope.targets):
        if target.startswith("dead-"):
            yield index, INVALID
        elif target.startswith("bad-"):
            yield index, FAILED
        elif target.startswith("busy-") and envelope.attempt == 0:
            yield index, Verdict(RETRY, "busy", 1.0)

class Moody:
    concurrency, batch_limit, timeout_s = 4, 10, 5.0

    def __init__(self, settings):
        self.name = settings["name"]

    async def open(self): ...
    async def close(self): ...

    async def deliver(self, envelopes, tier):
        return [Report(exceptions=dict(verdicts(envelope)) or None) for envelope in envelopes]
"""


def kind_of(number: int) -> str:
    return {3: "dead", 5: "bad", 7: "busy"}.get(number % 40, "good")


def audience(name: str, count: int) -> list[str]:
    return [f"{kind_of(number)}-{name}-{number}" for number in range(count)]


@dataclass
class Service:
    """Workers, and tasks that are done: their ids with what the view counts of them."""

    settings: Settings
    crew: Crew
    client: PushClient
    counts: dict[str, dict[str, int]]

    def send(self, name: str, targets: int, chunk: int) -> None:
        task = PushTask(id=name, app=f"app-{chunk}", tier="high", channel="moody", message=MESSAGE, chunk=chunk)
        handle = self.client.submit(task, audience(name, targets))
        eventually(lambda: handle.progress().state == "completed", 60, f"{name} completed")
        reported = handle.progress().targets
        self.counts[name] = {kind: getattr(reported, kind) for kind in ("sent", "invalid", "failed")}


@pytest.fixture(scope="module")
def service(module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("crew")
    (folder / "moody_channel.py").write_text(CHANNEL)
    config = '[worker.channels]\nmoody = "moody_channel:Moody"\n'
    with crew(module_settings, folder, "w1", config=config) as made, PushClient.connect(module_settings) as client:
        found = Service(module_settings, made, client, {})
        for name, (targets, chunk) in SIZES.items():
            found.send(name, targets, chunk)
        yield found


def counted(frame: "DataFrame") -> dict[str, dict[str, int]]:
    """Targets by task and outcome; each is told of once."""
    assert frame.count() == frame.select(IDENTITY).distinct().count()
    found: dict[str, dict[str, int]] = {}
    for row in frame.groupBy("task", "outcome").count().collect():
        found.setdefault(row["task"], {"sent": 0, "invalid": 0, "failed": 0})[row["outcome"]] = row["count"]
    return found


def journal(service: Service, tables: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fairlane", "journal", "run", "--tables", str(tables), "--master", "local[2]"]
    return subprocess.Popen(
        [*command, "-o", "json", *options],
        env=environment(service.settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    summary: dict[str, Any] = json.loads(out)
    return summary


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL, to all that belongs to it."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


# ------------------------------------------------------------------ the source
@pytest.fixture
def source(service: Service, spark: "SparkSession") -> "SparkSession":
    register(spark, values_of(service.settings))
    return spark


def test_the_source_reads_what_became_of_every_target(service: Service, source: "SparkSession") -> None:
    frame = source.read.format("fairlane-outcomes").load().cache()
    assert counted(frame) == service.counts
    everybody = [target for name, (count, _) in SIZES.items() for target in audience(name, count)]
    kinds = Counter(target.partition("-")[0] for target in everybody)
    assert frame.where("attempt = 1 and outcome = 'sent'").count() == kinds["busy"]
    named = {row.target for row in frame.where("outcome = 'invalid'").collect()}
    assert named == {target for target in everybody if target.startswith("dead-")}
    assert frame.where("target is not null").select("reason").distinct().collect()[0].reason == "unregistered"
    assert frame.where("latency_ms < 0 or latency_ms > 600000").count() == 0


def test_a_stream_goes_on_where_it_ended_in_bounded_batches(
    service: Service, source: "SparkSession", tmp_path: Path
) -> None:
    def run() -> list[int]:
        sizes: list[int] = []

        def take(frame: "DataFrame", number: int) -> None:
            frame.write.mode("append").parquet(str(tmp_path / "rows"))
            sizes.append(frame.count())

        stream = source.readStream.format("fairlane-outcomes").option("maxRecordsPerBatch", "5").load()
        query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "c"))
        query.trigger(availableNow=True).start().awaitTermination()
        return sizes

    assert len(run()) > 1
    assert counted(source.read.parquet(str(tmp_path / "rows"))) == service.counts
    assert run() == []
    again(service, "one")  # a copy of a record
    service.send("later", 400, 10)
    assert len(run()) >= 1
    rows = source.read.parquet(str(tmp_path / "rows"))
    assert counted(rows.where("task = 'later'")) == {"later": service.counts["later"]}


def again(service: Service, task: str) -> None:
    """All outcome records of a task are stored once more, as after receipts that were lost."""
    settings = service.settings.pulsar
    topics = pulsar_client.topics(settings)
    partition = topics.partition_of(task)
    span = TopicSpan(partition, "", last_positions(settings)[str(partition)])
    with connected(settings) as client, closing(OutcomeTopic(client, topics)) as log:
        records = [decode_record(one.body) for some in read_span(client, settings, span) for one in some]
        copies = [record for record in records if isinstance(record, Outcomes) and record.task == task]
        assert copies
        for record in copies:
            log.append(partition, record)


# ------------------------------------------------------------------ the journal
def run_until(service: Service, tables: Path, commits: int) -> None:
    """Start a run and kill it at this number of commits."""
    process, state = journal(service, tables, "--once", "--max-records", "10"), journal_table(tables, STATES)
    eventually(lambda: state.read().version >= commits or process.poll() is not None, 200, "a commit")
    kill(process)


def test_a_run_killed_at_any_moment_and_run_again_lands_each_outcome_once(
    service: Service, spark: "SparkSession", tmp_path: Path
) -> None:
    for commits in (1, 3):
        run_until(service, tmp_path, commits)
    again(service, "fifty")
    summary = ended(journal(service, tmp_path, "--once", "--max-records", "50"))
    frame = outcomes(spark, tmp_path).cache()
    assert counted(frame) == service.counts
    assert summary["malformed"] == 0
    assert summary["outcomes"] < frame.count()
    assert {row.app for row in frame.select("app").distinct().collect()} >= {"app-1", "app-50", "app-500"}
    sealed = {row.task: (row.targets, row.writers, row.state) for row in tasks(spark, tmp_path).collect()}
    assert sealed["fifty"] == (5_000, ["0"], "completed")


def test_a_folder_that_cannot_be_written_is_named_before_spark_starts(service: Service, tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("no folder")
    process = journal(service, tmp_path, "--once", "--master", "nowhere")
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 5
    assert "cannot be written: Not a directory" in errors.splitlines()[-1]


def rows_in(tables: Path, name: str = OUTCOMES) -> int:
    return journal_table(tables, name).read().rows


def cancel_unsent(service: Service, name: str) -> None:
    """A task with a lane of its own, cancelled before it began."""
    later = datetime.now(UTC) + timedelta(hours=1)
    task = PushTask(id=name, app="app-10", tier="high", channel="moody", message=MESSAGE, start_at=later)
    service.client.submit(task, audience(name, 300)).cancel()


def test_a_running_journal_lands_what_comes_and_ends_on_sigterm(
    service: Service, spark: "SparkSession", tmp_path: Path
) -> None:
    process = journal(service, tmp_path, "--every", "200ms")
    eventually(lambda: rows_in(tmp_path) or process.poll() is not None, 120, "the first outcomes")
    before = rows_in(tmp_path)
    service.send("live", 500, 10)
    cancel_unsent(service, "gone")
    eventually(lambda: rows_in(tmp_path) >= before + 500 and rows_in(tmp_path, CLOSES), 60, "what came meanwhile")
    process.send_signal(signal.SIGTERM)
    assert ended(process)["outcomes"] >= before + 500
    assert counted(outcomes(spark, tmp_path)) == service.counts
    assert [(row.task, row.outcome) for row in closes(spark, tmp_path).collect()] == [("gone", "cancelled")]
