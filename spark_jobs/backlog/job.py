"""The report on the backlog: how it came about, what holds it back, when it will be gone.

Spark aggregates the large data (spark_jobs.backlog.facts); the report is made from its results.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.analysis.forecast import forecast
from dispatcher.analysis.rates import ForecastTask, Shares
from dispatcher.analysis.why import SCHEDULED
from dispatcher.model.pools import TOTAL, pools_of
from dispatcher.model.tier import MILLI, TIERS
from spark_jobs.backlog.causes import grouped, mixed
from spark_jobs.backlog.facts import Facts, Fields, ReportOptions, collect
from spark_jobs.backlog.journal import quantile_s
from spark_jobs.backlog.report import (
    FORMAT,
    BacklogGroup,
    BacklogReport,
    Growth,
    ServiceStatus,
    Share,
    Skew,
    TaskBacklog,
    Waits,
    age_bands,
)
from spark_jobs.backlog.snapshots import DIMENSIONS
from spark_jobs.backlog.waves import gaps_of, grown_of, heat_at, series_of
from spark_jobs.journal.tables import outcome_rows, reading
from spark_jobs.session.session import SessionSettings, for_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "fairlane backlog report"
_OF_TASK = (
    "task", "app", "tier", "channel", "state", "held_by", "weight", "cap", "backlog", "in_flight", "retrying",
    "oldest_s", "consumers", "entries",
)  # fmt: skip
"""The fields of a task's backlog that are facts."""


def session_settings(master: str, tables: Path) -> SessionSettings:
    """Return the session settings for a report on these tables."""
    if not master.startswith("local"):
        return SessionSettings(app_name=_NAME, master=master)
    conf = {"spark.sql.shuffle.partitions": "4", "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000"}
    return SessionSettings(app_name=_NAME, master=master, conf={**conf, **for_rows(master, outcome_rows(tables))})


def report(spark: "SparkSession", options: ReportOptions, now_ms: int) -> BacklogReport:
    """Make the report. Raises NotFound if there are no snapshots, and Malformed for a file that cannot be read."""
    with reading(options.tables):
        facts = collect(spark, options)
    return report_of(facts, options, now_ms)


def report_of(facts: Facts, options: ReportOptions, now_ms: int) -> BacklogReport:
    """Return the report made from these facts."""
    made = _Maker(facts, options)
    return BacklogReport(
        format=FORMAT,
        made_ms=now_ms,
        from_ms=facts.times.all[0],
        until_ms=facts.times.last_ms,
        recent_s=made.recent_s,
        snapshots=len(facts.times.all),
        journal_rows=facts.journal.rows if facts.journal else None,
        service=made.service(),
        total=made.group(TOTAL, TOTAL),
        tiers=made.groups("tier"),
        apps=made.groups("app"),
        channels=made.groups("channel"),
        tasks=[made.task(row) for row in facts.live[: options.top]],
        ages=age_bands(heat_at(facts, facts.times.last_ms), made.rate("done", facts.groups)),
        grew=made.grew(),
        shares=made.shares(),
        skewed=[Skew(**row) for row in facts.skewed],
        gaps=gaps_of(facts),
        series=series_of(facts),
        scheduled=sum(row["backlog"] for row in facts.live if row["held_by"] == SCHEDULED),
    )


class _Maker:
    def __init__(self, facts: Facts, options: ReportOptions) -> None:
        self.facts, self.options, self.last = facts, options, facts.service[-1]
        self.recent_s = (facts.times.last_ms - facts.times.recent_ms) / 1000
        """The length of the time span for recent rates; 0 with a single snapshot."""
        self._asked_capacity = options.capacity or int(self.last["capacity"])
        self._tier_weights = {row["tier"]: row["weight"] for row in self.last["tiers"] if row["pool"] == TOTAL}
        self._done_s = self._foreseen(self.rate("done", facts.groups))
        self._done_at_capacity_s = self._foreseen(self._asked_capacity)

    def service(self) -> ServiceStatus:
        return ServiceStatus(
            asked_capacity=self._asked_capacity,
            tier_weights=self._tier_weights,
            **{name: self.last[name] for name in ("capacity", "workers", "sharing", "measured_every_s")},
        )

    def rate(self, field: str, rows: Iterable[Fields]) -> float:
        """Return targets per second. field: "arrived" or "done"."""
        return sum(row[field] for row in rows) / self.recent_s if self.recent_s else 0.0

    # ------------------------------------------------------------- forecasts

    def _foreseen(self, capacity: float) -> Mapping[str, float | None]:
        """Return the seconds until each task is done; empty without a capacity."""
        if not capacity:
            return {}
        jobs = [
            ForecastTask(
                id=row["task"],
                weight=max(1, round(row["weight"] * MILLI)),
                pending=row["backlog"],
                start_s=max(0, row["start_ms"] - self.facts.times.last_ms) / 1000,
                on_hold=row["held_by"] not in ("", SCHEDULED),
                **{name: row[name] for name in ("app", "channel", "tier", "cap")},
            )
            for row in self.facts.live
        ]
        last = self.last
        shares = Shares(
            capacity=capacity,
            tier_weights={tier: round(weight * MILLI) for tier, weight in self._tier_weights.items()},
            caps={pool: float(rate) for pool, rate in (last["caps"] or {}).items()},
            paused=frozenset(last["paused_channels"] or ()),
            sharing=last["sharing"],
            app_weights={app: round(weight * MILLI) for app, weight in (last["app_weights"] or {}).items()},
        )
        return forecast(jobs, shares).done_s

    # ------------------------------------------------------------- groups and tasks

    def groups(self, dimension: str) -> list[BacklogGroup]:
        """Return the groups, the largest first, without those that have neither a backlog nor a recent change."""
        busy = [row for row in self.facts.groups if row["backlog"] or row["arrived"] or row["done"]]
        groups = [self.group(dimension, name) for name in dict.fromkeys(row[dimension] for row in busy)]
        if dimension == "tier":
            return sorted(groups, key=lambda group: [*map(str, TIERS)].index(group.name))
        return sorted(groups, key=lambda group: (-group.backlog, -group.service_rate, group.name))

    def group(self, dimension: str, name: str) -> BacklogGroup:
        rows, live = (
            [row for row in table if dimension == TOTAL or row[dimension] == name]
            for table in (self.facts.groups, self.facts.live)
        )
        backlog, rate = sum(row["backlog"] for row in rows), self.rate("done", rows)
        return BacklogGroup(
            dimension=dimension,
            name=name,
            tasks=sum(row["tasks"] for row in rows),
            backlog=backlog,
            held=sum(row["backlog"] for row in live if row["held_by"]),
            arrival_rate=self.rate("arrived", rows),
            service_rate=rate,
            oldest_s=max((row["oldest_s"] for row in live if row["oldest_s"] is not None), default=None),
            drain_s=drain_s(backlog, rate),
            done_s=_last_of(self._done_s, live),
            done_at_capacity_s=_last_of(self._done_at_capacity_s, live),
            held_back=mixed([(self._held_back(row), row["backlog"]) for row in live]),
            waits=self._waits_of_group(dimension, name),
        )

    def _waits_of_group(self, dimension: str, name: str) -> Waits | None:
        if self.facts.journal is None:
            return None
        kind = DIMENSIONS[0] if dimension == TOTAL else dimension  # each dimension has all outcomes
        rows = (row for row in self.facts.journal.names if row["dimension"] == kind)
        return waits_of(row for row in rows if dimension == TOTAL or row["name"] == name)

    def task(self, row: Fields) -> TaskBacklog:
        rate, journal = self.rate("done", [row]), self.facts.journal
        return TaskBacklog(
            arrival_rate=self.rate("arrived", [row]),
            service_rate=rate,
            drain_s=drain_s(row["backlog"], rate),
            done_s=self._done_s.get(row["task"]),
            done_at_capacity_s=self._done_at_capacity_s.get(row["task"]),
            held_back=self._held_back(row),
            why={cause: ms for cause, ms in (row["spent"] or {}).items() if ms > 0},
            waits=waits_of(each for each in journal.tasks if each["task"] == row["task"]) if journal else None,
            **{name: row[name] for name in _OF_TASK},
        )

    def _held_back(self, row: Fields) -> dict[str, float]:
        window_ms = self.facts.times.last_ms - max(self.facts.times.recent_ms, row["created_ms"])
        return grouped(row["spent"] or {}, held=bool(row["held_by"]), window_ms=max(0, window_ms))

    # ------------------------------------------------------------- the rest

    def grew(self) -> list[Growth]:
        """Return the largest growth of all tasks, tiers, apps and channels."""
        tasks = [
            Growth("task", row["task"], row["backlog"], row["grew"], row["since_ms"])
            for row in self.facts.live
            if row["grew"]
        ]
        growths = sorted([*tasks, *grown_of(self.facts)], key=lambda each: (-each.grew, each.dimension, each.name))
        return [growth for growth in growths if growth.grew > 0][: self.options.top]

    def shares(self) -> list[Share]:
        """Return the shares in every pool that has a cap, and in the total."""
        return [
            share for pool in dict.fromkeys(row["pool"] for row in self.last["tiers"]) for share in self._pool(pool)
        ]

    def _pool(self, pool: str) -> list[Share]:
        rows = [row for row in self.facts.groups if pool == TOTAL or pool in pools_of(row["app"], row["channel"])]
        done = {tier: sum(row["done"] for row in rows if row["tier"] == tier) for tier in map(str, TIERS)}
        total = sum(done.values())
        return [
            Share(
                got=done[row["tier"]] / total if total else 0.0,
                done=done[row["tier"]],
                **{name: row[name] for name in ("pool", "tier", "cap", "backlog", "wanted")},
            )
            for row in self.last["tiers"]
            if row["pool"] == pool
        ]


def drain_s(backlog: int, rate: float) -> float | None:
    """Return the backlog divided by the rate: 0 without a backlog, None if nothing is sent."""
    if not backlog:
        return 0.0
    return backlog / rate if rate > 0 else None


def _last_of(done_s: Mapping[str, float | None], live: Iterable[Fields]) -> float | None:
    """Return when the last task that may be sent now is done; 0 if there is none.

    The end of a scheduled task depends on its start and not on the rate, so it does not count.
    """
    ends = [done_s.get(row["task"]) for row in live if not row["held_by"]]
    known = [end for end in ends if end is not None]
    return max(known, default=0.0) if len(known) == len(ends) else None


def waits_of(rows: Iterable[Fields]) -> Waits:
    """Return the waits of rows with a bucket, done, sent, lost and retried."""
    buckets: dict[int, int] = defaultdict(int)
    retried = lost = 0
    for row in rows:
        buckets[row["bucket"]] += row["done"]
        retried, lost = retried + row["retried"], lost + row["lost"]
    done = sum(buckets.values())
    if not done:
        return Waits()
    return Waits(done, quantile_s(buckets, 0.5), quantile_s(buckets, 0.95), retried / done, lost / done)
