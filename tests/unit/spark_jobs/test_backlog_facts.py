"""The facts that Spark collects from snapshots for the report on the backlog, on a few rows each."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.spark_jobs.backlog_rows import lane, ms, snapshot, task, write

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
    assert choose(times, max_times=9, bins=9, heat_bins=9, recent_s=15).recent_ms == 10_000
    assert choose(times, max_times=9, bins=9, heat_bins=9, recent_s=3_600).recent_ms == 0
    assert choose([5], max_times=9, bins=9, heat_bins=9, recent_s=60)[-2:] == (5, 5)


def test_of_many_snapshots_those_that_tell_ages_best_are_looked_at() -> None:
    minute, hour = 60_000, 3_600_000
    every = list(range(0, 6 * hour + 1, 10_000))
    times = choose(every, max_times=600, bins=13, heat_bins=7, recent_s=300)
    assert times.heat == [0, *range(hour, 6 * hour + 1, hour)]
    assert {*times.grid, *times.heat} <= set(times.chosen)
    assert set(range(5 * hour, 6 * hour + 1, 10_000)) <= set(times.chosen)
    assert set(range(2 * hour - minute, 2 * hour + 1, 10_000)) <= set(times.chosen)
    gaps = {later - one for one, later in pairwise(times.chosen)}
    assert max(gaps) <= minute
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
        snapshot(0, task("old", 100, 40, causes={"cap_total": 5_000})),
        snapshot(10, ended=[task("gone", 30, 30, created_ms=ms(2))]),
        snapshot(
            20,
            task("old", 120, 70, expired=10, causes={"cap_total": 9_000, "no_worker": 1_000}),
            task("new", 50, 5, created_ms=ms(15)),
        ),
    )
    both = found.tasks(spark, at(0, 20)).unionByName(found.tasks(spark, at(10, 20), column="ended"))
    changes = facts.changes_of(both, ms(0), ms(20))
    assert rows(changes, "task", "arrived", "done", "pending", "live") == [
        ("gone", 30, 30, 0, False),
        ("new", 50, 5, 45, True),
        ("old", 20, 30, 40, True),
    ]
    spent = {row["task"]: row["spent"] for row in changes.collect()}
    assert spent == {"gone": {}, "new": {}, "old": {"cap_total": 4_000, "no_worker": 1_000}}


def test_backlog_over_time_by_tier_app_and_channel(read: Read) -> None:
    tasks = read(
        snapshot(0, task("a", 100, 40), task("b", 10, 0, app="news")),
        snapshot(10, task("b", 10, 4, app="news", tier="low")),
    )
    assert rows(facts.by_dimension(tasks), "dimension", "name", "at_ms", "backlog") == [
        ("app", "news", ms(0), 10), ("app", "news", ms(10), 6), ("app", "shop", ms(0), 60),
        ("channel", "push", ms(0), 70), ("channel", "push", ms(10), 6),
        ("tier", "high", ms(0), 70), ("tier", "low", ms(10), 6),
    ]  # fmt: skip


def test_what_grew_of_a_task_and_since_when(read: Read) -> None:
    old = {"created_ms": ms(-100)}
    tasks = read(
        snapshot(0, task("old", 100, 0, **old), task("done", 10, 0)),
        snapshot(10, task("old", 100, 80, **old)),
        snapshot(20, task("old", 130, 110, **old)),
        snapshot(30, task("old", 200, 120, **old), task("new", 50, 10, created_ms=ms(25))),
    )
    assert rows(facts.growth(tasks, ms(0), ms(30)), "task", "grew", "since_ms") == [
        ("new", 40, ms(25)),
        ("old", 60, ms(20)),  # 20 waited at 10 s and at 20 s: it grew since the later
    ]


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
    bands = facts.banded(waiting)
    assert rows(facts.oldest(bands, ms(30)), "task", "oldest_s") == [("a", 20.0)]
    assert rows(facts.heat(bands), "at_ms", "band", "targets") == [
        (ms(0), 0, 100),
        (ms(10), 0, 40),
        (ms(10), 1, 40),
        (ms(30), 1, 30),
    ]


def test_what_is_scheduled_waits_from_its_start_on(read: Read) -> None:
    tasks = read(snapshot(0, task("a", 10, 0, start_ms=ms(20))), snapshot(30, task("a", 10, 0, start_ms=ms(20))))
    assert rows(facts.waiting(facts.cohorts(tasks), tasks), "at_ms", "age_s") == [(ms(30), 10.0)]


def test_a_lane_is_skewed_if_one_partition_holds_far_more_than_its_part(spark: "SparkSession", stored: Stored) -> None:
    even, skewed = ([10, 200, 210, 220], [10, 20, 30, 600])
    lanes = [lane("even", count, place) for place, count in enumerate(even)]
    lanes += [lane("skewed", count, place, consumers=place) for place, count in enumerate(skewed)]
    lanes += [lane("small", count, place) for place, count in enumerate([0, 0, 90])] + [lane("plain", 5_000)]
    found = stored(snapshot(0, lanes=lanes))
    reported = facts.skewed(found.lanes(spark, ms(0)), times=2.0, min_entries=100)
    name = "persistent://fairlane/tasks-00/skewed"
    assert rows(reported, "lane", "partitions", "entries", "most", "partition", "times", "consumers") == [
        (name, 4, 660, 600, 3, 600 * 4 / 660, 0)
    ]
