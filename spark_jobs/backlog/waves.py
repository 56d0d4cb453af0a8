"""The report's values over time, made from the collected facts."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from dispatcher.model.pools import TOTAL
from dispatcher.model.tier import TIERS
from spark_jobs.backlog.causes import grouped, reason_of
from spark_jobs.backlog.facts import HOUR_MS, Facts, Fields
from spark_jobs.backlog.journal import quantile_s
from spark_jobs.backlog.report import MissingSnapshots, ReportSeries

GAP_TIMES = 2.5
"""Two snapshots have a gap between them if they are this many times as far apart as they should be."""
MAX_APPS = 8
"""The number of apps shown over time."""
_TIERS = [str(tier) for tier in TIERS]


class Waited(NamedTuple):
    """Target-hours of a task that waited for one reason in one time span."""

    row: Fields
    """The task, its tier, app and channel."""
    span: int
    cause: str
    target_hours: float


def blamed(facts: Facts) -> Iterator[Waited]:
    """Yield the target-hours of each task, time span and cause, in proportion to the time counted for each cause."""
    spent: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for row in facts.spent:
        spent[row["task"], row["span"]][row["cause"]] = row["ms"]
    for row in facts.waited:
        reason = reason_of(row["held"])
        parts = {reason: 1.0} if reason else grouped(spent[row["task"], row["span"]], row["hours"] * HOUR_MS)
        for cause, part in parts.items():
            yield Waited(row, row["span"], cause, part * row["target_hours"])


def series_of(facts: Facts, waited: list[Waited]) -> ReportSeries:
    """Return the series that pictures are drawn from."""
    actual_shares, sent = _actual_shares(facts)
    backlog = _backlogs(facts)
    totals = [sum(column) for column in zip(*backlog.values(), strict=True)]
    spans = facts.spans
    return ReportSeries(
        times_ms=facts.times.grid,
        backlog=backlog,
        wanted={tier: [total[tier]["wanted"] for total in _totals(facts)] for tier in _TIERS},
        got=actual_shares,
        service=sent,
        arrival=_arrival(facts.times.grid, totals or [0] * len(facts.times.grid), sent),
        step_ms=spans.step_ms,
        spans_ms=[spans.first_ms + index * spans.step_ms for index in range(len(spans.hours))],
        waiting=_waiting(facts, waited),
        waits_p95_s=_waits(facts),
    )


def _backlogs(facts: Facts) -> dict[str, list[int]]:
    """Return backlogs by tier, at each time of the grid; 0 where a tier is missing."""
    levels = {(row["tier"], row["at_ms"]): row["backlog"] for row in facts.tiers}
    known = {tier for tier, _ in levels}
    return {tier: [levels.get((tier, at), 0) for at in facts.times.grid] for tier in _TIERS if tier in known}


def gaps_of(facts: Facts) -> list[MissingSnapshots]:
    """Return the gaps in the series of snapshots."""
    every_ms = 1000 * max(row["every_s"] for row in facts.service)
    pairs = pairwise(facts.times.all)
    return [MissingSnapshots(first, then) for first, then in pairs if then - first > GAP_TIMES * every_ms]


def _waiting(facts: Facts, waited: list[Waited]) -> dict[str, dict[str, list[float]]]:
    """Return the mean number of waiting targets by app, cause and time span, for the apps that waited most."""
    hours = facts.spans.hours
    means: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0] * len(hours)))
    for each in waited:
        means[each.row["app"]][each.cause][each.span] += each.target_hours / hours[each.span]
    totals = {app: sum(map(sum, causes.values())) for app, causes in means.items()}
    return {app: means[app] for app in sorted(means, key=lambda app: (-totals[app], app))[:MAX_APPS]}


Line = list[float | None]


def _totals(facts: Facts) -> list[dict[str, Fields]]:
    """Return the rows of all tiers in the total, by tier, at each time of the grid."""
    return [{row["tier"]: row for row in each["tiers"] if row["pool"] == TOTAL} for each in facts.service]


def _actual_shares(facts: Facts) -> tuple[dict[str, Line], Line]:
    """Return shares got by tier, and targets/s, in the time span before each time of the grid.

    A rebuilt view counts from zero: nothing is known for that time span.
    """
    shares: dict[str, Line] = {tier: [None] for tier in _TIERS}
    rates: Line = [None]
    for (before, earlier), (after, later) in pairwise(zip(facts.service, _totals(facts), strict=True)):
        spent = {tier: later[tier]["granted"] - earlier[tier]["granted"] for tier in _TIERS}
        total, seconds = sum(spent.values()), (after["at_ms"] - before["at_ms"]) / 1000
        same = after["epoch"] == before["epoch"] and min(spent.values()) >= 0
        rates.append(total / seconds if same else None)
        for tier in _TIERS:
            shares[tier].append(spent[tier] / total if same and total else None)
    return shares, rates


def _arrival(times_ms: list[int], backlog: list[int], service: Line) -> Line:
    """Return the arrival rates: the growth of the backlog plus the work done in the same time."""
    arrivals: Line = [None]
    for index in range(1, len(times_ms)):
        rate = service[index]
        grew = (backlog[index] - backlog[index - 1]) / ((times_ms[index] - times_ms[index - 1]) / 1000)
        arrivals.append(None if rate is None else max(0.0, grew + rate))
    return arrivals


def _waits(facts: Facts) -> dict[str, Line]:
    """Return by app the wait that 95 % of the targets done in each time span had at most."""
    buckets: dict[str, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in facts.journal.by_time if facts.journal else ():
        buckets[row["app"]][row["bin"]][row["bucket"]] = row["done"]
    spans = range(len(facts.spans.hours))
    return {app: [quantile_s(bins.get(index, {}), 0.95) for index in spans] for app, bins in sorted(buckets.items())}
