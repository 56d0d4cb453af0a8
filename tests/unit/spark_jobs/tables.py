"""Small tables as attempts of a Spark task get them, and what is written of them in memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dispatcher.wire.control import Sealed, TaskRecord
from dispatcher.wire.envelope import Envelope
from producers.ports import Services
from spark_jobs.source.columns import Columns
from spark_jobs.source.task_options import parse_options
from spark_jobs.source.writing import WriteTarget, Written, write
from tests.unit.producers.fake_service import FakeService

pa = pytest.importorskip("pyarrow")

PLAIN = Columns("target", (), frozenset(), "", ())
NAMED = Columns("target", ("name",), frozenset(), "", ())
TASK = {"id": "sale", "app": "shop", "tier": "high", "message": "Sale!"}


def table(rows: Sequence[Mapping[str, Any]]) -> Any:
    return pa.RecordBatch.from_pylist(list(rows))


def people(first: int, count: int) -> list[dict[str, Any]]:
    return [{"target": f"target-{number}", "name": f"name {number}"} for number in range(first, first + count)]


def target(columns: Columns = NAMED, **options: str) -> WriteTarget:
    parsed = parse_options({**TASK, **options})
    return WriteTarget(parsed, columns, parsed.task)


def attempt(services: Services, to: WriteTarget, *batches: Sequence[Mapping[str, Any]]) -> Written:
    return write(services, to, [table(rows) for rows in batches])


def counting(world: FakeService, task: str) -> list[Envelope]:
    """The task's envelopes of the writers that its seal names."""
    seal = next(one for one in world.records if isinstance(one, Sealed) and one.task == task)
    lane = next(one.lane for one in world.records if isinstance(one, TaskRecord) and one.task == task)
    return [envelope for envelope in world.envelopes(lane) if envelope.writer in seal.writers]
