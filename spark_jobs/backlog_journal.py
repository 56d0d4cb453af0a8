"""The outcome journal as the report on the backlog sees it: what was done when, and how long targets had waited.

`done` takes a row for each target and gives some hundred thousand; all else is made of those. Waits are counted in
buckets, four to each doubling, so that what a quantile tells is at most a fifth too long.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKETS_A_DOUBLING = 4
NOT_TOLD = "(not told)"
"""In an app's place: of outcomes of before records told it, and of tasks that are not known."""


def done(outcomes: "DataFrame", first_ms: int, step_ms: int) -> "DataFrame":
    """What was done of each task in each stretch of step_ms from first_ms on: task, app, channel, bin, bucket (of the
    waits), done, sent, lost (invalid or failed), retried (sent at a further attempt).

    outcomes: as spark_jobs.journal_tables.outcomes.
    """
    from pyspark.sql import functions as f

    at_ms = f.unix_millis("at")
    bucket = f.floor(f.log2(f.greatest("latency_ms", f.lit(0)) + 1) * BUCKETS_A_DOUBLING).cast("int")
    rows = outcomes.where(at_ms >= first_ms).select(
        "task",
        f.coalesce("app", f.lit(NOT_TOLD)).alias("app"),
        "channel",
        f.floor((at_ms - first_ms) / step_ms).cast("int").alias("bin"),
        bucket.alias("bucket"),
        (f.col("outcome") == "sent").cast("int").alias("sent"),
        f.col("outcome").isin("invalid", "failed").cast("int").alias("lost"),
        (f.col("attempt") > 0).cast("int").alias("retried"),
    )
    return rows.groupBy("task", "app", "channel", "bin", "bucket").agg(
        f.count("*").alias("done"), *(f.sum(name).alias(name) for name in ("sent", "lost", "retried"))
    )


def of_tiers(done_of: "DataFrame", tiers: "DataFrame") -> "DataFrame":
    """With the column tier. tiers: task, tier."""
    from pyspark.sql import functions as f

    known = f.broadcast(tiers.select("task", "tier").distinct())
    return done_of.join(known, "task", "left").withColumn("tier", f.coalesce("tier", f.lit(NOT_TOLD)))


def by_dimension(done_of: "DataFrame", dimensions: Sequence[str]) -> "DataFrame":
    """dimension, name, bucket, done, sent, lost, retried."""
    from pyspark.sql import functions as f

    names = f.array(*(f.struct(f.lit(kind).alias("dimension"), f.col(kind).alias("name")) for kind in dimensions))
    rows = done_of.select("bucket", *_counts(), f.explode(names).alias("of"))
    return rows.groupBy("of.dimension", "of.name", "bucket").agg(*_sums())


def by_time(done_of: "DataFrame") -> "DataFrame":
    """bin, app, bucket, done."""
    from pyspark.sql import functions as f

    return done_of.groupBy("bin", "app", "bucket").agg(f.sum("done").alias("done"))


def of_tasks(done_of: "DataFrame", tasks: Sequence[str]) -> "DataFrame":
    """task, bucket, done, sent, lost, retried, of these tasks."""
    from pyspark.sql import functions as f

    return done_of.where(f.col("task").isin(list(tasks))).groupBy("task", "bucket").agg(*_sums())


def _counts() -> list[str]:
    return ["done", "sent", "lost", "retried"]


def _sums() -> "list[Column]":
    from pyspark.sql import functions as f

    return [f.sum(name).alias(name) for name in _counts()]


def quantile_s(buckets: Mapping[int, int], part: float) -> float | None:
    """The wait that so large a part of the targets did not exceed, in seconds; None of no targets."""
    total = sum(buckets.values())
    if not total:
        return None
    seen = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= part * total:
            return (2 ** ((bucket + 1) / BUCKETS_A_DOUBLING) - 1) / 1000
    return None
