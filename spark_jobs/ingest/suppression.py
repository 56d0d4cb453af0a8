"""The targets that must not get a message: lists of the user, and targets that providers called dead.

A list protects people, so a row that names nobody is counted, and a list of which most rows name nobody ends the run.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING

from dispatcher.channels.specs import SPECS
from dispatcher.channels.submission.address import BLANKS, address_form
from dispatcher.model.errors import InvalidInput, Refused
from producers.files.audience_rows import TARGET_COLUMNS, RowRules
from producers.submit.validation import check_each
from spark_jobs.ingest.audience import TableSource, read_table, renamed, with_targets
from spark_jobs.ingest.rules import OTHER_FORM, SUPPRESSED_FLAG, compiled_form
from spark_jobs.session.frames import kept, quoted
from spark_jobs.source.columns import KEYS, REFUSED
from spark_jobs.source.task_options import TaskOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MIN_MATCHED = 0.5
SUPPRESSED_TARGET = "fairlane_suppressed_target"
_ANY = ""
"""The channel of tasks whose channel is in a split column, as far as a list does not name one: any."""
_SHOWN = 80
_READ = "keys array<string>, given string, problem string, row bigint"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressOptions:
    """The lists of targets to leave out."""

    lists: tuple[TableSource, ...] = ()
    """Tables with a column target (and a column channel, for targets of one channel only)."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Fairlane's name by column, for lists that have the column."""
    min_matched: float = MIN_MATCHED
    """The part of a list's rows that must be possible targets of the channel; with fewer, nothing is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCount:
    """The number of rows of a suppress list, and what they are."""

    path: str
    rows: int
    """All that are of the task's channel, or of none."""
    targets: int
    """Those that can be targets of the channel."""
    empty: int
    """Those that are null or empty."""

    def __str__(self) -> str:
        others = self.rows - self.targets - self.empty
        parts = [f"{self.targets:,} can be targets"]
        parts += [f"{count:,} {what}" for count, what in ((self.empty, "are empty"), (others, "cannot")) if count]
        return f"{self.path}: {self.rows:,} rows for this channel, of which {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Suppressed:
    """The targets to leave out."""

    targets: "DataFrame | None"
    """Each once, in its canonical form, as SUPPRESSED_TARGET with SUPPRESSED_FLAG; None if nothing is left out."""
    lists: tuple[ListCount, ...] = ()


@contextmanager
def suppressed_targets(
    spark: "SparkSession",
    task: TaskOptions,
    options: SuppressOptions,
    forms: Mapping[str, str],
    dead: "DataFrame | None",
) -> Iterator[Suppressed]:
    """Yield the targets to leave out, valid within the block. forms: as in Rules. dead: those of the journal.

    Raises InvalidInput for a list without a column of targets, and Refused for a list of which too few rows can be
    targets of the task's channel.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f

    with ExitStack() as frames:
        read = [_listed(spark, task, source, options.names) for source in options.lists]
        numbered = [table.withColumn("row", f.monotonically_increasing_id()) for table in read]
        answers = [table.mapInArrow(partial(_read, forms=forms), _READ) for table in numbered]
        judged = [frames.enter_context(kept(table)) for table in answers]
        lists = zip(options.lists, judged, strict=True)
        counts = tuple(_counted(source.path, rows, task, options.min_matched) for source, rows in lists)
        named = [rows.select(f.explode("keys").alias(SUPPRESSED_TARGET)) for rows in judged]
        if dead is not None:
            named.append(_of_channel(dead, task).select(f.col("target").alias(SUPPRESSED_TARGET)))
        targets = reduce(DataFrame.union, named).dropDuplicates() if named else None
        yield Suppressed(None if targets is None else targets.withColumn(SUPPRESSED_FLAG, f.lit(True)), counts)


def _listed(spark: "SparkSession", task: TaskOptions, source: TableSource, names: Mapping[str, str]) -> "DataFrame":
    """Return the targets of a list, with the channel of each."""
    from pyspark.sql import functions as f

    table = read_table(
        spark,
        source,
        RowRules(names=names, targets=[*{**dict.fromkeys(TARGET_COLUMNS), task.target: None}], beside=("channel",)),
    )
    table = with_targets(renamed(table, {name: names[name] for name in names if name in table.columns}))
    column = "target" if "target" in table.columns else task.target
    if column not in table.columns:
        has = ", ".join(table.columns)
        raise InvalidInput(f"{source.path} has no column target; it has {has}.", "Use --map suppress.COLUMN=target.")
    kind = table.schema[column].dataType
    if kind.typeName() not in KEYS:
        raise InvalidInput(
            f"The column {column} of {source.path} is of type {kind.simpleString()}; targets are text.",
            "Convert it to text in the list.",
        )
    channel = f.col("channel").cast("string") if "channel" in table.columns else f.lit(None).cast("string")
    named = f.lower(f.btrim(channel, f.lit(BLANKS)))
    target = f.col(quoted(column)).cast("string")
    refused = f.col(REFUSED) if REFUSED in table.columns else f.lit(None).cast("string")
    named = f.nullif(named, f.lit(""))
    return _of_channel(table.select(target.alias("target"), named.alias("channel"), refused.alias("refused")), task)


def _of_channel(table: "DataFrame", task: TaskOptions) -> "DataFrame":
    """Return the rows of the task's channel, or of none; where the split has the channel, all."""
    from pyspark.sql import functions as f

    if task.channel is None:
        return table
    channel = f.lit(task.channel)
    return table.where(f.col("channel").isNull() | (f.col("channel") == f.lower(channel))).withColumn(
        "channel", channel
    )


def _read(batches: "Iterator[pa.RecordBatch]", forms: Mapping[str, str]) -> "Iterator[pa.RecordBatch]":
    """Return for each row of a list its canonical targets, or the reason why it cannot be one."""
    import pyarrow as pa

    for batch in batches:
        cells = (batch.column(name).to_pylist() for name in ("target", "channel", "refused", "row"))
        given, channels, refused, rows = cells
        read = [
            ([], reason) if text and reason else _keys(text, channel or _ANY, forms)
            for text, channel, reason in zip(given, channels, refused, strict=True)
        ]
        columns = [pa.array([keys for keys, _ in read], pa.list_(pa.string())), pa.array(given, pa.string())]
        columns += [pa.array([problem for _, problem in read], pa.string()), pa.array(rows, pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, ["keys", "given", "problem", "row"])


def _keys(text: str | None, channel: str, forms: Mapping[str, str]) -> tuple[list[str], str | None]:
    """Return the targets that a row names, and the reason if it names none. A row for any channel may name two."""
    if not str(text or "").strip(BLANKS):
        return [], "is empty"
    accepted, refusals = check_each([text], int, None, address_form(channel))
    if refusals:
        return [], refusals[0].reason.removeprefix("the target ")
    address, spec = accepted.addresses[0], SPECS.get(channel)
    problem = spec.check_target(address) if spec is not None else None
    if not problem and channel in forms and not compiled_form(channel, forms[channel]).fullmatch(address):
        problem = OTHER_FORM.removeprefix("the target ")
    if problem:
        return [], problem
    return sorted({address, *(_spellings(address) if channel == _ANY else ())}), None


def _spellings(address: str) -> Iterator[str]:
    """Yield the canonical forms that a text has on channels of which it can be a target."""
    for name, spec in SPECS.items():
        spelled = str(address_form(name).of(address))
        if not spec.check_target(spelled):
            yield spelled


def _counted(path: str, rows: "DataFrame", task: TaskOptions, min_matched: float) -> ListCount:
    """Return the counts of a list. Raises Refused if too few of its rows can be targets."""
    from pyspark.sql import functions as f

    is_empty = f.col("problem") == "is empty"
    first = f.struct("row", "given", "problem")
    found = rows.agg(
        f.count(f.lit(1)).alias("rows"),
        f.count(f.when(f.col("problem").isNull(), 1)).alias("targets"),
        f.count(f.when(is_empty, 1)).alias("empty"),
        f.min(f.when(f.col("problem").isNotNull() & ~is_empty, first)).alias("first"),
    ).collect()[0]
    count = ListCount(path=path, rows=found["rows"], targets=found["targets"], empty=found["empty"])
    if count.targets < min_matched * count.rows:
        bad = found["first"]
        shown = (
            f"The first that cannot: {bad['given'][:_SHOWN]!r} {bad['problem']}." if bad else "All others are empty."
        )
        raise Refused(
            f"Of the suppress list {path} {count.targets:,} of {count.rows:,} rows can be targets of "
            f"{'channel ' + task.channel if task.channel else 'a channel'}, fewer than {min_matched:.0%}: nothing is "
            f"sent. {shown}",
            "Check the list and which column has its targets (--map suppress.COLUMN=target), or accept it with "
            "--min-matched.",
        )
    return count
