"""The snapshots' part of the report on the backlog, on a few rows each."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.backlog import series as backlog_series
from spark_jobs.backlog import snapshots as backlog_snapshots
from spark_jobs.backlog.series import Detail
from tests.unit.spark_jobs.backlog_rows import START_MS, lane, ms, snapshot, task, write

pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS = 86_400_000


@pytest.fixture
def read(spark: "SparkSession", tmp_path: Path) -> Any:
    """Writes snapshots; what it gives reads those at some times back."""

    def read(*rows: dict[str, Any]) -> "Callable[..., DataFrame]":
        found = backlog_snapshots.find(write(tmp_path, *rows), START_MS - DAY_MS)
        return lambda *seconds: found.frame(spark, at(*seconds))

    return read


def rows(frame: "DataFrame", *fields: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*fields).collect())


def at(*seconds: float) -> list[int]:
    return [ms(one) for one in seconds]


def test_times_are_thinned_to_the_last_of_each_stretch() -> None:
    times = list(range(0, 101, 10))
    assert backlog_series.thinned(times, 20) == times
    assert backlog_series.thinned(times, 3) == [0, 50, 100]
    assert backlog_series.thinned([0, 1, 2, 99, 100], 3) == [0, 2, 100]


def test_rates_of_late_begin_at_the_last_snapshot_that_is_old_enough() -> None:
    times = [0, 10_000, 20_000, 30_000]
    assert backlog_series.choose(times, Detail(9, 9, 9, 15)).recent_ms == 10_000
    assert backlog_series.choose(times, Detail(9, 9, 9, 3_600)).recent_ms == 0
    assert backlog_series.choose([5], Detail(9, 9, 9, 60))[-2:] == (5, 5)


def test_of_many_snapshots_those_that_tell_ages_best_are_looked_at() -> None:
    minute, hour = 60_000, 3_600_000
    every = list(range(0, 6 * hour + 1, 10_000))
    times = backlog_series.choose(every, Detail(600, 13, 7, 300))
    assert times.heat == [0, *range(hour, 6 * hour + 1, hour)]
    assert {*times.grid, *times.heat} <= set(times.chosen)
    assert set(range(5 * hour, 6 * hour + 1, 10_000)) <= set(times.chosen)
    assert set(range(2 * hour - minute, 2 * hour + 1, 10_000)) <= set(times.chosen)
    gaps = {later - one for one, later in pairwise(times.chosen)}
    assert max(gaps) <= minute
    assert len(times.chosen) < 1_200 < len(every)


def test_states_are_read_at_the_times_asked_for(read: Any) -> None:
    found = read(
        snapshot(0, task("a", 100, 10, invalid=2, cancelled=5)), snapshot(10, task("a", 100, 50)), snapshot(20)
    )
    states = backlog_series.states(found(0, 20))
    assert rows(states, "at_ms", "task", "worked", "settled", "pending") == [(ms(0), "a", 12, 17, 83)]


def test_a_task_changed_by_what_came_and_what_was_worked_off_between_two_snapshots(read: Any) -> None:
    found = read(
        snapshot(0, task("old", 100, 40, causes={"cap_total": 5_000})),
        snapshot(10, ended=[task("gone", 30, 30, created_ms=ms(2))]),
        snapshot(
            20,
            task("old", 120, 70, expired=10, causes={"cap_total": 9_000, "no_worker": 1_000}),
            task("new", 50, 5, created_ms=ms(15)),
        ),
    )
    both = backlog_series.states(found(0, 20)).unionByName(backlog_series.ends(found(10, 20)))
    changes = backlog_series.changes(both, ms(0), ms(20))
    assert rows(changes, "task", "arrived", "done", "pending", "live") == [
        ("gone", 30, 30, 0, False),
        ("new", 50, 5, 45, True),
        ("old", 20, 30, 40, True),
    ]
    spent = {row["task"]: row["spent"] for row in changes.collect()}
    assert spent == {"gone": {}, "new": {}, "old": {"cap_total": 4_000, "no_worker": 1_000}}


def test_backlog_over_time_by_tier_app_and_channel(read: Any) -> None:
    found = read(
        snapshot(0, task("a", 100, 40), task("b", 10, 0, app="news")),
        snapshot(10, task("b", 10, 4, app="news", tier="low")),
    )
    series = backlog_series.by_dimension(backlog_series.states(found(0, 10)))
    assert rows(series, "dimension", "name", "at_ms", "backlog") == [
        ("app", "news", ms(0), 10), ("app", "news", ms(10), 6), ("app", "shop", ms(0), 60),
        ("channel", "push", ms(0), 70), ("channel", "push", ms(10), 6),
        ("tier", "high", ms(0), 70), ("tier", "low", ms(10), 6),
    ]  # fmt: skip


def test_what_grew_of_a_task_and_since_when(read: Any) -> None:
    old = {"created_ms": ms(-100)}
    found = read(
        snapshot(0, task("old", 100, 0, **old), task("done", 10, 0)),
        snapshot(10, task("old", 100, 80, **old)),
        snapshot(20, task("old", 130, 110, **old)),
        snapshot(30, task("old", 200, 120, **old), task("new", 50, 10, created_ms=ms(25))),
    )
    grew = backlog_series.growth(backlog_series.states(found(0, 10, 20, 30)), ms(0), ms(30))
    assert rows(grew, "task", "backlog", "grew", "since_ms") == [
        ("new", 40, 40, ms(25)),
        ("old", 80, 60, ms(20)),  # 20 waited at 10 s and at 20 s: it grew since the later
    ]


def test_targets_that_wait_are_the_last_that_were_published(read: Any) -> None:
    """100 at first, 40 more by 10 s, none after; 110 of them are settled at 30 s."""
    found = read(
        snapshot(0, task("a", 100, 0, created_ms=ms(-5))),
        snapshot(10, task("a", 140, 60, created_ms=ms(-5))),
        snapshot(30, task("a", 140, 110, created_ms=ms(-5))),
    )
    states = backlog_series.states(found(0, 10, 30))
    cohorts = backlog_series.cohorts(states)
    assert rows(cohorts, "low", "high", "at_ms") == [(0, 100, ms(-5)), (100, 140, ms(10))]
    waiting = backlog_series.waiting(cohorts, states)
    assert rows(waiting, "at_ms", "targets", "age_s") == [
        (ms(0), 100, 5.0),
        (ms(10), 40, 0.0),
        (ms(10), 40, 15.0),
        (ms(30), 30, 20.0),
    ]
    bands = backlog_series.banded(waiting)
    assert rows(backlog_series.oldest(bands, ms(30)), "task", "oldest_s") == [("a", 20.0)]
    assert rows(backlog_series.heat(bands), "at_ms", "band", "targets") == [
        (ms(0), 0, 100),
        (ms(10), 0, 40),
        (ms(10), 1, 40),
        (ms(30), 1, 30),
    ]


def test_what_is_scheduled_waits_from_its_start_on(read: Any) -> None:
    found = read(snapshot(0, task("a", 10, 0, start_ms=ms(20))), snapshot(30, task("a", 10, 0, start_ms=ms(20))))
    states = backlog_series.states(found(0, 30))
    assert rows(backlog_series.waiting(backlog_series.cohorts(states), states), "at_ms", "age_s") == [
        (ms(30), 10.0),
    ]


def test_a_lane_is_skewed_if_one_partition_holds_far_more_than_its_part(read: Any) -> None:
    even, skewed = ([10, 200, 210, 220], [10, 20, 30, 600])
    lanes = [lane("even", count, place) for place, count in enumerate(even)]
    lanes += [lane("skewed", count, place, consumers=place) for place, count in enumerate(skewed)]
    lanes += [lane("small", count, place) for place, count in enumerate([0, 0, 90])] + [lane("plain", 5_000)]
    found = read(snapshot(0, lanes=lanes))
    reported = backlog_series.skewed(found(0).selectExpr("inline(lanes)"), times=2.0, min_entries=100)
    name = "persistent://fairlane/tasks-00/skewed"
    assert rows(reported, "lane", "partitions", "entries", "most", "partition", "consumers") == [
        (name, 4, 660, 600, 3, 0)
    ]
