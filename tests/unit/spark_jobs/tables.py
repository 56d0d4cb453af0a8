"""Small tables as attempts of a Spark task get them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from spark_jobs.source.columns import Columns
from spark_jobs.source.task_options import parse_options
from spark_jobs.source.writing import WriteTarget

pa = pytest.importorskip("pyarrow")

PLAIN = Columns("target", (), "", ())
NAMED = Columns("target", ("name",), "", ())
TASK = {"id": "sale", "app": "shop", "tier": "high", "channel": "log", "message": "Sale!"}


def table(rows: Sequence[Mapping[str, Any]]) -> Any:
    return pa.RecordBatch.from_pylist(list(rows))


def people(first: int, count: int) -> list[dict[str, Any]]:
    return [{"target": f"target-{number}", "name": f"name {number}"} for number in range(first, first + count)]


def target(columns: Columns = NAMED, **options: str) -> WriteTarget:
    parsed = parse_options({**TASK, **options})
    return WriteTarget(parsed, columns, parsed.task)
