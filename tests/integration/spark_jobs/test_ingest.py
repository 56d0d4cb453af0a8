"""`fairlane ingest` on the real Pulsar: tables with bad rows, a driver that is killed, runs that are repeated."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from backends.pulsar.admin import PulsarAdmin
from benchmarks.ingest import processes
from benchmarks.spark_cluster import parent_of
from dispatcher.model.errors import AudienceMismatch, InvalidInput, NotFound, Refused, TaskEnded
from dispatcher.wire.topics import Topics
from fairlane.settings import Settings
from producers.client import PushClient
from spark_jobs.ingest.audience import TableSource
from spark_jobs.ingest.job import Counts, Ingested, IngestOptions, dry_run, ingest
from spark_jobs.ingest.left import abandon
from spark_jobs.ingest.suppression import SuppressOptions
from spark_jobs.session.servers import values_of
from spark_jobs.source.task_options import parse_options
from tests.integration.pulsar_helpers import limit_lane
from tests.integration.worker_crew import crew, devices, environment, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1_000
DRIVERS_KILLED, WRITERS_KILLED = 4, 16
TASK = {"id": "sale", "app": "shop", "tier": "high", "message": "Sale!", "channel": "log", "variables": "name"}
DELIVERED_S, STARTED_S = 60.0, 300.0

pytestmark = pytest.mark.slow


def store(spark: "SparkSession", path: Path, bad: int = 0, doubles: int = 0) -> TableSource:
    """Store device-0 to device-999, and this number of bad rows and of duplicates."""
    good = spark.range(0, ROWS, 1, 4).selectExpr("concat('device-', id) target", "concat('name ', id) name")
    more = spark.range(doubles).selectExpr("concat('device-', id) target", "'again' name")
    wrong = spark.range(bad).selectExpr("concat('bad ', id) target", "'bad' name")
    good.union(more).union(wrong).write.mode("overwrite").parquet(str(path))
    return TableSource(str(path))


def options(settings: Settings, audience: TableSource, tables: Path, **given: Any) -> IngestOptions:
    return IngestOptions(task=parse_options({**values_of(settings), **TASK}), audience=audience, tables=tables, **given)


def run(spark: "SparkSession", chosen: IngestOptions) -> Ingested:
    return ingest(spark, chosen, lambda _: None)


def test_a_table_becomes_a_task_without_its_bad_rows_and_doubles(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    optout = tmp_path / "optout.csv"
    optout.write_text("target\ndevice-7\ndevice-8\n")
    audience = store(spark, tmp_path / "people", bad=5, doubles=20)
    chosen = options(
        fresh_settings, audience, tmp_path / "tables", suppress=SuppressOptions(lists=(TableSource(str(optout)),))
    )
    done = run(spark, chosen)
    # device-7 and device-8 are there twice
    assert done.counts == Counts(rows=ROWS + 25, accepted=ROWS - 2, duplicates=18, suppressed=4, refused=5)
    rejects = DeltaTable(done.rejects).to_pyarrow_table()
    assert rejects.column_names == ["target", "name", "reason"]
    assert Counter(rejects["reason"].to_pylist()) == Counter(done.reasons)
    with crew(fresh_settings, tmp_path / "crew", "one") as members:
        view = api.task("sale").wait(DELIVERED_S)
        assert (view.targets.sent, view.targets.total, view.refused) == (ROWS - 2, ROWS - 2, 5)
        assert members.targets("sale") == Counter(devices(7) + devices(ROWS - 9, 9))


def test_with_too_many_bad_rows_nothing_is_sent_and_the_mended_table_completes_the_task(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    tables = tmp_path / "tables"
    with pytest.raises(Refused, match=r"100 of 1,100 rows are invalid, more than 5.0%: nothing is sent"):
        run(spark, options(fresh_settings, store(spark, tmp_path / "people", bad=100), tables))
    assert DeltaTable(tables / "rejects/task=sale").count() == 100
    assert not api.task("sale").progress().sealed
    done = run(spark, options(fresh_settings, store(spark, tmp_path / "people"), tables))
    assert (done.counts.accepted, done.rejects) == (ROWS, "")
    assert DeltaTable(tables / "rejects/task=sale").count() == 0
    with crew(fresh_settings, tmp_path / "crew", "one") as members:
        members.check_sent_once(api.task("sale"), devices(ROWS), DELIVERED_S)


def test_a_task_that_is_there_already_is_compared(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    audience = store(spark, tmp_path / "people", bad=5)
    first = run(spark, options(fresh_settings, audience, tmp_path / "tables"))
    assert run(spark, options(fresh_settings, audience, tmp_path / "tables")) == first
    optout = tmp_path / "optout.csv"
    optout.write_text("target\ndevice-7\n")
    with pytest.raises(AudienceMismatch, match=r"1,000 targets then, 999 now.* suppressed or died since"):
        run(
            spark,
            options(
                fresh_settings,
                audience,
                tmp_path / "tables",
                suppress=SuppressOptions(lists=(TableSource(str(optout)),)),
            ),
        )
    assert api.task("sale").progress().targets.total == ROWS


def test_a_table_without_rows_makes_no_task(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    spark.createDataFrame([], "target string, name string").write.parquet(str(empty))
    with pytest.raises(InvalidInput, match="no rows"):
        run(spark, options(fresh_settings, TableSource(str(empty)), tmp_path / "tables"))
    assert api.tasks() == []


def split_by_tier(spark: "SparkSession", settings: Settings, folder: Path, bad: int, **given: Any) -> IngestOptions:
    """Store 200 rows in each of two tiers and bad ones in a third that does not exist."""
    tiers = "case when id < 200 then 'high' when id < 400 then 'low' else 'urgent' end"
    table = spark.range(400 + bad).selectExpr("concat('device-', id) target", f"{tiers} tier")
    table.write.mode("overwrite").parquet(str(folder / "people"))
    task = parse_options({**values_of(settings), **TASK, "tier": "", "split": "tier", "variables": ""})
    return IngestOptions(task=task, audience=TableSource(str(folder / "people")), tables=folder / "tables", **given)


def test_bad_split_values_are_refused_and_a_failed_run_names_what_it_left(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    assert abandon(split_by_tier(spark, fresh_settings, tmp_path, bad=0).task) == []
    chosen = split_by_tier(spark, fresh_settings, tmp_path, bad=100)
    with pytest.raises(
        Refused, match=r"100 of 500 rows .*tasks sale\.high, sale\.low: .*`fairlane ingest .*--abandon`"
    ):
        run(spark, chosen)
    assert dry_run(spark, chosen).counts == Counts(rows=500, accepted=400, duplicates=0, suppressed=0, refused=100)
    assert abandon(chosen.task) == ["sale.high", "sale.low"]
    assert [api.task(name).progress().state for name in ("sale.high", "sale.low")] == ["cancelled", "cancelled"]
    with pytest.raises(TaskEnded):
        run(spark, split_by_tier(spark, fresh_settings, tmp_path, bad=1))


def test_few_bad_split_values_are_left_out(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    done = run(spark, split_by_tier(spark, fresh_settings, tmp_path, bad=4))
    assert (done.tasks, done.counts.accepted, done.counts.refused) == (("sale.high", "sale.low"), 400, 4)
    rejects = DeltaTable(done.rejects).to_pyarrow_table().to_pylist()
    assert {(row["tier"], row["reason"].partition(":")[0]) for row in rejects} == {("urgent", "the row makes no task")}
    assert abandon(split_by_tier(spark, fresh_settings, tmp_path, bad=4).task) == []
    assert [task.state for task in api.tasks()] == ["running", "running"]


def test_targets_are_compared_in_their_canonical_form(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    tokens = ["AB" * 32, "ab" * 32, "cd" * 32, "EF" * 32]
    (tmp_path / "optout.csv").write_text(f"target\n{'ef' * 32}\n")
    optout = SuppressOptions(lists=(TableSource(str(tmp_path / "optout.csv")),))
    spark.createDataFrame([(token,) for token in tokens], "target string").write.parquet(str(tmp_path / "people"))
    people, tables = TableSource(str(tmp_path / "people")), tmp_path / "tables"
    task = parse_options({**values_of(fresh_settings), **TASK, "channel": "apns", "variables": ""})
    chosen = IngestOptions(task=task, audience=people, tables=tables, suppress=optout)
    for _ in range(2):  # completed, then compared
        assert run(spark, chosen).counts == Counts(rows=4, accepted=2, duplicates=1, suppressed=1, refused=0)
    assert api.task("sale").progress().targets.total == 2


def test_columns_of_any_name_are_ingested(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    columns = "`to.``ken` string, `na.me` string, `ti.er` string"
    rows = [(f"device-{number}", "Ann", "x.y") for number in range(20)] + [("bad one", "Ann", "x.y")]
    spark.createDataFrame(rows, columns).write.parquet(str(tmp_path / "people"))
    fields = {"target": "to.`ken", "variables": "na.me", "split": "ti.er"}
    task = parse_options({**values_of(fresh_settings), **TASK, **fields})
    done = run(
        spark, IngestOptions(task=task, audience=TableSource(str(tmp_path / "people")), tables=tmp_path / "tables")
    )
    assert (done.counts.accepted, done.counts.refused) == (20, 1)
    assert DeltaTable(done.rejects).to_pyarrow_table().column_names == ["to.`ken", "ti.er", "na.me", "reason"]


@pytest.mark.timeout(900)
def test_a_driver_killed_in_mid_run_has_sent_nothing_and_a_run_whose_writers_are_killed_completes_the_task(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, admin: PulsarAdmin, names: Topics, tmp_path: Path
) -> None:
    rows = 30_000
    spark.range(0, rows, 1, 4).selectExpr("concat('device-', id) target").write.parquet(str(tmp_path / "people"))
    task = tmp_path / "sale.yaml"
    task.write_text("{id: sale, app: shop, tier: high, channel: log, message: Hi, chunk: 10}")
    command = [
        sys.executable, "-m", "fairlane", "ingest", str(task), "--audience", str(tmp_path / "people"), "-o", "json",
        "--master", "local[2,99]", "--tables", str(tmp_path / "tables"),
        "--conf", "spark.sql.shuffle.partitions=20", "--conf", "spark.sql.adaptive.enabled=false",
    ]  # fmt: skip
    env = {**environment(fresh_settings), "PYTHONPATH": os.getcwd()}  # noqa: PTH109
    refused = subprocess.run([*command, "--strict"], env=env, capture_output=True, text=True, timeout=99, check=False)
    assert (refused.returncode, "Nothing was submitted: no worker is running" in refused.stderr) == (5, True)
    lane = names.own_lane("sale")
    limit_lane(admin, lane, 100)  # else a run would end within seconds
    for _ in range(DRIVERS_KILLED):
        with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, start_new_session=True) as killed:
            await_more(admin, lane, killed)
            os.killpg(killed.pid, signal.SIGKILL)
        assert not api.task("sale").progress().sealed
    before = in_lane(admin, lane)
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True
    ) as run:
        for _ in range(WRITERS_KILLED):
            await_more(admin, lane, run)
            eventually(lambda: writers(run.pid) or run.poll() is not None, STARTED_S, "a writer")
            os.kill(writers(run.pid)[0], signal.SIGKILL)
        limit_lane(admin, lane, -1)
        out, err = run.communicate(timeout=STARTED_S)
    assert run.returncode == 0, err
    assert "Warning: no worker is running" in err
    assert json.loads(out)["accepted"] == rows
    assert in_lane(admin, lane) > before + rows // 10
    with crew(fresh_settings, tmp_path / "crew", "one") as members:
        members.check_sent_once(api.task("sale"), devices(rows), DELIVERED_S)


def in_lane(admin: PulsarAdmin, lane: str) -> int:
    """Return the number of envelopes that came into a lane."""
    with suppress(NotFound):  # no lane yet
        return int(admin.stats(lane)["msgInCounter"])
    return 0


def await_more(admin: PulsarAdmin, lane: str, run: "subprocess.Popen[Any]") -> None:
    """Wait until a run has brought more envelopes into the lane."""
    enough = in_lane(admin, lane) + 20
    eventually(lambda: in_lane(admin, lane) >= enough or run.poll() is not None, STARTED_S, "envelopes in the lane")
    assert run.poll() is None


def writers(session: int) -> list[int]:
    """Return the processes in which the attempts of a run write. session: the id of the run's process."""
    daemons = {pid for pid, command in processes() if "python_daemon pyspark.worker" in command}
    with suppress(ProcessLookupError):
        return [pid for pid in daemons if parent_of(pid) in daemons and os.getsid(pid) == session]
    return []
