"""The report's values over time, made from the collected facts."""

from collections import defaultdict
from itertools import pairwise

from dispatcher.model.pools import TOTAL
from dispatcher.model.tier import TIERS
from spark_jobs.backlog.facts import Facts, Fields
from spark_jobs.backlog.journal import JournalFacts, quantile_s
from spark_jobs.backlog.report import AGE_BANDS_S, Growth, MissingSnapshots, ReportSeries
from spark_jobs.backlog.snapshots import DIMENSIONS

GAP_TIMES = 2.5
"""Two snapshots have a gap between them if they are this many times as far apart as they should be."""
_TIERS = [str(tier) for tier in TIERS]
Backlogs = dict[str, dict[str, list[int]]]


def series_of(facts: Facts) -> ReportSeries:
    """Return the series that pictures are drawn from."""
    heat_ms = sorted({row["at_ms"] for row in facts.heat} | ({facts.times.last_ms} if facts.heat else set()))
    actual_shares, sent = _actual_shares(facts)
    backlog = backlogs(facts)
    totals = [sum(column) for column in zip(*backlog.get("tier", {}).values(), strict=True)]
    wait_ms, waits = _waits(facts.journal)
    return ReportSeries(
        times_ms=facts.times.grid,
        backlog=backlog,
        wanted={tier: [total[tier]["wanted"] for total in _totals(facts)] for tier in _TIERS},
        got=actual_shares,
        service=sent,
        arrival=_arrival(facts.times.grid, totals or [0] * len(facts.times.grid), sent),
        heat_ms=heat_ms,
        heat=[[heat_at(facts, at_ms).get(band, 0) for band in range(len(AGE_BANDS_S) + 1)] for at_ms in heat_ms],
        wait_ms=wait_ms,
        waits_p95_s=waits,
    )


def backlogs(facts: Facts) -> Backlogs:
    """Return backlogs by dimension and name, at each time of the grid; 0 where a name is missing."""
    index_of = {at_ms: number for number, at_ms in enumerate(facts.times.grid)}
    backlog_by_name: Backlogs = {dimension: {} for dimension in DIMENSIONS}
    for row in facts.over_time:
        levels = backlog_by_name[row["dimension"]].setdefault(row["name"], [0] * len(index_of))
        levels[index_of[row["at_ms"]]] = row["backlog"]
    of_tiers = backlog_by_name["tier"]
    backlog_by_name["tier"] = {tier: of_tiers[tier] for tier in _TIERS if tier in of_tiers}
    return backlog_by_name


def grown_of(facts: Facts) -> list[Growth]:
    """Return how much tiers, apps and channels grew, and since when they have not been this small."""
    grown = []
    for dimension, names in backlogs(facts).items():
        for name, levels in names.items():
            smallest = min(levels)
            since = len(levels) - 1 - levels[::-1].index(smallest)
            grown.append(Growth(dimension, name, levels[-1], levels[-1] - smallest, facts.times.grid[since]))
    return grown


def gaps_of(facts: Facts) -> list[MissingSnapshots]:
    """Return the gaps in the series of snapshots."""
    every_ms = 1000 * max(row["every_s"] for row in facts.service)
    pairs = pairwise(facts.times.all)
    return [MissingSnapshots(first, then) for first, then in pairs if then - first > GAP_TIMES * every_ms]


def heat_at(facts: Facts, at_ms: int) -> dict[int, int]:
    """Return the number of waiting targets by age band, at the time of one snapshot."""
    return {row["band"]: row["targets"] for row in facts.heat if row["at_ms"] == at_ms}


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


def _waits(journal: JournalFacts | None) -> tuple[list[int], dict[str, Line]]:
    """Return the start times of time spans, and by app the wait that 95 % of the targets done in each had at most."""
    if journal is None or not journal.by_time:
        return [], {}
    buckets: dict[tuple[str, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    done: dict[str, int] = defaultdict(int)
    for row in journal.by_time:
        buckets[row["app"], row["bin"]][row["bucket"]] += row["done"]
        done[row["app"]] += row["done"]
    bins = range(max(row["bin"] for row in journal.by_time) + 1)
    apps = sorted(done, key=lambda app: (-done[app], app))
    waits = {app: [quantile_s(buckets.get((app, bin_index), {}), 0.95) for bin_index in bins] for app in apps}
    return [journal.asked.first_ms + bin_index * journal.asked.step_ms for bin_index in bins], waits
