"""The journal's part of the report on the backlog."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from dispatcher.model.errors import Malformed
from spark_jobs.backlog.journal import NOT_KNOWN, JournalFacts, journal_facts, quantile_s
from spark_jobs.journal.files import OUTCOMES, journal_table
from spark_jobs.storage.data_files import write_rows
from tests.unit.spark_jobs.backlog_rows import ms, outcome

ASKED: dict[str, Any] = {
    "first_ms": ms(0), "step_ms": 10_000, "tiers": {"a": "high", "b": "low"}, "tasks": ["b"],
}  # fmt: skip
"""Stretches of 10 s from the start on."""
SHOP = [
    outcome("a", -1, 5),
    *(outcome("a", second, 0) for second in (0, 3, 9.999)),
    outcome("a", 10, 1_000, attempt=1),
    outcome("a", 12, 1_000, "invalid"),
]
NEWS = [outcome("b", 11, 1_000, "failed", attempt=2), outcome("b", 11, 1_000, "expired")]
UNKNOWN = [outcome("c", 25, 60_000, channel="mail")]


def rows(found: Sequence[Mapping[str, Any]], *fields: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[field] for field in fields) for row in found)


def journal(tables: Path, outcomes: Mapping[str | None, Sequence[Mapping[str, Any]]]) -> Path:
    """A journal of outcomes by app, a file each."""
    table = journal_table(tables, OUTCOMES)
    table.create()
    for app, some in outcomes.items():
        given = [{**row, "app": app} for row in some]
        table.read().commit(write_rows(table.folder, table.schema, given, day="2026-03-04"))
    return tables


@pytest.fixture
def facts(tmp_path: Path) -> JournalFacts:
    found = journal_facts(journal(tmp_path, {"shop": SHOP, "news": NEWS, None: UNKNOWN}), **ASKED)
    assert found is not None
    return found


def test_outcomes_are_summed_up_by_dimension_and_wait(facts: JournalFacts) -> None:
    assert facts.rows == 8
    assert rows(facts.names, "dimension", "name", "bucket", "done", "lost", "retried") == [
        ("app", NOT_KNOWN, 63, 1, 0, 0), ("app", "news", 39, 2, 1, 1), ("app", "shop", 0, 3, 0, 0),
        ("app", "shop", 39, 2, 1, 1), ("channel", "mail", 63, 1, 0, 0), ("channel", "push", 0, 3, 0, 0),
        ("channel", "push", 39, 4, 2, 2), ("tier", NOT_KNOWN, 63, 1, 0, 0), ("tier", "high", 0, 3, 0, 0),
        ("tier", "high", 39, 2, 1, 1), ("tier", "low", 39, 2, 1, 1),
    ]  # fmt: skip


def test_outcomes_are_summed_up_over_time_and_of_some_tasks(facts: JournalFacts) -> None:
    assert rows(facts.by_time, "bin", "app", "bucket", "done") == [
        (0, "shop", 0, 3), (1, "news", 39, 2), (1, "shop", 39, 2), (2, NOT_KNOWN, 63, 1),
    ]  # fmt: skip
    assert rows(facts.tasks, "task", "bucket", "done", "lost", "retried") == [("b", 39, 2, 1, 1)]


def test_a_journal_without_outcomes_of_these_days_has_no_facts(tmp_path: Path) -> None:
    assert journal_facts(tmp_path, **ASKED) is None
    assert journal_facts(journal(tmp_path, {"shop": SHOP}), **ASKED | {"first_ms": ms(86_400)}) is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    bad = next((journal(tmp_path, {"shop": SHOP}) / "journal/outcomes/day=2026-03-04").glob("*.parquet"))
    bad.write_text("no table")
    with pytest.raises(Malformed, match=rf"{bad.name} cannot be read: .* remove it"):
        journal_facts(tmp_path, **ASKED)


@pytest.mark.parametrize("wait_ms", [0, 1, 7, 40, 999, 60_000, 86_400_000])
def test_a_quantile_is_at_most_a_fifth_too_long(tmp_path: Path, wait_ms: int) -> None:
    facts = journal_facts(journal(tmp_path, {"shop": [outcome("b", 1, wait_ms)]}), **ASKED)
    assert facts is not None
    reported_s = quantile_s({row["bucket"]: row["done"] for row in facts.tasks}, 0.5)
    assert reported_s is not None
    assert wait_ms <= reported_s * 1000 <= 1.2 * wait_ms + 0.2


def test_quantiles_count_targets() -> None:
    buckets = {0: 90, 20: 5, 40: 5}
    assert quantile_s(buckets, 0.5) == quantile_s({0: 1}, 0.5)
    assert quantile_s(buckets, 0.95) == quantile_s({20: 1}, 0.5)
    assert quantile_s(buckets, 0.96) == quantile_s({40: 1}, 0.5)
    assert quantile_s({}, 0.5) is None
