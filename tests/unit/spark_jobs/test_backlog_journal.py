"""What the report on the backlog makes of the journal."""

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import backlog_journal
from spark_jobs.backlog_journal import NOT_TOLD, quantile_s
from tests.unit.spark_jobs.backlog_rows import OUTCOME_SCHEMA, ms, outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def done(spark: "SparkSession") -> "DataFrame":
    """Stretches of 10 s from the start on."""
    table = [
        outcome("a", -1, 5),
        *(outcome("a", second, 0) for second in (0, 3, 9.999)),
        outcome("a", 10, 1_000, attempt=1),
        outcome("a", 12, 1_000, "invalid"),
        outcome("b", 11, 1_000, "failed", app="news", attempt=2),
        outcome("b", 11, 1_000, "expired", app="news"),
        outcome("c", 25, 60_000, app=None, channel="mail"),
    ]
    frame = spark.createDataFrame(table, OUTCOME_SCHEMA)
    return backlog_journal.done(frame, ms(0), 10_000)


def rows(frame: "DataFrame", *fields: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*fields).collect())


def test_outcomes_are_counted_by_task_stretch_and_wait(done: "DataFrame") -> None:
    assert rows(done, "task", "app", "bin", "bucket", "done", "sent", "lost", "retried") == [
        ("a", "shop", 0, 0, 3, 3, 0, 0),
        ("a", "shop", 1, 39, 2, 1, 1, 1),
        ("b", "news", 1, 39, 2, 0, 1, 1),
        ("c", NOT_TOLD, 2, 63, 1, 1, 0, 0),
    ]


def test_they_are_summed_up_by_dimension(spark: "SparkSession", done: "DataFrame") -> None:
    tiers = spark.createDataFrame([("a", "high"), ("a", "high"), ("b", "low")], "task string, tier string")
    found = backlog_journal.by_dimension(backlog_journal.of_tiers(done, tiers), ("tier", "channel"))
    assert rows(found, "dimension", "name", "bucket", "done") == [
        ("channel", "mail", 63, 1), ("channel", "push", 0, 3), ("channel", "push", 39, 4),
        ("tier", NOT_TOLD, 63, 1), ("tier", "high", 0, 3), ("tier", "high", 39, 2), ("tier", "low", 39, 2),
    ]  # fmt: skip


def test_they_are_summed_up_over_time_and_of_some_tasks(done: "DataFrame") -> None:
    assert rows(backlog_journal.by_time(done), "bin", "app", "bucket", "done")[:2] == [
        (0, "shop", 0, 3),
        (1, "news", 39, 2),
    ]
    assert rows(backlog_journal.of_tasks(done, ["b"]), "task", "bucket", "done", "lost") == [("b", 39, 2, 1)]


@pytest.mark.parametrize("wait_ms", [0, 1, 40, 999, 60_000, 86_400_000])
def test_a_quantile_is_at_most_a_fifth_too_long(spark: "SparkSession", wait_ms: int) -> None:
    frame = spark.createDataFrame([outcome("a", 1, wait_ms)], OUTCOME_SCHEMA)
    (row,) = backlog_journal.done(frame, ms(0), 10_000).collect()
    told_s = quantile_s({row["bucket"]: 1}, 0.5)
    assert told_s is not None
    assert wait_ms <= told_s * 1000 <= 1.2 * wait_ms + 0.2


def test_quantiles_count_targets() -> None:
    buckets = {0: 90, 20: 5, 40: 5}
    assert quantile_s(buckets, 0.5) == quantile_s({0: 1}, 0.5)
    assert quantile_s(buckets, 0.95) == quantile_s({20: 1}, 0.5)
    assert quantile_s(buckets, 0.96) == quantile_s({40: 1}, 0.5)
    assert quantile_s({}, 0.5) is None
