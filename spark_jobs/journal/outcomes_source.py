"""The data source "fairlane-outcomes": one row per target outcome, as workers recorded it.

    spark.readStream.format("fairlane-outcomes").load()     # goes on as workers record
    spark.read.format("fairlane-outcomes").load()           # all that is stored by now

Columns: see spark_jobs.journal.outcome_rows.ROWS. The rows are the first final outcomes of targets in a topic's part of
a micro-batch. A record may be stored twice, so a target may have a row in two of these; the first in the order of
(topic, record) counts. The journal (spark_jobs/journal/job.py) has each outcome once.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from backends.settings import PulsarSettings
from dispatcher.model.errors import InvalidInput
from dispatcher.wire.outcome import Outcomes, read_record
from spark_jobs.journal.first_outcomes import FirstOutcomes
from spark_jobs.journal.outcome_rows import ROWS, RowBuilder
from spark_jobs.journal.outcome_topics import TopicSpan, connected, last_positions, reached, read_span
from spark_jobs.session.frames import spark_schema
from spark_jobs.session.servers import NAMES, check_configured, servers_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "fairlane-outcomes"
MAX_RECORDS = 10_000
"""The maximum number of records of each topic in a micro-batch, unless the option maxRecordsPerBatch sets another.

A record has up to 250,000 targets.
"""
_OWN = ("start", "maxrecordsperbatch", "path", "checkpointlocation", "queryname", "outputmode")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of the data source."""

    pulsar: PulsarSettings
    start: str | Mapping[str, str] = "earliest"
    """"earliest", "latest", or a position by topic."""
    max_records: int = MAX_RECORDS
    """The maximum number of records of each topic in a micro-batch; 0 for no limit."""

    def first_positions(self) -> dict[str, str]:
        """Return the position after which to begin, by topic ("": at its beginning)."""
        if self.start == "latest":
            return last_positions(self.pulsar)
        given = self.start if isinstance(self.start, Mapping) else {}
        return {str(topic): given.get(str(topic), "") for topic in range(self.pulsar.outcome_partitions)}


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse the options, whose names are in lower case. Raises InvalidInput."""
    unknown = sorted(set(options) - {*_OWN, *NAMES})
    if unknown:
        raise InvalidInput(
            f"The option {unknown[0]} does not exist.", f"There are: start, maxRecordsPerBatch, {NAMES}."
        )
    max_records = options.get("maxrecordsperbatch", str(MAX_RECORDS))
    if not max_records.isdecimal():
        raise InvalidInput(f"maxRecordsPerBatch is {max_records!r}.", "It must be a whole number; 0 for no limit.")
    return SourceOptions(servers_of(options).pulsar, _start(options.get("start", "earliest")), int(max_records))


def _start(text: str) -> str | Mapping[str, str]:
    if text in ("earliest", "latest"):
        return text
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise InvalidInput(f"The option start is {text!r}.", 'Write earliest, latest or {"0": "POSITION", …}.')
    return {str(topic): str(position) for topic, position in given.items()}


class OutcomesSource(DataSource):
    """The data source "fairlane-outcomes"."""

    servers: ClassVar[Mapping[str, str]] = {}
    """Where Pulsar is, unless an option of the same name overrides it."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> "StructType":
        return spark_schema(ROWS)

    def reader(self, schema: "StructType") -> "BatchReader":  # noqa: ARG002  # pyspark's
        return BatchReader(self._options())

    def streamReader(self, schema: "StructType") -> "StreamReader":  # noqa: N802, ARG002  # pyspark's
        return StreamReader(self._options())

    def _options(self) -> SourceOptions:
        options = parse_options({**self.servers, **{name.lower(): text for name, text in self.options.items()}})
        check_configured(options.pulsar)
        return options


class SpanReader:
    """Reads the rows of a topic's part of a batch. The value of a partition is its TopicSpan."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        pulsar, span = self._options.pulsar, partition.value
        if span is None:  # Spark makes one partition of none
            return
        first, builder = FirstOutcomes(), RowBuilder(span.topic)
        with connected(pulsar) as client:
            for stored in chain.from_iterable(read_span(client, pulsar, span)):
                record = read_record(stored.body)
                if isinstance(record, Outcomes):
                    yield from builder.batches(record, stored.position, first.of(record))
        if builder.rows:
            yield builder.take()


class BatchReader(SpanReader, DataSourceReader):
    """Reads everything that is stored when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        return _partitions(self._options.first_positions(), last_positions(self._options.pulsar))


class StreamReader(SpanReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. An offset is the position of the last record of each topic.

    The driver reads bounded micro-batches once to find where they end: Pulsar does not count records.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._until: dict[str, str] | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  # pyspark's
        return self._options.first_positions()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        max_records = self._options.max_records
        return ReadMaxRows(max_records) if max_records else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until = last_positions(self._options.pulsar)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        pulsar = self._options.pulsar
        ends = self._until or last_positions(pulsar)
        if not isinstance(limit, ReadMaxRows):
            return {topic: max(position, start.get(topic, "")) for topic, position in ends.items()}
        spans = [TopicSpan(int(topic), start.get(topic, ""), end, limit.max_rows) for topic, end in ends.items()]
        if all(span.empty for span in spans):
            return start
        with connected(pulsar) as client:
            return {**start, **{str(span.topic): reached(client, pulsar, span) for span in spans if not span.empty}}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        return _partitions(start, end)


def _partitions(start: Mapping[str, str], end: Mapping[str, str]) -> Sequence[InputPartition]:
    spans = [TopicSpan(int(topic), start.get(topic, ""), position) for topic, position in end.items()]
    return [InputPartition(span) for span in spans if not span.empty]
