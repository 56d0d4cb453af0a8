"""A task is only appended to: other modes are refused in one line that names this one, before Spark runs a job."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatcher.model.errors import FairlaneError
from spark_jobs.session.failures import translated
from spark_jobs.source.source import StreamWriter
from tests.unit.spark_jobs.tables import TASK, target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOWHERE = {
    "pulsar.url": "pulsar://127.0.0.1:1",
    "pulsar.admin_url": "http://127.0.0.1:1",
    "redis.url": "redis://127.0.0.1:1/0",
}


def jobs_of(spark: "SparkSession") -> int:
    context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001  # pyspark has no public API for it
    return int(context.dagScheduler().numTotalJobs())


@pytest.mark.parametrize("mode", ["", "error", "ignore", "overwrite"])
def test_batch_in_another_mode_is_refused(spark: "SparkSession", mode: str) -> None:
    table = spark.createDataFrame([("a",)], ["target"])
    writer = table.write.format("fairlane").options(**TASK, **NOWHERE)
    before = jobs_of(spark)
    with pytest.raises(FairlaneError, match=r"^[^\n]+`\.mode\(\"append\"\)`[^\n]+$"), translated():
        (writer.mode(mode) if mode else writer).save()
    assert jobs_of(spark) == before


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_stream_in_another_mode_is_refused(spark: "SparkSession", mode: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"target": "a"}\n')
    table = spark.readStream.schema("target string").json(str(tmp_path / "in")).groupBy("target").count()
    writer = table.select("target").writeStream.format("fairlane").outputMode(mode).options(**TASK, **NOWHERE)
    before = jobs_of(spark)
    with pytest.raises(FairlaneError, match=r"^[^\n]+`\.outputMode\(\"append\"\)`[^\n]+$"), translated():
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert jobs_of(spark) == before


def test_stream_of_outcomes_with_a_continuous_trigger_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    outcomes = spark.readStream.format("fairlane-outcomes").options(**NOWHERE).load().select("target")
    writer = outcomes.writeStream.format("fairlane").options(**TASK, **NOWHERE).trigger(continuous="1 second")
    before = jobs_of(spark)
    with pytest.raises(FairlaneError, match=r"^[^\n]+`\.trigger\(availableNow=True\)`\.$"), translated():
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert jobs_of(spark) == before


def test_epoch_of_a_continuous_trigger_is_not_committed() -> None:
    with pytest.raises(FairlaneError, match=r"`\.trigger\(availableNow=True\)`\.$"):
        StreamWriter(target()).commit([None], 0)


def test_reading_names_the_format_to_read(spark: "SparkSession") -> None:
    with pytest.raises(FairlaneError, match=r'spark\.read\.format\("fairlane-outcomes"\)'), translated():
        spark.read.format("fairlane").load()
