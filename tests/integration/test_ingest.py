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

import pulsar
import pytest

from dispatcher.model.errors import AudienceMismatch, InvalidInput, NotFound, Refused
from dispatcher.wire.topics import Topics
from fairlane.settings import Settings
from producers.client import PushClient
from spark_jobs.ingest.audience import TableSource
from spark_jobs.ingest.job import Counts, Ingested, IngestOptions, ingest
from spark_jobs.session.servers import values_of
from spark_jobs.source.task_options import parse_options
from tests.integration.pulsar_helpers import Tenant, stored_in
from tests.integration.worker_crew import crew, devices, environment, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1_000
TASK = {"id": "sale", "app": "shop", "tier": "high", "message": "Sale!", "channel": "log", "variables": "name"}
DELIVERED_S = 60.0

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
    chosen = options(fresh_settings, audience, tmp_path / "tables", suppress=(TableSource(str(optout)),))
    done = run(spark, chosen)
    # device-7 and device-8 are there twice
    assert done.counts == Counts(rows=ROWS + 25, accepted=ROWS - 2, duplicates=18, suppressed=4, refused=5)
    rejects = spark.read.parquet(done.rejects)
    assert rejects.columns == ["target", "name", "reason"]
    assert Counter(row.reason for row in rejects.collect()) == Counter(done.reasons)
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
    assert spark.read.parquet(str(tables / "rejects/task=sale")).count() == 100
    assert not api.task("sale").progress().sealed
    done = run(spark, options(fresh_settings, store(spark, tmp_path / "people"), tables))
    assert (done.counts.accepted, done.rejects) == (ROWS, "")
    assert not (tables / "rejects/task=sale").exists()
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
    with pytest.raises(AudienceMismatch, match="1,000 targets then, 999 now"):
        run(
            spark,
            options(fresh_settings, audience, tmp_path / "tables", suppress=(TableSource(str(optout)),)),
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


@pytest.mark.timeout(300)
def test_a_driver_killed_in_mid_run_has_sent_nothing_and_the_next_run_completes_the_task(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tenant: Tenant, tmp_path: Path
) -> None:
    rows = 30_000
    spark.range(0, rows, 1, 4).selectExpr("concat('device-', id) target").write.parquet(str(tmp_path / "people"))
    task = tmp_path / "sale.yaml"
    task.write_text("{id: sale, app: shop, tier: high, channel: log, message: Hi, chunk: 10}")
    command = [
        sys.executable, "-m", "fairlane", "ingest", str(task), "--audience", str(tmp_path / "people"), "-o", "json",
        "--master", "local[1]", "--tables", str(tmp_path / "tables"),
        "--conf", "spark.sql.shuffle.partitions=20", "--conf", "spark.sql.adaptive.enabled=false",
    ]  # fmt: skip
    env = {**environment(fresh_settings), "PYTHONPATH": os.getcwd()}  # noqa: PTH109
    refused = subprocess.run([*command, "--strict"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, "Nothing was submitted: no worker is running" in refused.stderr) == (5, True)
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, start_new_session=True) as killed:
        eventually(
            lambda: in_lane(tenant.client, tenant.names) > 2 or killed.poll() is not None, 90, "envelopes in the lane"
        )
        os.killpg(killed.pid, signal.SIGKILL)
    assert not api.task("sale").progress().sealed
    before = in_lane(tenant.client, tenant.names)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning: no worker is running" in done.stderr
    assert json.loads(done.stdout)["accepted"] == rows
    assert in_lane(tenant.client, tenant.names) >= before + rows // 10
    with crew(fresh_settings, tmp_path / "crew", "one") as members:
        members.check_sent_once(api.task("sale"), devices(rows), DELIVERED_S)


def in_lane(client: pulsar.Client, names: Topics) -> int:
    """Return the number of envelopes in the task's lane."""
    with suppress(NotFound):  # no lane yet
        return len(stored_in(client, names.own_lane("sale")))
    return 0
