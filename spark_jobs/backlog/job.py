"""The report on the backlog: how it came about, what holds it back, when it will be gone.

Spark aggregates the large data (spark_jobs.backlog.facts); the report is made from its results.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dispatcher.analysis.forecast import forecast
from dispatcher.analysis.rates import ForecastTask, Shares
from dispatcher.analysis.why import SCHEDULED
from dispatcher.model.pools import TOTAL
from dispatcher.model.tier import MILLI, TIERS
from spark_jobs.backlog.causes import HELD, fractions, reason_of
from spark_jobs.backlog.facts import Facts, Fields, ReportOptions, collect, longest
from spark_jobs.backlog.journal import quantile_s
from spark_jobs.backlog.report import (
    FORMAT,
    BacklogGroup,
    BacklogReport,
    ServiceStatus,
    TaskWaits,
    Waits,
    age_bands,
)
from spark_jobs.backlog.snapshots import DIMENSIONS
from spark_jobs.backlog.waves import Waited, blamed, gaps_of, series_of
from spark_jobs.journal.tables import reading
from spark_jobs.session.session import SessionSettings, for_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "fairlane backlog report"


def session_settings(master: str) -> SessionSettings:
    """Return the session settings for a report."""
    conf = {"spark.sql.shuffle.partitions": "4", "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000"}
    is_local = master.startswith("local")
    return SessionSettings(app_name=_NAME, master=master, conf={**conf, **for_rows(master, 0)} if is_local else {})


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
        tasks=made.tasks(),
        ages=age_bands({row["band"]: row["targets"] for row in facts.ages}, made.rate("done", facts.groups)),
        gaps=gaps_of(facts),
        series=series_of(facts, made.waited),
        scheduled=sum(row["backlog"] for row in made.live if row["held"] == SCHEDULED),
    )


class _Maker:
    def __init__(self, facts: Facts, options: ReportOptions) -> None:
        self.facts, self.options, self.last = facts, options, facts.service[-1]
        self.live = [row for row in facts.tasks if row["backlog"]]
        self.waited = list(blamed(facts))
        self._now = [each for each in self.waited if each.span == len(facts.spans.hours) - 1]
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
                on_hold=row["held"] != SCHEDULED and reason_of(row["held"]) == HELD,
                **{name: row[name] for name in ("app", "channel", "tier", "cap")},
            )
            for row in self.live
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
            for table in (self.facts.groups, self.live)
        )
        return BacklogGroup(
            dimension=dimension,
            name=name,
            tasks=sum(row["tasks"] for row in rows),
            backlog=sum(row["backlog"] for row in rows),
            held=sum(row["backlog"] for row in live if reason_of(row["held"]) == HELD),
            arrival_rate=self.rate("arrived", rows),
            service_rate=self.rate("done", rows),
            oldest_s=max((row["oldest_s"] for row in live if row["oldest_s"] is not None), default=None),
            done_s=_last_of(self._done_s, live),
            done_at_capacity_s=_last_of(self._done_at_capacity_s, live),
            held_back=_held_back(each for each in self._now if dimension == TOTAL or each.row[dimension] == name),
            waits=self._waits_of_group(dimension, name),
        )

    def _waits_of_group(self, dimension: str, name: str) -> Waits | None:
        if self.facts.journal is None:
            return None
        kind = DIMENSIONS[0] if dimension == TOTAL else dimension  # each dimension has all outcomes
        rows = (row for row in self.facts.journal.names if row["dimension"] == kind)
        return waits_of(row for row in rows if dimension == TOTAL or row["name"] == name)

    def tasks(self) -> list[TaskWaits]:
        """Return the tasks that waited most."""
        rows = {row["task"]: row for row in self.facts.tasks}
        names = [name for name in longest(self.facts.waited, self.options.top) if name in rows]
        return [self._task(rows[name], [each for each in self.waited if each.row["task"] == name]) for name in names]

    def _task(self, row: Fields, waited: list[Waited]) -> TaskWaits:
        journal, name = self.facts.journal, row["task"]
        return TaskWaits(
            held_by=row["held"],
            targets=row["published"],
            service_rate=self.rate("done", [row]),
            begun_ms=max(row["created_ms"], row["start_ms"]),
            ended_ms=None if row["live"] else row["finished_ms"] or row["at_ms"],
            target_hours=sum(each.target_hours for each in waited),
            held_back=_held_back(waited),
            done_s=self._done_s.get(name),
            done_at_capacity_s=self._done_at_capacity_s.get(name),
            waits=waits_of(each for each in journal.tasks if each["task"] == name) if journal else None,
            **{field: row[field] for field in ("task", "app", "tier", "channel", "state", "backlog")},
        )


def _held_back(waited: Iterable[Waited]) -> dict[str, float]:
    """Return parts of the waiting by cause, the largest first."""
    amounts: dict[str, float] = defaultdict(float)
    for each in waited:
        amounts[each.cause] += each.target_hours
    return fractions(amounts)


def _last_of(done_s: Mapping[str, float | None], live: Iterable[Fields]) -> float | None:
    """Return when the last task that may be sent now is done; 0 if there is none.

    The end of a scheduled task depends on its start and not on the rate, so it does not count.
    """
    ends = [done_s.get(row["task"]) for row in live if reason_of(row["held"]) != HELD]
    known = [end for end in ends if end is not None]
    return max(known, default=0.0) if len(known) == len(ends) else None


def waits_of(rows: Iterable[Fields]) -> Waits:
    """Return the waits of rows with a bucket, done, lost and retried."""
    buckets: dict[int, int] = defaultdict(int)
    retried = lost = 0
    for row in rows:
        buckets[row["bucket"]] += row["done"]
        retried, lost = retried + row["retried"], lost + row["lost"]
    done = sum(buckets.values())
    if not done:
        return Waits()
    return Waits(done, quantile_s(buckets, 0.5), quantile_s(buckets, 0.95), retried / done, lost / done)
