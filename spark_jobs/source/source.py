"""The data source "fairlane": a table becomes a task, or several.

    sale = {"id": "sale", "app": "shop", "tier": "high", "channel": "fcm", "message": "Sale!"}
    df.write.format("fairlane").mode("append").options(**sale).save()
    df.writeStream.format("fairlane").options(id="alerts", ...).option("checkpointLocation", "...").start()

Rows are written exactly once, in any order. Each attempt of a Spark task has a writer of its own, and a task is held
until its seal. The seal names the writers of the attempts that the job's commit names. Workers drop the envelopes of
all other writers.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from dispatcher.channels.names import sends_nothing
from dispatcher.model.errors import FairlaneError, InvalidInput, Refused
from producers.connection import Connection
from spark_jobs.session.failures import MICRO_BATCHES
from spark_jobs.session.servers import check_configured
from spark_jobs.source.columns import columns_of
from spark_jobs.source.sealing import cancel_left, commit, state_of_tasks
from spark_jobs.source.task_options import check_task, parse_options
from spark_jobs.source.writing import WriteTarget, Written, write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "fairlane"
_BATCH = "streaming.sql.batchId"
_DESCRIPTION = "spark.job.description"

_log = logging.getLogger("fairlane.spark")


@dataclass(frozen=True)
class Message(WriterCommitMessage):
    """The message of an attempt to the driver."""

    written: Written


class FairlaneSource(DataSource):
    """The data source "fairlane"."""

    servers: ClassVar[Mapping[str, str]] = {}
    """Where Pulsar and Redis are, unless an option of the same name overrides it."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> "StructType":
        raise InvalidInput(
            "The format fairlane is written, not read.", 'Read outcomes: `spark.read.format("fairlane-outcomes")`.'
        )

    # Spark calls both writers, with `overwrite` by position.
    def writer(self, schema: "StructType", overwrite: bool) -> "BatchWriter":  # noqa: FBT001
        if overwrite:
            raise Refused("A task is never overwritten.", 'Write with `.mode("append")` and another task id.')
        target = self._target(schema)
        if not target.base:
            raise InvalidInput("The option id is missing: the id of the task.", 'Give it: `.option("id", …)`.')
        _check_task(target, target.base)
        return BatchWriter(target)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "StreamWriter":  # noqa: N802, FBT001
        if overwrite:
            raise Refused(
                "The output mode complete would send to all rows again with each batch.",
                'Write with `.outputMode("append")`; an aggregation needs a watermark for it.',
            )
        target = self._target(schema)
        _check_task(target, target.base or "query")
        return StreamWriter(target._replace(first_stays=True))

    def _target(self, schema: "StructType") -> WriteTarget:
        options = parse_options({**self.servers, **{name.lower(): text for name, text in self.options.items()}})
        check_configured(options.servers.pulsar, options.servers.redis)
        return WriteTarget(options, columns_of(schema, options), options.task)


class BatchWriter(DataSourceArrowWriter):
    """Writes one task, or one for each combination of values in the split columns."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Message:
        return _write(self._target, iterator)

    def commit(self, messages: Sequence[Message | None]) -> None:
        commit_write(self._target, _written(messages))

    def abort(self, messages: Sequence[Message | None]) -> None:
        _log_state_of_tasks(self._target, _written(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one task per micro-batch. Its id is `<id>-<number of the batch>`; `<id>` is the option `id`, or else the
    name of the query."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Message:
        context = TaskContext.get()
        name = self._target.base or _query(context.getLocalProperty(_DESCRIPTION) or "")
        base = f"{name}-{context.getLocalProperty(_BATCH)}"
        return _write(self._target._replace(base=base), iterator)

    def commit(self, messages: Sequence[Message | None], batchId: int) -> None:  # noqa: N803, ARG002  # pyspark's
        """Commit a batch.

        A batch without targets makes no task. A task sealed earlier with another audience stays as it was.
        """
        if None in messages:  # of an epoch in continuous mode, which calls no writer
            error = Refused("A stream of tasks has micro-batches, no continuous trigger.", MICRO_BATCHES)
            _log.error("%s", error)  # since Spark neither shows it nor ends the stream
            raise error
        written = _written(messages)
        if any(part.digest.targets for attempt in written for part in attempt.parts.values()):
            commit_write(self._target._replace(base=written[0].base), written)

    def abort(self, messages: Sequence[Message | None], batchId: int) -> None:  # noqa: N803
        written = _written(messages)
        base = written[0].base if written else f"{self._target.base or 'QUERY'}-{batchId}"
        _log_state_of_tasks(self._target._replace(base=base), written)


def _check_task(target: WriteTarget, base: str) -> None:
    check_task(target.options, base)
    if trial := sends_nothing(target.options.channel or ""):
        _log.warning("%s", trial)
    if not target.columns.whole:
        target.options.check_columns(target.columns.variables)


def _write(target: WriteTarget, batches: "Iterable[pa.RecordBatch]") -> Message:
    batches = iter(batches)
    first = next(batches, None)
    if first is None:  # a partition without rows needs no connection
        return Message(Written(target.base, {}))
    with closing(Connection(target.options.servers)) as connection:
        return Message(write(connection.services(), target, chain((first,), batches)))


def commit_write(target: WriteTarget, attempts: Sequence[Written]) -> None:
    """Seal the tasks that these attempts filled, and cancel those that only other attempts had made.

    Raises as `commit`.
    """
    with closing(Connection(target.options.servers)) as connection:
        services = connection.services()
        committed = commit(services, target, attempts)
        if target.options.split:
            cancel_left(services, target.options, target.base, committed.tasks)


def _log_state_of_tasks(target: WriteTarget, attempts: Sequence[Written]) -> None:
    """Log the state of the tasks. Never fails, so that the caller gets the error that ended the job."""
    try:
        with closing(Connection(target.options.servers)) as connection:
            state = state_of_tasks(connection.services(), target, attempts)
    except FairlaneError as error:
        state = f"Nothing is sent of a task before its seal. The state of the tasks cannot be read: {error}"
    _log.warning("The job failed. %s", state)


def _written(messages: Sequence[Message | None]) -> list[Written]:
    return [message.written for message in messages if message is not None]


def _query(description: str) -> str:
    """Return the query's name: Spark's job descriptions begin with it."""
    name = description.partition("\nid = ")[0].strip()
    if not name:
        raise InvalidInput(
            "The query has no name, from which its tasks would get their ids.",
            'Give one: `.queryName("…")` or `.option("id", "…")`.',
        )
    return name
