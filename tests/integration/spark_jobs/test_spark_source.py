"""Tables written to the real Pulsar by a real Spark, and delivered by a real worker."""

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from dispatcher.model.errors import AudienceMismatch, InvalidInput, NotFound
from dispatcher.wire.topics import Topics
from fairlane.settings import Settings
from producers.client import PushClient
from spark_jobs.session.failures import failure_of, translated
from spark_jobs.session.servers import values_of
from tests.integration.pulsar_helpers import Tenant, envelopes_in
from tests.integration.worker_crew import crew, devices, let_commands_use
from tests.spark_document import examples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK = {"app": "shop", "tier": "high", "message": "Sale!", "channel": "log", "chunk": "10"}
ROWS = 1_000
FATAL_ROW = 700
DELIVERED_S = 60.0

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_batches(request: pytest.FixtureRequest) -> Iterator[None]:
    """So that an attempt publishes in many steps."""
    spark, name = request.getfixturevalue("spark"), "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "100")
    yield
    spark.conf.set(name, before)


def people(spark: "SparkSession", count: int = ROWS) -> "DataFrame":
    return spark.range(0, count, 1, 4).selectExpr("concat('device-', id) target", "concat('name ', id) name", "id")


def save(table: "DataFrame", settings: Settings, **options: str) -> None:
    with translated():
        table.write.format("fairlane").mode("append").options(**values_of(settings), **{**TASK, **options}).save()


def fragile(failed: Path, once: bool, published: Path | None = None) -> Any:
    """A function of SQL that fails at one row. published: it waits for this file to be there first."""
    from pyspark.sql.functions import udf

    def check(number):  # type: ignore[no-untyped-def]  # hints would make it a function of pandas
        if number == FATAL_ROW and (not once or not failed.exists()):
            until_s = time.monotonic() + DELIVERED_S
            while published is not None and not published.exists() and time.monotonic() < until_s:
                time.sleep(0.05)
            failed.touch()
            raise ValueError("this row cannot be read")
        return f"device-{number}"

    return udf(check)


@contextmanager
def touched_when_published(file: Path, look: Callable[[], object]) -> Iterator[None]:
    """Makes the file once there is something to be seen."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            if look():
                file.touch()
                return

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            yield
        finally:
            over.set()
            watching.result()


def test_a_table_is_delivered_to_its_last_target(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    save(people(spark), fresh_settings, id="sale", variables="name", ttl_s="1h", weight="2")
    with crew(fresh_settings, tmp_path / "crew", "one") as members:
        members.check_sent_once(api.task("sale"), devices(ROWS), DELIVERED_S)
        assert api.task("sale").progress().weight == 2.0


def test_a_table_written_again_sends_nothing(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, client: pulsar.Client, names: Topics
) -> None:
    save(people(spark), fresh_settings, id="sale", variables="name")
    before = len(envelopes_in(client, names.own_lane("sale")))
    save(people(spark).repartition(3), fresh_settings, id="sale", variables="name")
    assert len(envelopes_in(client, names.own_lane("sale"))) == before
    with pytest.raises(AudienceMismatch, match="1,000 targets then, 999 now"):
        save(people(spark, ROWS - 1), fresh_settings, id="sale", variables="name")
    with pytest.raises(AudienceMismatch, match="another message"):
        save(people(spark), fresh_settings, id="sale", variables="name", message="Other")
    assert api.task("sale").progress().targets.total == ROWS


def test_an_attempt_that_fails_half_way_and_is_tried_again_leaves_no_trace(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tenant: Tenant, tmp_path: Path
) -> None:
    failed, published, lane = tmp_path / "failed", tmp_path / "published", tenant.names.own_lane("sale")
    reading = fragile(failed, once=True, published=published)
    from pyspark.sql.functions import lit, repeat

    # Wide rows, so that Spark hands on those before the bad one while that is being read.
    table = spark.range(0, ROWS, 1, 2).select(reading("id").alias("target"), repeat(lit("x"), 1_500).alias("wide"))

    def look() -> bool:
        with suppress(NotFound):  # no lane yet
            return bool(envelopes_in(tenant.client, lane))
        return False

    with touched_when_published(published, look):
        save(table, fresh_settings, id="sale")
    assert failed.exists()
    stored = envelopes_in(tenant.client, lane)
    assert sum(len(envelope.targets) for envelope in stored) > ROWS
    assert len({envelope.writer for envelope in stored}) == 3
    with crew(fresh_settings, tmp_path / "crew", "one") as members:
        members.check_sent_once(api.task("sale"), devices(ROWS), DELIVERED_S)


def test_a_job_that_fails_sends_nothing_and_the_next_completes_it(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    with crew(fresh_settings, tmp_path / "crew", "one") as members:
        failing = people(spark).select(fragile(tmp_path / "failed", once=False)("id").alias("target"))
        with pytest.raises(Exception, match="this row cannot be read"):
            save(failing, fresh_settings, id="sale")
        held = api.task("sale").progress()
        assert (held.sealed, held.hold_until_sealed) == (False, True)
        save(people(spark), fresh_settings, id="other")
        api.task("other").wait(DELIVERED_S)  # by then the worker has received envelopes of the first task's lane
        assert (members.targets("sale"), api.task("sale").progress().targets.sent) == (Counter(), 0)
        save(people(spark).select("target"), fresh_settings, id="sale")
        members.check_sent_once(api.task("sale"), devices(ROWS), DELIVERED_S)


def test_split_columns_make_tasks_of_their_own(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    table = people(spark).selectExpr(
        "target", "name", "if(id % 2 = 0, 'shop', 'bank') app", "if(id % 3 = 0, 'de', 'en') language"
    )
    split = {"app": "", "split": "app,language", "message.de": "Angebot!"}
    save(table, fresh_settings, id="sale", **split)
    with crew(fresh_settings, tmp_path / "crew", "one") as members:
        tasks = {task.id: api.task(task.id).wait(DELIVERED_S) for task in api.tasks(id_prefix="sale.")}
        assert {name: (task.app, task.targets.sent) for name, task in tasks.items()} == {
            "sale.shop.de": ("shop", 167), "sale.shop.en": ("shop", 333),
            "sale.bank.de": ("bank", 167), "sale.bank.en": ("bank", 333),
        }  # fmt: skip
        assert sum((members.targets(name) for name in tasks), Counter()) == Counter(devices(ROWS))


def test_a_stream_makes_a_task_of_each_batch_and_goes_on_where_it_was(
    spark: "SparkSession", fresh_settings: Settings, api: PushClient, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()

    def arrive(number: int) -> None:
        lines = "".join(f"device-{row}\n" for row in range(number * 100, number * 100 + 100))
        file = source / f"{number}.txt"
        file.write_text(lines)
        os.utime(file, (1_000_000 + number,) * 2)  # they are read in this order

    def run() -> None:
        """Until all that is there is written."""
        arrived = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
        query = (
            arrived.selectExpr("value as target")
            .writeStream.format("fairlane")
            .queryName("alerts")
            .options(**values_of(fresh_settings), **TASK, checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(DELIVERED_S)

    arrive(0)
    arrive(1)
    run()
    for log in ("commits/1", "commits/.1.crc"):  # as if the driver had died right after the sink's commit
        (checkpoint / log).unlink(missing_ok=True)
    arrive(2)
    run()
    with crew(fresh_settings, tmp_path / "crew", "one") as members:
        tasks = sorted(task.id for task in api.tasks(id_prefix="alerts-"))
        assert tasks == ["alerts-0", "alerts-1", "alerts-2"]
        for number, task in enumerate(tasks):
            members.check_sent_once(api.task(task), devices(100, number * 100), DELIVERED_S)
    shutil.rmtree(checkpoint)


def test_the_examples_of_the_document_work(
    spark: "SparkSession",
    fresh_settings: Settings,
    api: PushClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_commands_use(fresh_settings, monkeypatch)
    (tmp_path / "arriving").mkdir()
    (tmp_path / "arriving" / "1.json").write_text('{"target": "token-3", "name": "Cem"}\n')
    made: dict[str, Any] = {}
    for example in examples():
        for folder in ("arriving", "checkpoint"):  # Java's working directory is where the tests began
            example = example.replace(f'"{folder}"', repr(str(tmp_path / folder)))
        exec(example, made)
    made["query"].processAllAvailable()
    made["query"].stop()
    assert made["spark"].sparkContext is spark.sparkContext
    assert {task.id: (task.sealed, task.targets.total) for task in api.tasks()} == {
        "sale": (True, 2), "alerts-0": (True, 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "token"}, "The table has no column token; it has target, name, id."),
        ({"cap_bust": "1"}, "There is no option cap_bust. Did you mean cap_burst?"),
        ({"redis.url": "redis://127.0.0.1:1/0"}, "Redis"),
    ],
)
def test_bad_input_is_told_in_one_line(
    spark: "SparkSession", fresh_settings: Settings, options: dict[str, str], message: str
) -> None:
    given = {**values_of(fresh_settings), **TASK, "id": "sale", **options}
    with pytest.raises(Exception) as error:  # noqa: PT011  # Spark's own
        people(spark).write.format("fairlane").mode("append").options(**given).save()
    assert message in str(failure_of(error.value))
    assert "\n" not in str(failure_of(error.value))


def test_a_table_without_rows_makes_no_task(spark: "SparkSession", fresh_settings: Settings, api: PushClient) -> None:
    with pytest.raises(InvalidInput, match="The table has no rows"):
        save(people(spark, 0), fresh_settings, id="sale")
    assert api.tasks(id_prefix="sale") == []
