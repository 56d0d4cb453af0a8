"""Read the outcome topics in spans: from a position up to where a topic ended at some time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from backends.pulsar import client as pulsar_client
from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.topic_reader import TopicReader
from backends.settings import PulsarSettings
from dispatcher.ports import StoredRecord

AT_ONCE = 1_000
_POLL_S = 0.2
_AHEAD = 500
"""The number of records to read ahead. Records may name all their targets; each is then about 100 kB."""
_ENTRY_LENGTH = 41
"""The number of leading characters of a position that name the ledger and the entry (a producer's batch)."""


class TopicSpan(NamedTuple):
    """A part of one outcome topic."""

    topic: int
    """The topic's number."""
    after: str
    """The position of the last record before the span; "" starts at the beginning."""
    until: str
    """The position of the last record in the span, or one after it."""
    max_records: int = 0
    """The maximum number of records; 0 for no limit."""

    @property
    def empty(self) -> bool:
        return self.until <= self.after


def last_positions(settings: PulsarSettings) -> dict[str, str]:
    """Return the last possible position in the last entry of each outcome topic, by number; "" if the topic is empty.

    Raises Unreachable, Refused, NotFound (not provisioned).
    """
    topics = pulsar_client.topics(settings)
    return ends_of(settings, {str(each): topics.outcomes(each) for each in range(topics.outcome_partitions)})


def ends_of(settings: PulsarSettings, names: Mapping[str, str]) -> dict[str, str]:
    """Return what `last_positions` does of any topics. names: the topics by key."""
    with closing(PulsarAdmin(settings)) as admin:
        last = {key: admin.last_entry(topic) for key, topic in names.items()}
    return {
        key: f"{ledger:020d}:{entry:020d}:999999" if min(ledger, entry) >= 0 else ""
        for key, (ledger, entry) in last.items()
    }


@contextmanager
def connected(settings: PulsarSettings) -> Iterator[Any]:
    """Connect a Pulsar client for the duration of the block."""
    client = pulsar_client.connect(settings)
    try:
        yield client
    finally:
        pulsar_client.close(client)


def read_span(client: Any, settings: PulsarSettings, span: TopicSpan) -> Iterator[Sequence[StoredRecord]]:
    """Yield the records of a span in order, in batches. Records that the topic no longer keeps are skipped.

    Raises Unreachable, NotFound.
    """
    if span.empty:
        return
    topic = pulsar_client.topics(settings).outcomes(span.topic)
    with closing(TopicReader(client, topic, span.after or None, _AHEAD)) as reader:
        yield from _read(reader, span)


def reached(client: Any, settings: PulsarSettings, span: TopicSpan) -> str:
    """Return the position where reading a span ends: its end, or earlier if it has more records than its limit."""
    count, last = 0, span.after
    for records in read_span(client, settings, span):
        count += len(records)
        last = records[-1].position
    return last if span.max_records and count >= span.max_records else span.until


def _read(reader: TopicReader, span: TopicSpan) -> Iterator[Sequence[StoredRecord]]:
    left = span.max_records
    while True:
        max_records = min(AT_ONCE, left) if span.max_records else AT_ONCE
        records = reader.read(max_records, _POLL_S)
        in_span = [record for record in records if record.position <= span.until]
        if in_span:
            yield in_span
        left -= len(in_span)
        if len(in_span) < len(records) or (span.max_records and not left) or _at_end(reader, span, records):
            return


def _at_end(reader: TopicReader, span: TopicSpan, records: Sequence[StoredRecord]) -> bool:
    """Return whether the span is at its end.

    Asks the broker once the last entry has begun, and when no records arrive: the last record may be gone.
    """
    if not records:
        return reader.at_end()
    last = records[-1].position
    return last == span.until or (last[:_ENTRY_LENGTH] == span.until[:_ENTRY_LENGTH] and reader.at_end())
