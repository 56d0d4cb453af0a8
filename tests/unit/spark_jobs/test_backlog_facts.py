"""The facts that Spark collects from snapshots for the report on the backlog, on a few rows each."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.spark_jobs.backlog_rows import ms, snapshot, task, write

pytest.importorskip("pyarrow")

from spark_jobs.backlog import facts
from spark_jobs.backlog.snapshots import TIMELINE_FIELDS, Snapshots, choose, find, thinned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Stored = Callable[..., Snapshots]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """Writes snapshots and finds them."""
    return lambda *rows: find(write(tmp_path, *rows), ms(-86_400))


Read = Callable[..., "DataFrame"]


@pytest.fixture
def read(spark: "SparkSession", stored: Stored) -> Read:
    """Writes snapshots and reads the tasks of all of them."""

    def read(*rows: dict[str, Any]) -> "DataFrame":
        found = stored(*rows)
        return found.tasks(spark, found.times, TIMELINE_FIELDS)

    return read


def rows(frame: "DataFrame", *fields: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*fields).collect())


def at(*seconds: float) -> list[int]:
    return [ms(one) for one in seconds]


def test_times_are_thinned_to_the_last_of_each_stretch() -> None:
    times = list(range(0, 101, 10))
    assert thinned(times, 20) == times
    assert thinned(times, 3) == [0, 50, 100]
    assert thinned([0, 1, 2, 99, 100], 3) == [0, 2, 100]


def test_rates_of_late_begin_at_the_last_snapshot_that_is_old_enough() -> None:
    times = [0, 10_000, 20_000, 30_000]
    assert choose(times, max_times=9, bins=9, recent_s=15).recent_ms == 10_000
    assert choose(times, max_times=9, bins=9, recent_s=3_600).recent_ms == 0
    assert choose([5], max_times=9, bins=9, recent_s=60)[-2:] == (5, 5)


def test_of_many_snapshots_those_that_tell_ages_best_are_looked_at() -> None:
    minute, hour = 60_000, 3_600_000
    every = list(range(0, 6 * hour + 1, 10_000))
    times = choose(every, max_times=600, bins=13, recent_s=300)
    assert {*times.grid, *range(5 * hour, 6 * hour + 1, 10_000)} <= set(times.chosen)
    assert max(later - one for one, later in pairwise(times.chosen)) <= minute
    assert len(times.chosen) < 1_200 < len(every)


def test_tasks_are_read_at_the_times_asked_for(spark: "SparkSession", stored: Stored) -> None:
    found = stored(
        snapshot(0, task("a", 100, 10, invalid=2, cancelled=5)), snapshot(10, task("a", 100, 50)), snapshot(20)
    )
    tasks = found.tasks(spark, at(0, 20))
    assert rows(tasks, "at_ms", "task", "worked", "settled", "pending") == [(ms(0), "a", 12, 17, 83)]


def test_a_task_changed_by_what_came_and_what_was_worked_off_between_two_snapshots(
    spark: "SparkSession", stored: Stored
) -> None:
    found = stored(
        snapshot(0, task("old", 100, 40)),
        snapshot(5, ended=[task("before", 20, 20, created_ms=ms(1))]),
        snapshot(10, task("old", 100, 50)),
        snapshot(15, ended=[task("gone", 30, 30, created_ms=ms(12))]),
        snapshot(20, task("old", 120, 70, expired=10), task("new", 50, 5, created_ms=ms(15))),
    )
    marks = found.tasks(spark, at(0, 10, 20)).unionByName(found.tasks(spark, found.times, column="ended"))
    assert rows(facts.changes_of(marks, ms(10), ms(20)), "task", "arrived", "done", "backlog", "live") == [
        ("before", 0, 0, 0, False),
        ("gone", 30, 30, 0, False),
        ("new", 50, 5, 45, True),
        ("old", 20, 20, 40, True),
    ]


def test_time_spans_begin_at_round_times() -> None:
    spans = facts.spans_of(at(-600, 0, 86_400 - 1_200))
    assert (spans.first_ms, spans.step_ms, len(spans.hours)) == (ms(-3_600), 3_600_000, 25)
    assert [round(hours, 3) for hours in (*spans.hours[:2], spans.hours[-1])] == [0.0, 0.167, 23.667]
    assert facts.spans_of(at(0)) == facts.Spans(ms(0), 1_000, [0.0])


def test_a_task_waits_from_one_snapshot_to_the_next(spark: "SparkSession", stored: Stored) -> None:
    """Also while it is paused; one that is scheduled for later does not wait."""
    found = stored(
        snapshot(0, task("a", 100, 0)),
        snapshot(1_800, task("a", 100, 40), task("s", 9, 0, held="scheduled")),
        snapshot(3_600, task("a", 100, 80, held="paused")),
    )
    spans = facts.Spans(ms(0), 3_600_000, [])
    states = found.tasks(spark, found.times, (*TIMELINE_FIELDS, "held"))
    waited = facts.waited_in(spark, states, found.times, spans)
    assert rows(waited, "task", "span", "held", "target_hours") == [("a", 0, "", 30.0), ("a", 1, "paused", 10.0)]


def test_causes_are_counted_from_the_first_snapshot_to_the_end_of_a_task(spark: "SparkSession", stored: Stored) -> None:
    found = stored(
        snapshot(0, task("old", 100, 40, causes={"cap_total": 5_000})),
        snapshot(10, ended=[task("gone", 30, 30, causes={"provider": 3_000})]),
        snapshot(20, task("old", 120, 70, causes={"cap_total": 9_000, "no_worker": 1_000})),
    )
    marks = found.tasks(spark, at(0, 20)).unionByName(found.tasks(spark, found.times, column="ended"))
    counted = facts.spent_in(marks, ms(0), facts.Spans(ms(0), 15_000, []))
    assert rows(counted, "task", "span", "cause", "ms") == [
        ("gone", 0, "provider", 3_000), ("old", 1, "cap_total", 4_000), ("old", 1, "no_worker", 1_000),
    ]  # fmt: skip


def test_targets_that_wait_are_the_last_that_were_published(read: Read) -> None:
    """100 at first, 40 more by 10 s, none after; 110 of them are settled at 30 s."""
    tasks = read(
        snapshot(0, task("a", 100, 0, created_ms=ms(-5))),
        snapshot(10, task("a", 140, 60, created_ms=ms(-5))),
        snapshot(30, task("a", 140, 110, created_ms=ms(-5))),
    )
    cohorts = facts.cohorts(tasks)
    assert rows(cohorts, "low", "high", "begun_ms") == [(0, 100, ms(-5)), (100, 140, ms(10))]
    waiting = facts.waiting(cohorts, tasks)
    assert rows(waiting, "at_ms", "targets", "age_s") == [
        (ms(0), 100, 5.0),
        (ms(10), 40, 0.0),
        (ms(10), 40, 15.0),
        (ms(30), 30, 20.0),
    ]
    bands = facts.banded(waiting.where(f"at_ms = {ms(30)}"))
    assert rows(bands, "task", "band", "targets", "oldest_s") == [("a", 1, 30, 20.0)]


def test_what_is_scheduled_waits_from_its_start_on(read: Read) -> None:
    tasks = read(snapshot(0, task("a", 10, 0, start_ms=ms(20))), snapshot(30, task("a", 10, 0, start_ms=ms(20))))
    assert rows(facts.waiting(facts.cohorts(tasks), tasks), "at_ms", "age_s") == [(ms(30), 10.0)]
