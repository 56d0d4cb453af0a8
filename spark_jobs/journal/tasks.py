"""Turn control records into rows of the journal's table `tasks`.

There is a row for each acceptance, change of tier, seal and end.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, NamedTuple

from backends.pulsar import client as pulsar_client
from backends.pulsar.topic_reader import TopicReader
from backends.settings import PulsarSettings
from dispatcher.model.errors import Malformed
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import ControlChange, ControlRecord, Finished, Sealed, TaskRecord
from dispatcher.wire.outcome import OUTCOME_NAMES

_log = logging.getLogger(__name__)
CONTROL = "control"
"""The name of the control topic's cursor in the journal's log."""
MAX_RECORDS = 50_000
"""The maximum number of control records in a batch."""
_POLL_S = 0.2


class TaskRows(NamedTuple):
    """Rows of the table `tasks`, and how far the control topic was read."""

    rows: list[dict[str, Any]]
    cursor: str
    """The position of the last record read."""
    more: bool
    """Whether there are further records."""
    accepted: int = 0
    """The number of tasks that were accepted; a task has further rows for its later changes."""


def read_tasks(client: Any, settings: PulsarSettings, after: str) -> TaskRows:
    """Read the control records after a position ("": from the beginning). Raises Unreachable, NotFound."""
    rows: list[dict[str, Any]] = []
    count, accepted, cursor = 0, 0, after
    with closing(TopicReader(client, pulsar_client.topics(settings).control, after or None)) as reader:
        while count < MAX_RECORDS and not reader.at_end():
            for stored in reader.read(1_000, _POLL_S):
                record_rows = list(rows_of(stored.position, stored.body))
                rows += record_rows
                accepted += sum(accepts(row, stored.position) for row in record_rows)
                count, cursor = count + 1, stored.position
    return TaskRows(rows, cursor, count >= MAX_RECORDS, accepted)


def rows_of(position: str, body: bytes) -> Iterator[dict[str, Any]]:
    """Yield the row of a control record; nothing if it cannot be read or the table has no column for it."""
    try:
        position, record = read_control(position, body)
    except Malformed as error:
        _log.warning("control record %s is skipped: %s", position, error.cause)
        return
    facts = _facts(record)
    if facts is not None:
        yield {"task": record.task, "record": position, **facts}  # type: ignore[union-attr]  # each of these has one


def accepts(row: Mapping[str, Any], position: str) -> bool:
    """Return whether the row of the record at this position accepts a task.

    A republished task was accepted before: its row has the position of its first record.
    """
    return "accepted_at" in row and row["record"] == position


def _facts(record: ControlRecord) -> dict[str, Any] | None:
    match record:
        case TaskRecord():
            return {
                "app": record.app,
                "tier": str(record.tier),
                "channel": record.channel,
                "accepted_at": time_of(record.created_ms),
                "expected": record.expected_targets if record.expected_targets >= 0 else None,
            }
        case Sealed():
            return {
                "targets": record.targets,
                "refused": record.refused,
                "digest": record.digest,
                "writers": list(record.writers),
            }
        case ControlChange() if record.field == "tier":
            return {"tier": record.value}
        case Finished():
            counts = dict(zip(OUTCOME_NAMES, record.counts, strict=False))
            return {"state": record.state, "ended_at": time_of(record.at_ms), "reason": record.reason or None, **counts}
        case _:
            return None


def time_of(wall_ms: int) -> datetime:
    """Return a stored time as Spark takes it."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC)
