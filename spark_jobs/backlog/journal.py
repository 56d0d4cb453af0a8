"""Aggregate the outcome journal for the report on the backlog: the work done over time, and the waits of targets.

One query, which delta-rs runs in this process: for ten million outcomes it takes two seconds of CPU. Waits are counted
in buckets, four to each doubling, so a quantile is at most a fifth too long.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.backlog.snapshots import DIMENSIONS
from spark_jobs.journal.files import OUTCOMES, journal_table
from spark_jobs.storage.folder import Place

BUCKETS_A_DOUBLING = 4
NOT_KNOWN = "(not known)"
"""The app of outcomes from before records had it, and the tier of unknown tasks."""
_COUNTS = ("done", "lost", "retried")
WAITS_OF_APPS = 8
"""The number of apps whose waits are shown over time."""
_DONE = """
SELECT
    task,
    channel,
    coalesce(app, '{not_known}') app,
    (CAST(at AS BIGINT) - {first_us}) / {step_us} bin,
    CAST(floor(log2(greatest(latency_ms, 0) + 1) * {buckets}) AS INT) bucket,
    count(*) done,
    count(*) FILTER (WHERE outcome IN ('invalid', 'failed')) lost,
    count(*) FILTER (WHERE attempt > 0) retried
FROM rows
WHERE day >= '{day}' AND CAST(at AS BIGINT) >= {first_us}
GROUP BY 1, 2, 3, 4, 5
"""
"""Targets of a task done in a time span (bin) after waits of a length (bucket)."""


class JournalFacts(NamedTuple):
    """Sums over the journal.

    Each row has a bucket (of the waits), the number of targets done, and of these the number lost (invalid or failed)
    and retried (done at a further attempt).
    """

    rows: int
    """The number of outcomes."""
    names: Sequence[Mapping[str, Any]]
    """By dimension and name."""
    tasks: Sequence[Mapping[str, Any]]
    """By task."""
    by_time: Sequence[Mapping[str, Any]]
    """By bin (time span) and app, for the apps with the most outcomes."""


def journal_facts(
    tables: Place, first_ms: int, step_ms: int, tiers: Mapping[str, str], tasks: Sequence[str]
) -> JournalFacts | None:
    """Collect the facts from the journal; None if it has no outcomes from the days asked for. Raises FairlaneError.

    first_ms, step_ms: the start of the first time span, and the length of each. tiers: by task. tasks: those to report
    one by one.
    """
    state = journal_table(tables, OUTCOMES).read()
    day = f"{datetime.fromtimestamp(first_ms / 1000, UTC):%Y-%m-%d}"
    if not any(file.partition["day"] >= day for file in state.files):
        return None
    spans = {"day": day, "first_us": first_ms * 1000, "step_us": step_ms * 1000}
    rows = state.query(_DONE.format(not_known=NOT_KNOWN, buckets=BUCKETS_A_DOUBLING, **spans))
    task_index = pc.index_in(rows["task"], value_set=pa.array(list(tiers), pa.string()))
    tier = pc.fill_null(pc.take(pa.array(list(tiers.values()), pa.string()), task_index), NOT_KNOWN)
    rows = rows.append_column("tier", tier)
    names = [{"dimension": kind, "name": row[kind], **row} for kind in DIMENSIONS for row in _sums(rows, kind)]
    of_apps = Counter[str]()
    for row in names:
        if row["dimension"] == "app":
            of_apps[row["name"]] += row["done"]
    return JournalFacts(
        rows=of_apps.total(),
        names=names,
        tasks=_sums(_among(rows, "task", tasks), "task"),
        by_time=_sums(_among(rows, "app", [app for app, _ in of_apps.most_common(WAITS_OF_APPS)]), "bin", "app"),
    )


def _among(rows: pa.Table, column: str, values: Sequence[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows[column], value_set=pa.array(values, pa.string())))


def _sums(rows: pa.Table, *keys: str) -> list[dict[str, Any]]:
    sums = rows.group_by([*keys, "bucket"]).aggregate([(name, "sum") for name in _COUNTS])
    found: list[dict[str, Any]] = sums.rename_columns([*keys, "bucket", *_COUNTS]).to_pylist()
    return found


def quantile_s(buckets: Mapping[int, int], part: float) -> float | None:
    """Return the wait, in seconds, that this part of the targets did not exceed; None without targets."""
    ordered = sorted(buckets)
    seen = list(accumulate(buckets[bucket] for bucket in ordered))
    if not seen or not seen[-1]:
        return None
    bucket = ordered[bisect_left(seen, part * seen[-1])]
    return (2 ** ((bucket + 1) / BUCKETS_A_DOUBLING) - 1) / 1000
