"""The transformation of an ingestion, on ten rows, by a local Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatcher.model.errors import InvalidInput
from spark_jobs.ingest.audience import TableSource, read_table
from spark_jobs.ingest.job import Counts, IngestOptions, dry_run, suppression, transform
from spark_jobs.ingest.suppression import SuppressOptions
from spark_jobs.source.task_options import parse_options
from tests.unit.spark_jobs.tables import TASK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEN = [
    *((f"device-{number}", f"name {number}", number) for number in range(7)),
    ("device-0", "again", 9),
    (None, "x", 8),
    ("a b", "y", 7),
]


def options(path: Path, task: Mapping[str, str] = {}, **given: Any) -> IngestOptions:
    made = parse_options({**TASK, "variables": "name", **task})
    return IngestOptions(task=made, audience=TableSource(str(path)), tables=path.parent / "tables", **given)


def lists(*paths: Path, **given: Any) -> SuppressOptions:
    return SuppressOptions(lists=tuple(TableSource(str(path)) for path in paths), **given)


def stored(spark: "SparkSession", path: Path, columns: str = "target string, name string, age int") -> Path:
    spark.createDataFrame(TEN, columns).write.parquet(str(path))
    return path


def test_ten_rows_in_ten_rows_out_each_with_its_reason(spark: "SparkSession", tmp_path: Path) -> None:
    chosen = options(stored(spark, tmp_path / "people"))
    out = transform(read_table(spark, chosen.audience), chosen)
    assert out.columns == ["target", "name", "reason"]
    rows = out.collect()
    good = sorted(row.target for row in rows if row.reason is None)
    assert good == sorted(f"device-{number}" for number in range(7))
    assert sorted(str(row.target) for row in rows if row.reason) == ["None", "a b", "device-0"]


def test_columns_go_by_the_names_they_are_mapped_to(spark: "SparkSession", tmp_path: Path) -> None:
    chosen = options(
        stored(spark, tmp_path / "people", "token string, first string, age int"),
        names={"token": "target", "first": "name"},
    )
    out = transform(read_table(spark, chosen.audience), chosen)
    assert {row.target: row.name for row in out.collect() if row.target == "device-3"} == {"device-3": "name 3"}


def test_targets_may_be_called_token_or_address_as_in_a_file_for_submit(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "optout.csv").write_text("token\ndevice-3\n")
    chosen = options(
        stored(spark, tmp_path / "people", "address string, name string, age int"),
        suppress=lists(tmp_path / "optout.csv"),
    )
    with suppression(spark, chosen, {}) as suppressed:
        out = transform(read_table(spark, chosen.audience), chosen, suppressed.targets)
        assert out.columns == ["target", "name", "reason"]
        assert [row.target for row in out.collect() if row.reason == "suppressed"] == ["device-3"]
    own = options(tmp_path / "people", {"target": "address"})
    assert transform(read_table(spark, own.audience), own).columns == ["address", "name", "reason"]


def test_suppressed_targets_of_the_channel_are_left_out(spark: "SparkSession", tmp_path: Path) -> None:
    dead = [("device-1", "log"), ("device-1", "log"), ("device-2", "other"), ("device-4", None)]
    spark.createDataFrame(dead, "target string, channel string").write.parquet(str(tmp_path / "dead"))
    (tmp_path / "optout.csv").write_text("target\ndevice-3\ndevice-3\nunknown\n")
    chosen = options(
        stored(spark, tmp_path / "people"),
        suppress=lists(tmp_path / "optout.csv", tmp_path / "dead"),
    )
    with suppression(spark, chosen, {}) as suppressed:
        out = transform(read_table(spark, chosen.audience), chosen, suppressed.targets).collect()
    assert len(out) == len(TEN)
    assert sorted(row.target for row in out if row.reason == "suppressed") == ["device-1", "device-3", "device-4"]


def test_a_dry_run_of_an_empty_table_says_so(spark: "SparkSession", tmp_path: Path) -> None:
    spark.sql("select 'a' target, 'b' name where false").write.parquet(str(tmp_path / "people"))
    with pytest.raises(InvalidInput, match="The table has no rows"):
        dry_run(spark, options(tmp_path / "people"))


def test_rows_are_left_out_for_a_few_reasons_however_they_differ(spark: "SparkSession", tmp_path: Path) -> None:
    rows = [(f"device-{number}", "x" * (3_000 + number), number) for number in range(9)]
    rows += [("x" * (2_000 + number), "short", number) for number in range(9)]
    spark.createDataFrame(rows, "target string, name string, age int").write.parquet(str(tmp_path / "people"))
    assert dry_run(spark, options(tmp_path / "people")).reasons == {
        "the variables are larger than 2,048 bytes (encoded)": 9,
        "the target is longer than 1,024 characters": 9,
    }


def test_a_dry_run_says_what_would_be_taken(spark: "SparkSession", tmp_path: Path) -> None:
    found = dry_run(spark, options(stored(spark, tmp_path / "people")))
    assert found.counts == Counts(rows=10, accepted=7, duplicates=1, suppressed=0, refused=2)
    assert sum(found.reasons.values()) == 3
    assert not (tmp_path / "tables").exists()


def test_a_dry_run_refuses_what_the_run_would(spark: "SparkSession", tmp_path: Path) -> None:
    rows = [(f"device-{number}", tier) for number in range(8) for tier in ("low", "high")] + [("device-8", "urgent")]
    spark.createDataFrame(rows, "target string, tier string").write.parquet(str(tmp_path / "people"))
    chosen = options(tmp_path / "people", {"tier": "", "split": "tier", "variables": ""})
    found = dry_run(spark, chosen)
    assert found.counts == Counts(rows=17, accepted=8, duplicates=8, suppressed=0, refused=1)
    out = transform(read_table(spark, chosen.audience), chosen).collect()
    assert {row.tier for row in out if row.reason is None} == {"high"}  # of a target's tasks that of the highest tier


def test_columns_may_have_any_letters_in_their_names(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "optout.csv").write_text("to.`ken\ndevice-3\n")
    spark.createDataFrame(TEN, "`to.``ken` string, `na.me` string, `a ``g``.e` int").write.parquet(str(tmp_path / "p"))
    task = {"target": "to.`ken", "variables": "na.me,a `g`.e", "message": "Hi {{na.me}}"}
    chosen = options(tmp_path / "p", task, suppress=lists(tmp_path / "optout.csv"))
    assert dry_run(spark, chosen).counts == Counts(rows=10, accepted=6, duplicates=1, suppressed=1, refused=2)
    by_age = options(tmp_path / "p", {**task, "split": "a `g`.e", "variables": "na.me"})
    assert dry_run(spark, by_age).counts.accepted == 7


@pytest.mark.parametrize(
    ("task", "given", "message"),
    [
        ({"variables": "first"}, {}, "no column first; it has target, name, age. .* `--map COLUMN=first`"),
        ({"target": "age"}, {}, "must be text"),
        ({}, {"names": {"token": "target"}}, "no column token"),
        ({}, {"names": {"name": "target"}}, "has a column target already"),
        (
            {"variables": "Reason"},
            {"names": {"name": "Reason"}},
            "have a column Reason of their own. .*--map Reason=OTHER",
        ),
    ],
)
def test_a_wrong_column_is_named(
    spark: "SparkSession", tmp_path: Path, task: dict[str, str], given: dict[str, Any], message: str
) -> None:
    chosen = options(stored(spark, tmp_path / "people"), task, **given)
    with pytest.raises(InvalidInput, match=message):
        transform(read_table(spark, chosen.audience), chosen)


def test_a_table_that_is_not_there(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        read_table(spark, TableSource(str(tmp_path / "none.parquet")))
    with pytest.raises(InvalidInput, match="format: is"):
        read_table(spark, TableSource("x", "xml"))
