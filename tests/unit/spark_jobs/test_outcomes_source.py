"""The source of outcomes without servers: its options, its columns, where a span ends."""

from contextlib import nullcontext

import pytest

from dispatcher.model.errors import InvalidInput
from dispatcher.ports import StoredRecord
from spark_jobs.journal import outcome_topics, outcomes_source
from spark_jobs.journal.outcome_topics import TopicSpan, reached, read_span

pytest.importorskip("pyspark")

from pyspark.sql.datasource import InputPartition

from backends.settings import PulsarSettings
from spark_jobs.journal.outcome_rows import ROWS
from spark_jobs.journal.outcomes_source import BatchReader, OutcomesSource, parse_options
from tests.unit.spark_jobs.journal_world import mixed, outcomes, ran, stored


def test_options_name_the_servers_and_the_place_to_begin() -> None:
    options = parse_options({"pulsar.url": "pulsar://there:1", "maxrecordsperbatch": "7", "start": '{"2": "p"}'})
    assert (options.pulsar.url, options.max_records) == ("pulsar://there:1", 7)
    assert options.first_positions() == {"0": "", "1": "", "2": "p", "3": ""}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starts": "earliest"}, "The option starts does not exist."),
        ({"start": "yesterday"}, "The option start is 'yesterday'."),
        ({"maxrecordsperbatch": "many"}, "maxRecordsPerBatch is 'many'."),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_options(options)


def test_nothing_is_read_where_nothing_is_stored() -> None:
    assert list(BatchReader(parse_options({})).read(InputPartition(None))) == []


def test_the_columns_that_spark_is_told_are_those_of_the_rows() -> None:
    reported = [(field.name, field.nullable) for field in OutcomesSource({}).schema()]
    assert reported == [(field.name, field.nullable) for field in ROWS]


def test_record_stored_twice_has_its_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    record = outcomes(ran(count=2, size=3), mixed(sequence=2, size=2, codes=b"\0\1"))
    monkeypatch.setattr(outcomes_source, "connected", lambda _: nullcontext())
    monkeypatch.setattr(outcomes_source, "read_span", lambda *_: [stored([record, record])])
    batches = BatchReader(parse_options({})).read(InputPartition(TopicSpan(0, "", "9")))
    assert sum(batch.num_rows for batch in batches) == 8


# ------------------------------------------------------------------ spans
def position(entry: int, index: int = 1) -> str:
    return f"{5:020d}:{entry:020d}:{index:06d}"


STORED = [position(entry, index) for entry in range(4) for index in (1, 2, 3)]


class Reader:
    """Reader of a topic with four entries of three records; more are stored once it has been read to its end."""

    def __init__(self, _client: object, _topic: str, after: str | None, _ahead: int) -> None:
        self._left = [place for place in STORED if place > (after or "")]

    def read(self, max_records: int, timeout_s: float) -> list[StoredRecord]:
        assert timeout_s > 0
        taken, self._left = self._left[: min(2, max_records)], self._left[min(2, max_records) :]
        return [StoredRecord(place, b"", "") for place in taken]

    def at_end(self) -> bool:
        return not self._left

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("span", "first", "count", "end"),
    [
        (TopicSpan(0, "", position(3, 999_999)), 0, 12, position(3, 999_999)),
        (TopicSpan(0, "", position(1, 999_999)), 0, 6, position(1, 999_999)),
        (TopicSpan(0, position(0, 2), position(2, 1)), 2, 5, position(2, 1)),
        (TopicSpan(0, "", position(3, 999_999), 5), 0, 5, position(1, 2)),
        (TopicSpan(0, position(1, 999_999), position(3, 999_999)), 6, 6, position(3, 999_999)),
        (TopicSpan(0, position(3, 999_999), position(3, 999_999)), 0, 0, position(3, 999_999)),
        (TopicSpan(0, position(3, 999_999), position(9, 999_999)), 0, 0, position(9, 999_999)),
    ],
)
def test_a_span_is_read_from_behind_its_beginning_to_its_end(
    span: TopicSpan, first: int, count: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome_topics, "TopicReader", Reader)
    found = [record.position for some in read_span(None, PulsarSettings(), span) for record in some]
    assert found == STORED[first : first + count]
    assert reached(None, PulsarSettings(), span) == end
