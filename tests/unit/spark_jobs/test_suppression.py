"""Lists that protect: whom a list names, in whatever spelling, gets nothing; a list that names too few ends the run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backends.settings import StorageSettings
from dispatcher.channels.submission.address import BLANKS, address_form
from dispatcher.model.errors import InvalidInput, Refused
from spark_jobs.cli.handlers.table_source import names_of, source_of, suppress_of
from spark_jobs.ingest.audience import TableSource
from spark_jobs.ingest.job import IngestOptions, dry_run
from spark_jobs.ingest.suppression import ListCount, SuppressOptions
from spark_jobs.session.frames import canonical, quoted
from spark_jobs.source.task_options import parse_options
from tests.unit.spark_jobs.tables import TASK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOKENS = [f"{number:02x}" + "ab" * 31 for number in range(160, 166)]
FCM = "dW5pdC10ZXN0:APA91bFakeToken_Of-Twenty"

Row = tuple[str | None, str | None]
ROWS: dict[str, tuple[str, list[Row], tuple[int, int, int], int]] = {
    # channel of the task, rows of the list (target, channel), counts of the list (rows, targets, empty), suppressed
    "another spelling": ("apns", [(TOKENS[0].upper(), None)], (1, 1, 0), 1),
    "space beside it": ("apns", [(f" {TOKENS[0]}", None), (f"{TOKENS[1]}\t ", None)], (2, 2, 0), 2),
    "invisible characters": (
        "apns",
        [(f"\ufeff{TOKENS[0]}\u200b", None), (f"{TOKENS[1]}\u00a0\r", None)],
        (2, 2, 0),
        2,
    ),
    "there twice": ("apns", [(TOKENS[0], None), (TOKENS[0].upper(), None)], (2, 2, 0), 1),
    "null and empty rows": ("apns", [(TOKENS[0], None), (TOKENS[1], None), (None, None), (" ", None)], (4, 2, 2), 2),
    "a row that is no token": ("apns", [(TOKENS[0], None), ("ann@example.org", None)], (2, 1, 0), 1),
    "its channel in other letters": ("apns", [(TOKENS[0], " APNS "), (TOKENS[1], "")], (2, 2, 0), 2),
    "rows of other channels": ("apns", [(TOKENS[0], "fcm"), (FCM, "fcm"), (TOKENS[1], "apns")], (1, 1, 0), 1),
    "a channel whose case counts": ("log", [(TOKENS[0].upper(), None), (f"{TOKENS[1]} ", None)], (2, 2, 0), 1),
    "no rows": ("apns", [], (0, 0, 0), 0),
}


def audience(spark: "SparkSession", path: Path, rows: list[tuple[str, str]] | None = None) -> Path:
    people = rows or [(token, "x") for token in TOKENS]
    spark.createDataFrame(people, "target string, channel string").coalesce(1).write.parquet(str(path))
    return path


def options(path: Path, task: Mapping[str, str] = {}, **given: Any) -> IngestOptions:
    made = parse_options({**TASK, "variables": "", **task})
    return IngestOptions(task=made, audience=TableSource(str(path)), tables=path.parent / "tables", **given)


@pytest.mark.parametrize("case", ROWS)
def test_a_row_of_a_list_suppresses_the_target_that_it_names(spark: "SparkSession", tmp_path: Path, case: str) -> None:
    channel, rows, counts, suppressed = ROWS[case]
    spark.createDataFrame(rows, "target string, channel string").write.parquet(str(tmp_path / "optout"))
    chosen = SuppressOptions(lists=(TableSource(str(tmp_path / "optout")),))
    found = dry_run(spark, options(audience(spark, tmp_path / "people"), {"channel": channel}, suppress=chosen))
    assert found.counts.suppressed == suppressed
    path = str(tmp_path / "optout")
    assert found.lists == (ListCount(path=path, rows=counts[0], targets=counts[1], empty=counts[2]),)


def test_where_the_split_has_the_channel_a_row_names_the_target_of_each(spark: "SparkSession", tmp_path: Path) -> None:
    people = [(TOKENS[0].upper(), "apns"), (TOKENS[1], "apns"), (FCM, "fcm"), (FCM.lower(), "fcm"), ("Ann", "log")]
    rows = [(TOKENS[0], None), (TOKENS[1].upper(), "apns"), (FCM.lower(), None), ("ann", None), (FCM.upper(), "fcm")]
    spark.createDataFrame(rows, "target string, channel string").write.parquet(str(tmp_path / "optout"))
    chosen = options(
        audience(spark, tmp_path / "people", people),
        {"channel": "", "split": "channel"},
        suppress=SuppressOptions(lists=(TableSource(str(tmp_path / "optout")),)),
    )
    counts = dry_run(spark, chosen).counts
    assert (counts.suppressed, counts.accepted) == (3, 2)


@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        (
            [(TOKENS[0],), ("ann",), (None,)],
            {},
            r"1 of 3 rows can be targets of channel apns, fewer than 50%.* 'ann' is",
        ),
        ([(TOKENS[0],), (None,), ("",)], {}, r"1 of 3 rows .* All others are empty"),
        ([(TOKENS[0],), ("ann",)], {"min_matched": 0.6}, r"fewer than 60%: nothing is sent"),
        ([(FCM,)], {}, r"0 of 1 rows .*--map suppress\.COLUMN=target"),
    ],
)
def test_a_list_of_which_too_few_rows_can_be_targets_ends_the_run(
    spark: "SparkSession", tmp_path: Path, rows: list[Any], given: Any, message: str
) -> None:
    spark.createDataFrame(rows, "target string").coalesce(1).write.parquet(str(tmp_path / "optout"))
    chosen = SuppressOptions(lists=(TableSource(str(tmp_path / "optout")),), **given)
    with pytest.raises(Refused, match=message):
        dry_run(spark, options(audience(spark, tmp_path / "people"), {"channel": "apns"}, suppress=chosen))
    enough = SuppressOptions(lists=chosen.lists, min_matched=0)
    dry_run(spark, options(tmp_path / "people", {"channel": "apns"}, suppress=enough))


def test_a_list_is_read_with_options_and_names_of_its_own(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(f"device;city\n{TOKENS[0]};Ulm\n{TOKENS[1]};Ulm\n{TOKENS[2]};Ulm\n")
    (tmp_path / "same.csv").write_text(f"device;since\n{TOKENS[0]};2026\n")
    (tmp_path / "other.csv").write_text(f"who|since\n{TOKENS[1].upper()}|2026\n")

    def left(*suppress: str, reader: tuple[str, ...], names: tuple[str, ...]) -> int:
        given = {
            "table_format": None,
            "reader": reader,
            "names": names,
            "suppress": [str(tmp_path / name) for name in suppress],
            "min_matched": 0.5,
        }
        source = source_of(str(tmp_path / "people.csv"), given, StorageSettings())
        task = parse_options({**TASK, "channel": "apns", "variables": ""})
        made = IngestOptions(
            task=task,
            audience=source,
            tables=tmp_path / "tables",
            names=names_of(given),
            suppress=suppress_of(source, given),
        )
        return dry_run(spark, made).counts.accepted

    shared = ("delimiter=;",), ("device=target",)
    assert left("same.csv", reader=shared[0], names=shared[1]) == 2
    own = (*shared[0], "suppress.delimiter=|"), (*shared[1], "suppress.who=target")
    assert left("other.csv", reader=own[0], names=own[1]) == 2
    with pytest.raises(InvalidInput, match="has no column named target"):
        left("other.csv", reader=own[0], names=shared[1])


def test_targets_of_a_list_are_text_or_whole_numbers(spark: "SparkSession", tmp_path: Path) -> None:
    audience(spark, tmp_path / "people", [("4915112345678", "x")])

    def suppressed(kind: str, number: float) -> int:
        spark.createDataFrame([(number,)], f"target {kind}").write.parquet(str(tmp_path / kind))
        chosen = SuppressOptions(lists=(TableSource(str(tmp_path / kind)),))
        return dry_run(spark, options(tmp_path / "people", suppress=chosen)).counts.suppressed

    assert suppressed("bigint", 4915112345678) == 1
    with pytest.raises(InvalidInput, match="is of type double; targets are text"):
        suppressed("double", 4915112345678.0)  # as a text it is 4.915112345678E12


def test_spark_and_python_make_the_same_canonical_form(spark: "SparkSession") -> None:
    from pyspark.sql import functions as f

    texts: list[str | None] = [f"{blank}A b{blank}" for blank in BLANKS]
    texts += [f"{BLANKS}{TOKENS[0].upper()}{BLANKS}", " A b ", "", BLANKS, FCM, "Straße\u200d", "\ufeffx", None]
    rows = [(text, channel) for text in texts for channel in ("apns", "fcm", "log", None)]
    frame = spark.createDataFrame(rows, "`a.``b` string, channel string")
    target = f.col(quoted("a.`b"))
    by_row = frame.select(canonical(target, f.col("channel")).alias("found")).collect()
    assert [row.found for row in by_row] == [address_form(channel or "").of(text) for text, channel in rows]
    fixed = frame.select(canonical(target, "apns").alias("found")).collect()
    assert [row.found for row in fixed] == [address_form("apns").of(text) for text, _ in rows]
