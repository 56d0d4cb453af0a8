"""Check that the outcomes in the tables add up: audience = sent + invalid + failed + expired + cancelled + pending.

The result comes from the tables alone (the journal, and the audience if it is given). Differences are listed target by
target, if the journal names targets.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dispatcher.model.errors import InvalidInput, NotFound
from dispatcher.wire.outcome import OUTCOME_NAMES
from spark_jobs.ingest.rejects import rejects_folder
from spark_jobs.ingest.rules import DUPLICATE
from spark_jobs.journal.tables import closes, outcomes, reading, tasks
from spark_jobs.reconcile.differences import DIFFERENCE_TABLE, differences
from spark_jobs.session.failures import translated
from spark_jobs.session.folders import folder_name
from spark_jobs.session.frames import canonical, quoted
from spark_jobs.source.columns import REFUSED
from spark_jobs.storage.delta import Table
from spark_jobs.storage.folder import Folder, Place
from spark_jobs.storage.frames import frame_of, write_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSum:
    """The sums of one task."""

    task: str
    app: str
    state: str
    audience: int | None
    """The number of targets in its seal; None before it."""
    counts: Mapping[str, int]
    """Targets by outcome."""
    closed: str = ""
    """If the task was closed as a whole: the outcome of the remaining targets."""
    named: int = 0
    """The number of outcomes whose target the journal names."""

    @property
    def recorded(self) -> int:
        """Return the number of targets that have an outcome of their own in the journal."""
        return sum(self.counts.values())

    @property
    def totals(self) -> dict[str, int]:
        """Return targets by outcome, and `pending`.

        They add up to the audience unless more were recorded than it has.
        """
        rest = max((self.audience or 0) - self.recorded, 0)
        totals = {name: self.counts.get(name, 0) for name in OUTCOME_NAMES}
        if self.closed:
            totals[self.closed] += rest
        return {**totals, "pending": 0 if self.closed else rest}

    @property
    def adds_up(self) -> bool:
        """Return whether the audience is accounted for: a task that has ended has nothing pending."""
        if self.audience is None:
            return not self.state
        return sum(self.totals.values()) == self.audience and not (self.state and self.totals["pending"])


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result of a reconciliation."""

    sums: Sequence[TaskSum]
    differences: Sequence[Mapping[str, Any]]
    """The first differences: rows of DIFFERENCE_TABLE."""
    count: int
    """The number of all differences."""
    folder: str
    """The folder of the table with all differences; empty if there are none."""
    note: str = ""
    """Anything that could not be compared, and why."""


@dataclass(frozen=True, slots=True)
class ReconcileScope:
    """The tasks to reconcile."""

    tables: Place
    """The folder of all tables."""
    task: str = ""
    """One task. Empty: all tasks that were accepted or had an outcome on `day`."""
    day: str = ""
    """A day in UTC."""


def reconcile(
    spark: "SparkSession", scope: ReconcileScope, audience: "DataFrame | None" = None, listed: int = 20
) -> Reconciled:
    """Reconcile outcomes and audience. Raises NotFound if the journal knows nothing of them.

    audience: a table with the column target: the targets given to the task, each at least once. listed: the number of
    differences to return.
    """
    from pyspark.sql import functions as f

    with reading(scope.tables):
        chosen = _chosen(spark, scope)
        sums = _sums(spark, scope, chosen)
        rows = _rows_of(spark, scope, chosen)
        note = _unnamed(sums) if audience is not None else ""
        given = None if audience is None or note else audience.select(f.lit(scope.task).alias("task"), "target")
        part = f"task={folder_name(scope.task).replace('%', '~')}" if scope.task else f"day={scope.day}"
        table = Table(Folder.of(scope.tables) / "reconcile" / part, DIFFERENCE_TABLE)
        table.create()
        is_over = all(each.state and not each.closed for each in sums)
        with differences(rows, given, is_over=is_over) as frame:
            files = write_frame(frame, table)
        table.replace(files)
        stored = frame_of(spark, table, files).orderBy(f.col("difference"), f.col("target"))
        first = [row.asDict() for row in stored.limit(listed).collect()]
        count = sum(file.rows for file in files)
    return Reconciled(sums, first, count, str(table.folder) if count else "", note)


def _chosen(spark: "SparkSession", scope: ReconcileScope) -> "DataFrame":
    """Return the chosen tasks' rows of the table of tasks."""
    from pyspark.sql import functions as f

    known = tasks(spark, scope.tables)
    if scope.task:
        return known.where(f.col("task") == scope.task)
    that_day = outcomes(spark, scope.tables, scope.day, scope.day).select("task").distinct()
    accepted = known.where(f.to_date("accepted_at") == scope.day).select("task")
    return known.join(that_day.unionByName(accepted).distinct(), "task", "left_semi")


def _rows_of(spark: "SparkSession", scope: ReconcileScope, chosen: "DataFrame") -> "DataFrame":
    """Return the chosen tasks' outcomes."""
    from pyspark.sql import functions as f

    rows = outcomes(spark, scope.tables)
    if scope.task:
        return rows.where(f.col("task") == scope.task)
    return rows.join(f.broadcast(chosen), "task", "left_semi")


def _sums(spark: "SparkSession", scope: ReconcileScope, chosen: "DataFrame") -> list[TaskSum]:
    from pyspark.sql import functions as f

    rows = _rows_of(spark, scope, chosen).groupBy("task", "outcome")
    counts: dict[str, dict[str, int]] = {}
    named: Counter[str] = Counter()
    for row in rows.agg(f.count(f.lit(1)).alias("rows"), f.count("target").alias("named")).collect():
        counts.setdefault(row["task"], {})[row["outcome"]] = row["rows"]
        named[row["task"]] += row["named"]
    known = chosen.select("task", "app", "state", "targets").collect()
    if not known:
        which = f"task {scope.task}" if scope.task else f"a task on {scope.day}"
        raise NotFound(
            f"The journal in {scope.tables} has no outcomes of {which}.",
            "Land its outcomes: `fairlane journal run --once`.",
        )
    closed = {
        row["task"]: row["outcome"]
        for row in closes(spark, scope.tables).where(f.col("task").isin([each["task"] for each in known])).collect()
    }
    return [
        TaskSum(
            task=each["task"], app=each["app"] or "", state=each["state"] or "", audience=each["targets"],
            counts=counts.get(each["task"], {}), closed=closed.get(each["task"], ""), named=named[each["task"]],
        )
        for each in sorted(known, key=lambda each: str(each["task"]))
    ]  # fmt: skip


def _unnamed(sums: Sequence[TaskSum]) -> str:
    lacking = next((each for each in sums if each.named < each.recorded), None)
    if lacking is None:
        return ""
    return (
        f"The journal names {lacking.named:,} of the {lacking.recorded:,} targets of {lacking.task} that have an "
        "outcome, so they cannot be compared one by one: that needs the setting journal.targets = all while they are "
        "sent."
    )


def given_audience(spark: "SparkSession", table: "DataFrame", tables: Place, task: str) -> "DataFrame":
    """Return the targets that an ingestion took from a table (with a column target), without those it left out, in
    their canonical form.

    Targets that occur twice in the table occur twice in the result. Raises InvalidInput for a table without targets.
    """
    from pyspark.sql import functions as f

    if "target" not in table.columns:
        raise InvalidInput(
            f"The audience has no column target; it has {', '.join(table.columns)}.", "Use --map COLUMN=target."
        )
    kind = table.schema["target"].dataType
    if kind.typeName() not in ("string", "char", "varchar"):
        raise InvalidInput(
            f"The column target is of type {kind.simpleString()}; the target must be text.",
            "Name another one with --map COLUMN=target.",
        )
    known = tasks(spark, tables).where(f.col("task") == task).select("channel").collect()
    channel = (known[0]["channel"] if known else None) or ""
    rows = table.where("target is not null").withColumn("target", canonical(f.col("target"), channel))
    good = (rows.where(f"{REFUSED} is null") if REFUSED in table.columns else rows).select("target")
    with translated():
        if good.isEmpty():
            raise InvalidInput("The audience has no rows with a target.", "Check its path, and --map COLUMN=target.")
    stored = Table.stored(rejects_folder(tables, task))
    if stored is None:
        return good
    rejects = frame_of(spark, stored, stored.read().files).where(f.col("reason") != DUPLICATE)
    column = rejects.columns[0]  # it has the name that the task's option `target` gives
    target = canonical(f.col(quoted(column)), channel).alias("target")
    left_out = rejects.groupBy(target).agg(f.count(f.lit(1)).alias("left_out"))
    counted = rows.join(left_out, "target").groupBy("target", "left_out").count()
    bad = counted.where("count <= left_out").select("target")  # with more rows, one was good
    return good.join(bad, "target", "left_anti")
