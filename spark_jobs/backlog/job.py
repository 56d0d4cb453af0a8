"""The report on the backlog: how it came about, what holds it back, when it will be gone.

Spark aggregates the large data (spark_jobs.backlog.facts); the report is made from its results.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.analysis.forecast import ForecastTask, Shares, forecast
from dispatcher.analysis.why import SCHEDULED
from dispatcher.model.pools import TOTAL, pools_of
from dispatcher.model.tier import MILLI, TIERS
from spark_jobs.backlog.causes import grouped, mixed
from spark_jobs.backlog.facts import Facts, Fields, JournalFacts, ReportOptions, collect
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
from spark_jobs.backlog.series import DIMENSIONS
from spark_jobs.backlog.waves import gaps_of, grown_of, heat_at, series_of
from spark_jobs.journal.tables import outcome_rows, reading
from spark_jobs.session.session import SessionSettings, for_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "fairlane backlog report"


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
    rows = facts.journal.rows if facts.journal else None
    return BacklogReport(
        format=FORMAT,
        made_ms=now_ms,
        from_ms=facts.times.all[0],
        until_ms=facts.times.last_ms,
        recent_s=made.recent_s,
        snapshots=len(facts.times.all),
        journal_rows=rows,
        service=made.service(),
        total=made.group(TOTAL, TOTAL),
        tiers=made.groups("tier"),
        apps=made.groups("app"),
        channels=made.groups("channel"),
        tasks=[made.task(row) for row in facts.live[: options.top]],
        ages=age_bands(heat_at(facts, facts.times.last_ms), made.rate("done")),
        grew=made.grew(),
        shares=made.shares(),
        skewed=[_skew(row) for row in facts.skewed],
        gaps=gaps_of(facts),
        series=series_of(facts),
        scheduled=sum(row["pending"] for row in facts.live if row["held"] == SCHEDULED),
    )


@dataclass(frozen=True)
class _Maker:
    facts: Facts
    options: ReportOptions

    @property
    def recent_s(self) -> float:
        """Return the length of the time span for recent rates; 0 with a single snapshot."""
        return (self.facts.times.last_ms - self.facts.times.recent_ms) / 1000

    @property
    def last(self) -> Fields:
        return self.facts.service[-1]

    def service(self) -> ServiceStatus:
        weights = {row["tier"]: row["weight"] for row in self.last["tiers"] if row["pool"] == TOTAL}
        last = self.last
        return ServiceStatus(
            capacity=last["capacity"],
            asked_capacity=self._asked,
            workers=last["workers"],
            tier_weights=weights,
            sharing=last["sharing"],
            measured_every_s=last["measured_every_s"],
        )

    def rate(self, field: str, chosen: Callable[[Fields], bool] = lambda _: True) -> float:
        """Return targets per second. field: "arrived" or "done"."""
        targets = sum(row[field] for row in self.facts.groups if chosen(row))
        return targets / self.recent_s if self.recent_s else 0.0

    # ------------------------------------------------------------- forecasts

    @property
    def _asked(self) -> int:
        return self.options.capacity or int(self.last["capacity"])

    @cached_property
    def _jobs(self) -> list[ForecastTask]:
        return [self._job(row) for row in self.facts.live]

    def _job(self, row: Fields) -> ForecastTask:
        starts_s = max(0, row["start_ms"] - self.facts.times.last_ms) / 1000
        held = row["held"] not in ("", SCHEDULED)
        weight = max(1, round(row["weight"] * MILLI))
        return ForecastTask(
            id=row["task"],
            app=row["app"],
            channel=row["channel"],
            tier=row["tier"],
            weight=weight,
            pending=row["pending"],
            cap=row["cap"],
            start_s=starts_s,
            on_hold=held,
        )

    def _foreseen(self, capacity: float) -> Mapping[str, float | None]:
        """Return the seconds until each task is done; empty without a capacity."""
        if not capacity:
            return {}
        last = self.last
        shares = Shares(
            capacity=capacity,
            tier_weights={row["tier"]: round(row["weight"] * MILLI) for row in last["tiers"] if row["pool"] == TOTAL},
            caps={pool: float(rate) for pool, rate in (last["caps"] or {}).items()},
            paused=frozenset(last["paused_channels"] or ()),
            sharing=last["sharing"],
            app_weights={app: round(weight * MILLI) for app, weight in (last["app_weights"] or {}).items()},
        )
        return forecast(self._jobs, shares).done_s

    @cached_property
    def _done_s(self) -> Mapping[str, float | None]:
        return self._foreseen(self.rate("done"))

    @cached_property
    def _done_at_capacity_s(self) -> Mapping[str, float | None]:
        return self._foreseen(self._asked)

    # ------------------------------------------------------------- groups and tasks

    def groups(self, dimension: str) -> list[BacklogGroup]:
        """Return the groups, the largest first, without those that have neither a backlog nor a recent change."""
        busy = [row for row in self.facts.groups if row["backlog"] or row["arrived"] or row["done"]]
        groups = [self.group(dimension, name) for name in dict.fromkeys(row[dimension] for row in busy)]
        if dimension == "tier":
            return sorted(groups, key=lambda group: [*map(str, TIERS)].index(group.name))
        return sorted(groups, key=lambda group: (-group.backlog, -group.service_rate, group.name))

    def group(self, dimension: str, name: str) -> BacklogGroup:
        def chosen(row: Fields) -> bool:
            return dimension == TOTAL or row[dimension] == name

        rows = [row for row in self.facts.groups if chosen(row)]
        live = [row for row in self.facts.live if chosen(row)]
        backlog, rate = sum(row["backlog"] for row in rows), self.rate("done", chosen)
        return BacklogGroup(
            dimension=dimension,
            name=name,
            tasks=sum(row["tasks"] for row in rows),
            backlog=backlog,
            held=sum(row["pending"] for row in live if row["held"]),
            arrival_rate=self.rate("arrived", chosen),
            service_rate=rate,
            oldest_s=max((row["oldest_s"] for row in live if row["oldest_s"] is not None), default=None),
            drain_s=drain_s(backlog, rate),
            done_s=_last_of(self._done_s, live),
            done_at_capacity_s=_last_of(self._done_at_capacity_s, live),
            held_back=mixed([(self._held_back(row), row["pending"]) for row in live]),
            waits=self._waits("names", lambda row: (dimension == TOTAL and row["dimension"] == DIMENSIONS[0]) or (
                row["dimension"], row["name"]) == (dimension, name)),
        )  # fmt: skip

    def task(self, row: Fields) -> TaskBacklog:
        rate = row["done"] / self.recent_s if self.recent_s else 0.0
        return TaskBacklog(
            task=row["task"],
            app=row["app"],
            tier=row["tier"],
            channel=row["channel"],
            state=row["state"],
            held_by=row["held"],
            weight=row["weight"],
            cap=row["cap"],
            backlog=row["pending"],
            in_flight=row["in_flight"],
            retrying=row["retrying"],
            arrival_rate=row["arrived"] / self.recent_s if self.recent_s else 0.0,
            service_rate=rate,
            oldest_s=row["oldest_s"],
            drain_s=drain_s(row["pending"], rate),
            done_s=self._done_s.get(row["task"]),
            done_at_capacity_s=self._done_at_capacity_s.get(row["task"]),
            held_back=self._held_back(row),
            why={cause: ms for cause, ms in (row["spent"] or {}).items() if ms > 0},
            consumers=row["consumers"],
            entries=row["entries"],
            waits=self._waits("tasks", lambda row_of_task: row_of_task["task"] == row["task"]),
        )

    def _held_back(self, row: Fields) -> dict[str, float]:
        window_ms = self.facts.times.last_ms - max(self.facts.times.recent_ms, row["created_ms"])
        return grouped(row["spent"] or {}, held=bool(row["held"]), window_ms=max(0, window_ms))

    def _waits(self, table: str, chosen: Callable[[Fields], bool]) -> Waits | None:
        journal: JournalFacts | None = self.facts.journal
        return None if journal is None else waits_of(row for row in getattr(journal, table) if chosen(row))

    # ------------------------------------------------------------- the rest

    def grew(self) -> list[Growth]:
        """Return the largest growth of all tasks, tiers, apps and channels."""
        tasks = [
            Growth("task", row["task"], row["pending"], row["grew"], row["since_ms"])
            for row in self.facts.live
            if row["grew"]
        ]
        growths = sorted([*tasks, *grown_of(self.facts)], key=lambda one: (-one.grew, one.dimension, one.name))
        return [one for one in growths if one.grew > 0][: self.options.top]

    def shares(self) -> list[Share]:
        """Return the shares in every pool that has a cap, and in the total."""
        return [
            share for pool in dict.fromkeys(row["pool"] for row in self.last["tiers"]) for share in self._pool(pool)
        ]

    def _pool(self, pool: str) -> list[Share]:
        done = {
            tier: sum(row["done"] for row in self.facts.groups if row["tier"] == tier and _is_in(row, pool))
            for tier in map(str, TIERS)
        }
        total = sum(done.values())
        return [
            Share(
                pool=pool,
                tier=row["tier"],
                cap=row["cap"],
                backlog=row["backlog"],
                wanted=row["wanted"],
                got=done[row["tier"]] / total if total else 0.0,
                done=done[row["tier"]],
            )
            for row in self.last["tiers"]
            if row["pool"] == pool
        ]


def _is_in(row: Fields, pool: str) -> bool:
    return pool == TOTAL or pool in pools_of(row["app"], row["channel"])


def drain_s(backlog: int, rate: float) -> float | None:
    """Return the backlog divided by the rate: 0 without a backlog, None if nothing is sent."""
    if not backlog:
        return 0.0
    return backlog / rate if rate > 0 else None


def _last_of(done_s: Mapping[str, float | None], live: Iterable[Fields]) -> float | None:
    """Return when the last task that may be sent now is done; 0 if there is none.

    The end of a scheduled task depends on its start and not on the rate, so it does not count.
    """
    rows = [row for row in live if not row["held"]]
    ends = [done_s.get(row["task"]) for row in rows]
    if not rows:
        return 0.0
    return None if any(end is None for end in ends) else max(end for end in ends if end is not None)


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


def _skew(row: Fields) -> Skew:
    times = row["most"] * row["partitions"] / row["entries"]
    return Skew(
        lane=row["lane"],
        partitions=row["partitions"],
        entries=row["entries"],
        partition=row["partition"],
        most=row["most"],
        times=times,
        consumers=row["consumers"],
    )
