"""The ingestion job: a table becomes a task (or one for each part of a split), checked, deduplicated, exactly once.

Extract (audience.py) -> transform (a DataFrame in, a DataFrame out) -> load, which is one pass over all rows. Good rows
go into the lanes under the writer of the attempt, the others into the table of rejects. The task is held until its
seal, which is written last: a job that ends earlier has sent nothing, and running it again completes the task.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from dispatcher.model.errors import AudienceMismatch, FairlaneError, InvalidInput, NotConfigured, Refused, Unreachable
from dispatcher.model.flow_pause import FlowPause
from dispatcher.model.tier import Tier
from producers.connection import Connection
from producers.files.audience_rows import TARGET_COLUMNS, RowRules
from spark_jobs.ingest.audience import TableSource, read_table, renamed, with_targets
from spark_jobs.ingest.left import naming_left_tasks
from spark_jobs.ingest.rejects import rejects_folder, rejects_table
from spark_jobs.ingest.rules import DUPLICATE, REASON, SUPPRESSED, SUPPRESSED_FLAG, Rules, checked
from spark_jobs.ingest.suppression import SUPPRESSED_TARGET, ListCount, Suppressed, SuppressOptions, suppressed_targets
from spark_jobs.journal.tables import invalid_targets, reading
from spark_jobs.session.frames import canonical, map_batches, quoted
from spark_jobs.session.servers import flow_entries
from spark_jobs.session.stage_progress import Progress, watched
from spark_jobs.source.columns import REFUSED, columns_of
from spark_jobs.source.sealing import no_rows
from spark_jobs.source.source import commit_write
from spark_jobs.source.task_options import TaskOptions
from spark_jobs.source.writing import WriteTarget, Written, write
from spark_jobs.storage.data_files import DataFile, FileWriter
from spark_jobs.storage.delta import Table
from spark_jobs.storage.folder import Folder, Place, reaching

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Observation, SparkSession
    from pyspark.sql.types import StructType

MAX_REFUSED = 0.05
_GOOD = "accepted"
_SINCE = " If the table is the same: targets that were suppressed or died since then are left out now."
_MAP = "Choose one of them: `--map COLUMN={name}`, or name another in the task file."


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """Settings of an ingestion."""

    task: TaskOptions
    audience: TableSource
    tables: Place
    """The folder of all tables: a path that the driver and executors share, or a URL."""
    suppress: SuppressOptions = field(default_factory=SuppressOptions)
    invalid_targets: bool = True
    """Whether to leave out targets that the journal knows to be dead as well."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Fairlane's name by column of the table."""
    forms: Mapping[str, str] = field(default_factory=dict)
    """The form of targets by channel, as in Rules."""
    max_refused: float = MAX_REFUSED
    """The part of the rows that may be bad; with more, nothing is sent."""

    @property
    def rules(self) -> RowRules:
        """Return what becomes of the columns of a text file."""
        targets = TARGET_COLUMNS if self.task.target == TARGET_COLUMNS[0] else (self.task.target,)
        return RowRules(names=self.names, targets=targets, variables=self.task.variables, beside=self.task.split)

    @property
    def rejects(self) -> Folder:
        """Return the folder of the rows that were left out, with the reason."""
        return rejects_folder(self.tables, self.task.task)


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of rows of the table, and what became of them."""

    rows: int
    accepted: int
    duplicates: int
    suppressed: int
    refused: int
    """Rows that are not good."""

    @classmethod
    def of(cls, by_reason: Mapping[str, int]) -> "Counts":
        accepted, duplicates, suppressed = (by_reason.get(reason, 0) for reason in (_GOOD, DUPLICATE, SUPPRESSED))
        rows = sum(by_reason.values())
        return cls(rows, accepted, duplicates, suppressed, rows - accepted - duplicates - suppressed)


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of an ingestion."""

    by_reason: Mapping[str, int]
    """The number of rows, by why they are left out; also the good ones."""
    lists: tuple[ListCount, ...]
    """The suppress lists."""
    tasks: tuple[str, ...] = ()
    """The tasks' ids."""
    rejects: str = ""
    """The table of the rows left out; empty if there are none."""

    @property
    def counts(self) -> Counts:
        return Counts.of(self.by_reason)

    @property
    def reasons(self) -> Mapping[str, int]:
        """Return the number of rows left out, by reason."""
        return {reason: count for reason, count in self.by_reason.items() if reason != _GOOD}


def transform(table: "DataFrame", options: IngestOptions, suppressed: "DataFrame | None" = None) -> "DataFrame":
    """Return the audience with Fairlane's column names, and a column with the reason why a row is left out.

    The reason is null for a good row. suppressed: targets to leave out. Raises InvalidInput for a column that is
    missing, of a wrong type or there twice.
    """
    prepared, rules = _prepared(table, options, suppressed)
    return map_batches(prepared, partial(checked, rules=rules), _checked_schema(prepared))


def dry_run(spark: "SparkSession", options: IngestOptions) -> Ingested:
    """Return the counts that `ingest` would have.

    Needs no servers and writes nothing. Raises InvalidInput (the table). Without Redis, reports of dead targets from a
    suspected flow count, too.
    """
    try:
        flows = _flows(spark, options)
    except (Unreachable, NotConfigured):
        flows = {}
    with reading(options.tables), suppression(spark, options, flows) as suppressed:
        table = transform(read_table(spark, options.audience, options.rules), options, suppressed.targets)
        counts = table.groupBy(REASON).count().collect()
    by_reason = {row[REASON] or _GOOD: row["count"] for row in counts}
    if not by_reason:
        raise no_rows()
    return Ingested(by_reason, suppressed.lists)


def ingest(spark: "SparkSession", options: IngestOptions, on_progress: Callable[[Progress], None]) -> Ingested:
    """Fill the task and seal it. on_progress: called twice a second, in a thread of its own.

    Raises InvalidInput (the table), Refused (more bad rows than max_refused; nothing is sent, the rejects are written),
    AudienceMismatch (the task was sealed with another audience), TaskEnded, LimitReached, Unreachable, JobFailed. Each
    says which tasks are left unsealed.
    """
    with naming_left_tasks(options.task):
        return _ingest(spark, options, on_progress)


def _ingest(spark: "SparkSession", options: IngestOptions, on_progress: Callable[[Progress], None]) -> Ingested:
    from pyspark.sql import Observation
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import to_arrow_schema

    read = Observation("read")
    with reading(options.tables), suppression(spark, options, _flows(spark, options)) as suppressed:
        table = read_table(spark, options.audience, options.rules).observe(read, f.count(f.lit(1)).alias("rows"))
        prepared, rules = _prepared(table, options, suppressed.targets)
        table = rejects_table(options.rejects, to_arrow_schema(_checked_schema(prepared)))
        table.create()
        reports = _load(spark, prepared, partial(_load_part, rules=rules, rejects=table), options, on_progress)
    by_reason = sum((Counter(report.by_reason) for report in reports), Counter[str]())
    counts = Counts.of(by_reason)
    _check_sum(counts, _rows_read(read))
    files = [file for report in reports for file in report.rejects]
    table.replace(files)
    _check_part(counts, options)
    target = WriteTarget(replace(options.task, refused=counts.refused), rules.columns, options.task.task)
    try:
        commit_write(target, [report.written for report in reports])
    except AudienceMismatch as error:
        raise AudienceMismatch(error.cause, error.next_step + _SINCE * bool(counts.suppressed)) from error
    tasks = sorted({name for report in reports for name in report.written.parts})
    return Ingested(by_reason, suppressed.lists, tuple(tasks), str(table.folder) if files else "")


def _flows(spark: "SparkSession", options: IngestOptions) -> Mapping[str, FlowPause]:
    """Return the last entry of each flow, if reports of dead targets are used."""
    return flow_entries(spark, options.task.servers) if options.invalid_targets else {}


def suppression(
    spark: "SparkSession", options: IngestOptions, flows: Mapping[str, FlowPause]
) -> AbstractContextManager[Suppressed]:
    """Yield the targets that must not get the message, valid within the block. Raises as `suppressed_targets`.

    flows: the pauses of apps on channels, by channel and app: while a provider calls too many targets dead, its reports
    do not count.
    """
    dead = invalid_targets(spark, options.tables, flows=flows) if options.invalid_targets else None
    return suppressed_targets(spark, options.task, options.suppress, options.forms, dead)


def _prepared(table: "DataFrame", options: IngestOptions, suppressed: "DataFrame | None") -> "tuple[DataFrame, Rules]":
    """Return only the columns needed, with targets in their canonical form.

    All rows of a target are in one part, so that duplicates meet there.
    """
    from pyspark.sql import functions as f

    task = options.task
    table = with_targets(renamed(table, options.names), task.target)
    columns = columns_of(table.schema, task, _MAP)
    if not columns.whole:
        task.check_columns(columns.variables)
    target = f.col(quoted(columns.target))
    spelled = canonical(target, task.channel or f.col("channel").cast("string"))
    others = dict.fromkeys([*columns.split, *columns.variables, *([columns.whole] * bool(columns.whole))])
    others.pop(columns.target, None)
    for name in (columns.target, *others):
        if name.lower() in (REASON, SUPPRESSED_FLAG):
            raise InvalidInput(f"The rejects have a column {name} of their own.", f"Rename it: --map {name}=OTHER.")
    others |= dict.fromkeys({REFUSED} & {*table.columns})
    table = table.select(spelled.alias(columns.target), *(quoted(name) for name in others))
    table = table.repartition(quoted(columns.target))
    if suppressed is not None:
        table = table.join(suppressed, target == f.col(SUPPRESSED_TARGET), "left").drop(SUPPRESSED_TARGET)
    if set(columns.split) - {"app", "channel"}:
        table = table.sortWithinPartitions(*_order(columns.split))
    return table, Rules(columns, task, options.forms)


def _order(split: Sequence[str]) -> "list[Column]":
    """Return the order in which a target's rows are looked at: the task of its first row keeps it, in each run. That of
    the highest tier comes first."""
    from pyspark.sql import functions as f

    names = sorted(split, key=lambda name: name != "tier")
    ranks = f.array(*(f.lit(tier.name.lower()) for tier in Tier))
    columns = [f.col(quoted(name)).cast("string") for name in names]
    return [
        f.array_position(ranks, column) if name == "tier" else column
        for name, column in zip(names, columns, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Report:
    """The report of an attempt to the driver."""

    written: Written
    by_reason: dict[str, int]
    """The number of rows, by why they are left out; also the good ones."""
    rejects: list[DataFile]
    """The file of the rows left out, if there are any."""


def _load(
    spark: "SparkSession",
    prepared: "DataFrame",
    load_part: "Callable[..., Iterator[pa.RecordBatch]]",
    options: IngestOptions,
    on_progress: Callable[[Progress], None],
) -> list[_Report]:
    """Write all rows. Returns the reports of the attempts that count: Spark returns one result of each part."""
    rows = spark.sparkContext.accumulator(0)
    load = partial(load_part, rows=rows)
    with watched(spark, f"ingest {options.task.task}", lambda: rows.value, on_progress):
        return [_decode(row[0]) for row in map_batches(prepared, load, "report binary").collect()]


def _load_part(
    batches: "Iterable[pa.RecordBatch]", rules: Rules, rows: Any, rejects: Table
) -> "Iterator[pa.RecordBatch]":
    """Load one part of the table, in one attempt."""
    import pyarrow as pa

    incoming = iter(batches)
    first = next(incoming, None)
    if first is None:
        return
    by_reason = Counter[str]()
    left_out = FileWriter(rejects.folder, rejects.schema)
    with closing(Connection(rules.task.servers)) as connection, reaching(rejects.folder, "written"):
        good = _good(checked(chain([first], incoming), rules), by_reason, left_out)
        written = write(connection.services(), WriteTarget(rules.task, rules.columns, rules.task.task), good)
        report = _encode(_Report(written, by_reason, left_out.close()))
    yield pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], ["report"])
    rows.add(by_reason.total())


def _good(
    batches: "Iterable[pa.RecordBatch]", by_reason: Counter[str], rejects: FileWriter
) -> "Iterator[pa.RecordBatch]":
    """Yield the good rows. Counts all, and stores the others."""
    import pyarrow.compute as pc

    for batch in batches:
        reasons = batch.column(REASON)
        left_out = batch.filter(pc.is_valid(reasons))
        by_reason.update(left_out.column(REASON).to_pylist())
        by_reason[_GOOD] += reasons.null_count
        rejects.write(left_out)
        yield batch.filter(pc.is_null(reasons)).drop_columns([REASON])


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Report).decode


def _checked_schema(prepared: "DataFrame") -> "StructType":
    """Return the schema of what `checked` makes of these rows."""
    return prepared.drop(SUPPRESSED_FLAG, REFUSED).schema.add(REASON, "string")


def _rows_read(read: "Observation") -> int:
    """Return the number of rows read.

    The observation has no value if Spark knew the table to be empty and did not read it.
    """
    from py4j.protocol import Py4JJavaError

    try:
        return int(read.get["rows"])
    except Py4JJavaError:
        return 0


def _check_sum(counts: Counts, read: int) -> None:
    if counts.rows != read:
        raise FairlaneError(
            f"{read:,} rows were read, but {counts.rows:,} are accounted for. Nothing is sent.",
            "The table may have changed meanwhile: run the job again.",
        )


def _check_part(counts: Counts, options: IngestOptions) -> None:
    if counts.refused > options.max_refused * counts.rows:
        raise Refused(
            f"{counts.refused:,} of {counts.rows:,} rows are invalid, more than {options.max_refused:.1%}: nothing is "
            f"sent of task {options.task.task}. The rows and reasons are in {options.rejects}.",
            "Correct the table and run the job again, or allow more with --max-refused.",
        )
    if counts.rows and not counts.accepted:
        raise InvalidInput(
            f"None of the {counts.rows:,} rows is left to send to: {counts.suppressed:,} are suppressed, "
            f"{counts.refused:,} refused."
        )
