"""Pictures of the report on the backlog."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from dispatcher.model.shown import escaped
from spark_jobs.backlog.causes import CAP, HELD, NO_WORKERS, PROVIDER, RETRIES, SHARE, UNKNOWN
from spark_jobs.backlog.report import BacklogGroup, BacklogReport, age_bands, span
from spark_jobs.backlog.svg import (
    BOTTOM,
    DASHES,
    LEFT,
    RIGHT,
    TIER_COLOURS,
    TOP,
    WIDTH,
    Frame,
    Line,
    cut,
    document,
    legend,
    short,
    text,
)

CAUSE_COLOURS = {SHARE: 2, CAP: 1, NO_WORKERS: 0, RETRIES: 3, PROVIDER: 6, HELD: 5, UNKNOWN: 7}
_ROOM = 1.08
_PANEL, _BAR, _ROW_LEFT = 84, 26, 130
_WAIT_TICKS_S = (0.01, 0.1, 1, 10, 60, 600, 3_600, 14_400, 86_400, 604_800)
_MOST_BARS = 8


def _gaps(report: BacklogReport) -> list[tuple[int, int]]:
    return [(gap.from_ms, gap.until_ms) for gap in report.gaps]


def backlog(report: BacklogReport) -> str:
    """Draw the waiting targets, with the tiers stacked."""
    series = report.series
    tiers = {name: levels for name, levels in series.backlog.get("tier", {}).items() if any(levels)}
    sums = [sum(column) for column in zip(*tiers.values(), strict=True)] or [0]
    frame = Frame(series.times_ms, max(*sums, 1) * _ROOM)
    base = [0.0] * len(series.times_ms)
    areas = []
    for name, levels in tiers.items():
        tops = [low + level for low, level in zip(base, levels, strict=True)]
        areas.append(f'<path class="c{TIER_COLOURS.get(name, 7)}" d="{frame.area(base, tops)}"/>')
        base = tops
    names = [(name, TIER_COLOURS.get(name, 7)) for name in tiers]
    body = [*frame.grid(), *areas, *frame.gaps(_gaps(report)), *legend(names, "waiting targets"), *frame.time_axis()]
    ends = ", ".join(f"{name} {levels[-1]:,}" for name, levels in tiers.items()) or "nothing"
    words = f"Backlog over time by tier. Now: {ends}. At most it was {max(sums):,} in all."
    return document("backlog", "Backlog over time", words, TOP + frame.height + BOTTOM, body)


def rates(report: BacklogReport) -> str:
    """Draw the targets per second that arrived and that were sent."""
    series = report.series
    known = [rate for line in (series.arrival, series.service) for rate in line if rate is not None]
    frame = Frame(series.times_ms, max([*known, report.service.capacity, 1]) * _ROOM, height=170)
    body = [*frame.grid(), *frame.gaps(_gaps(report)), *_capacity(report, frame)]
    body += [_curve(frame, series.arrival, 6, "7 4"), _curve(frame, series.service, 4)]
    unit = "targets a second; each further attempt counts again in both"
    body += [*legend([("arrived (dashed)", 6), ("sent", 4)], unit), *frame.time_axis()]
    words = (
        "Targets a second that arrived and that were sent; one that is tried again counts again in both. Without "
        f"that, recently {report.total.arrival_rate:,.0f} arrived and {report.total.service_rate:,.0f} were sent."
    )
    return document("rates", "Arrived and sent", words, TOP + frame.height + BOTTOM, body)


def _capacity(report: BacklogReport, frame: Frame) -> Iterator[str]:
    capacity = report.service.capacity
    if capacity:
        y = frame.y(capacity)
        yield f'<path class="mark" stroke-dasharray="5 4" fill="none" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield text(WIDTH - RIGHT - 4, y - 6, f"capacity {capacity:,}/s", "ink small", "end")


def _curve(frame: Frame, values: Line, colour: int, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="curve s{colour}"{dashes} d="{frame.curve(values)}"/>'


# ----------------------------------------------------------------- shares


def shares(report: BacklogReport) -> str:
    """Draw one panel per tier: the share it got as an area, the share it wanted as a dashed line."""
    series = report.series
    tiers = [tier for tier, line in series.got.items() if any(line) or any(series.wanted[tier])]
    body: list[str] = []
    frames = [
        Frame(series.times_ms, 1.0, TOP + place * (_PANEL + 18), _PANEL, _ROW_LEFT) for place in range(len(tiers))
    ]
    for tier, frame in zip(tiers, frames, strict=True):
        body += _panel(frame, tier, series.got[tier], series.wanted[tier])
        body += frame.gaps(_gaps(report))
    if frames:
        body += frames[-1].time_axis()
    body += [
        text(LEFT, 26.5, "actual: filled · wanted by weight: dashed", "ink"),
        text(WIDTH - RIGHT, 26.5, "part of all targets sent", "soft small", "end"),
    ]
    now = {share.tier: share for share in report.shares if share.pool == "total"}
    told = ", ".join(f"{tier} wanted {now[tier].wanted:.0%}, got {now[tier].got:.0%}" for tier in tiers if tier in now)
    height = TOP + len(tiers) * (_PANEL + 18) + BOTTOM - 18
    return document(
        "shares", "Shares, wanted and actual", f"By tier. Recently: {told or 'nothing was sent'}.", height, body
    )


def _panel(frame: Frame, tier: str, got: Line, wanted: Line) -> Iterator[str]:
    colour = TIER_COLOURS.get(tier, 7)
    yield text(frame.left - 52, frame.top + frame.height / 2 + 4, tier, "ink", "end")
    for part in (0.5, 1.0):
        yield f'<path class="line" d="M{frame.left} {frame.y(part):.1f}H{WIDTH - RIGHT}"/>'
        yield text(frame.left - 8, frame.y(part) + 4, f"{part:.0%}", "soft small", "end")
    for stretch in _known(frame.times_ms, got):
        points = [f"{frame.x(at):.1f} {frame.y(value):.1f}" for at, value in stretch]
        first, last = frame.x(stretch[0][0]), frame.x(stretch[-1][0])
        foot = f"{frame.y(0):.1f}"
        path = f"M{first:.1f} {foot}L{'L'.join(points)}L{last:.1f} {foot}Z"
        yield f'<path class="c{colour}" opacity=".75" d="{path}"/>'
    yield f'<path class="curve mark" stroke-dasharray="5 4" d="{frame.curve(wanted)}"/>'
    yield f'<path class="axis" d="M{frame.left} {frame.y(0):.1f}H{WIDTH - RIGHT}"/>'


def _known(times_ms: Sequence[int], values: Line) -> Iterator[list[tuple[int, float]]]:
    """Yield the runs of values without a gap."""
    stretch: list[tuple[int, float]] = []
    for at_ms, value in zip(times_ms, values, strict=True):
        if value is not None:
            stretch.append((at_ms, value))
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


# ----------------------------------------------------------------- waits


def waits(report: BacklogReport) -> str:
    """Draw the wait that 95 % of the targets did not exceed, by app, on a logarithmic scale."""
    series = report.series
    known = [wait for line in series.waits_p95_s.values() for wait in line if wait]
    if not known:
        return ""
    low, high = math.log10(max(0.001, min(known) / 1.5)), math.log10(max(known) * 1.5)
    frame = Frame(series.wait_ms, high - low, height=200)
    body = list(_wait_grid(frame, low, high)) + list(frame.gaps(_gaps(report)))
    for place, line in enumerate(series.waits_p95_s.values()):
        scaled = [None if not wait else math.log10(wait) - low for wait in line]
        body.append(_curve(frame, _carried(scaled), place, DASHES[place]))
    names = [(app, place) for place, app in enumerate(series.waits_p95_s)]
    body += [*legend(names, "95 % waited no longer"), *frame.time_axis()]
    now = {group.name: group.waits for group in report.apps if group.waits is not None}
    told = "; ".join(f"{app} {span(one.p95_s)}" for app, one in now.items() if one.done)
    words = f"The wait that 95 % of each app's targets did not exceed, over time. For the whole period: {told}."
    return document("waits", "Wait by app", words, TOP + frame.height + BOTTOM, body)


def _carried(line: Line) -> Line:
    """Fill single gaps in which nothing was sent, so that they do not break a curve that goes on after them."""
    return [
        line[place - 1] if value is None and 0 < place < len(line) - 1 and line[place + 1] is not None else value
        for place, value in enumerate(line)
    ]


def _wait_grid(frame: Frame, low: float, high: float) -> Iterator[str]:
    for wait_s in _WAIT_TICKS_S:
        if low <= math.log10(wait_s) <= high:
            y = frame.y(math.log10(wait_s) - low)
            yield f'<path class="line" d="M{frame.left} {y:.1f}H{WIDTH - RIGHT}"/>'
            label = f"{wait_s * 1000:g} ms" if wait_s < 1 else span(wait_s)
            yield text(frame.left - 8, y + 4, label, "soft small", "end")


# ----------------------------------------------------------------- ages


def ages(report: BacklogReport) -> str:
    """Draw a heat map of targets by age band, over time."""
    series = report.series
    if not any(any(column) for column in series.heat):
        return ""
    bands = age_bands({}, 0.0)
    used = [place for place in range(len(bands)) if any(column[place] for column in series.heat)]
    shown = range(used[0], used[-1] + 1)
    most = max(max(column) for column in series.heat)
    frame = Frame(series.heat_ms, 1.0, height=_BAR * len(shown), left=_ROW_LEFT)
    body: list[str] = []
    for row, place in enumerate(reversed(shown)):
        y = TOP + _BAR * row
        body.append(text(_ROW_LEFT - 8, y + _BAR / 2 + 4, bands[place].label, "ink small", "end"))
        body += _heat_row(frame, [column[place] for column in series.heat], y, most)
    body += [*frame.gaps(_gaps(report)), *frame.time_axis(), *_heat_legend(most)]
    old = bands[used[-1]]
    words = f"Targets by how long they had waited, over time. The oldest now: {span(report.total.oldest_s)}."
    words += f" The longest waits seen are in the band {old.label}."
    return document("ages", "Age of what waits", words, TOP + frame.height + BOTTOM, body)


def _heat_row(frame: Frame, counts: Sequence[int], y: float, most: int) -> Iterator[str]:
    times = frame.times_ms
    for place, count in enumerate(counts):
        if not count:
            continue
        left = round(frame.x(times[max(0, place - 1)]))
        right = round(frame.x(times[place])) if place else left + 2
        yield (
            f'<rect class="heat" x="{left}" y="{y + 1:.0f}" width="{max(1, right - left)}" '
            f'height="{_BAR - 2}" shape-rendering="crispEdges" opacity="{_heat(count, most):.2f}">'
            f"<title>{count:,} targets</title></rect>"
        )


def _heat(count: int, most: int) -> float:
    return 0.12 + 0.88 * math.log1p(count) / math.log1p(most) if count else 0.0


def _heat_legend(most: int) -> Iterator[str]:
    steps = [max(1, round(most**part)) for part in (0.25, 0.5, 0.75, 1.0)]
    x = float(_ROW_LEFT)
    for step in dict.fromkeys(steps):
        yield f'<rect class="heat" x="{x:.0f}" y="16" width="16" height="12" opacity="{_heat(step, most):.2f}"/>'
        yield text(x + 21, 26.5, short(step), "ink small")
        x += 21 + 7 * len(short(step)) + 16
    yield text(WIDTH - RIGHT, 26.5, "targets by how long they had waited", "soft small", "end")


# ----------------------------------------------------------------- causes


def causes(report: BacklogReport) -> str:
    """Draw a bar for each tier and for the apps with the largest backlog: the causes as parts of the recent time."""
    groups = [group for group in (*report.tiers, *report.apps) if group.backlog][:_MOST_BARS]
    if not groups:
        return ""
    body: list[str] = []
    for row, group in enumerate(groups):
        body += _cause_bar(group, TOP + _BAR * row)
    named = dict.fromkeys(cause for group in groups for cause, part in group.held_back.items() if part >= 0.005)
    names = [(cause, CAUSE_COLOURS[cause]) for cause in named]
    height = TOP + _BAR * len(groups) + 12
    told = "; ".join(f"{group.name}: {_parts(group)}" for group in groups)
    body += legend(names, "part of the recent time")
    return document("causes", "What holds it back", f"By tier and app. {told}.", height, body)


def _cause_bar(group: BacklogGroup, y: float) -> Iterator[str]:
    yield text(_ROW_LEFT - 8, y + _BAR / 2 + 4, cut(group.name), "ink small", "end")
    x, wide = float(_ROW_LEFT), WIDTH - _ROW_LEFT - RIGHT
    name = escape(escaped(group.name))
    for cause, part in group.held_back.items():
        yield (
            f'<rect class="c{CAUSE_COLOURS[cause]}" x="{x:.1f}" y="{y + 3:.1f}" width="{wide * part:.1f}" '
            f'height="{_BAR - 6}"><title>{name}: {cause} {part:.0%}</title></rect>'
        )
        x += wide * part


def _parts(group: BacklogGroup) -> str:
    return ", ".join(f"{cause} {part:.0%}" for cause, part in group.held_back.items() if part >= 0.005)
