"""Pictures of the report on the backlog."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from dispatcher.model.pools import TOTAL
from fairlane.pages.picture import (
    LEFT,
    OTHER_COLOUR,
    RIGHT,
    ROOM,
    ROW_LEFT,
    TIER_COLOURS,
    TOP,
    WIDTH,
    Band,
    PlotArea,
    document,
    legend,
    rect,
    row_name,
    short,
    text,
    time_ticks,
)
from spark_jobs.backlog.causes import CAP, HELD, NO_WORKERS, PROVIDER, RETRIES, SHARE, UNKNOWN
from spark_jobs.backlog.report import BacklogGroup, BacklogReport, age_bands, span

CAUSE_COLOURS = {SHARE: 2, CAP: 1, NO_WORKERS: 0, RETRIES: 3, PROVIDER: 6, HELD: 5, UNKNOWN: OTHER_COLOUR}
DASHES = ("", "7 4", "2 3", "10 3 2 3")
"""Dash patterns tell curves apart without their colours."""
_PANEL, _BAR = 84, 26
_WAIT_TICKS_S = (0.01, 0.1, 1, 10, 60, 600, 3_600, 14_400, 86_400, 604_800)
_MAX_BARS = 8

Line = Sequence[float | None]


def _frame(
    times_ms: Sequence[int], maximum: float = 1.0, *, top: float = TOP, height: float = 230, left: float = LEFT
) -> PlotArea:
    first, last = times_ms[0], times_ms[-1]
    marks = time_ticks(first, last)
    return PlotArea(first=first, last=last, maximum=maximum, marks=marks, top=top, height=height, left=left)


def _gaps(report: BacklogReport) -> list[tuple[int, int]]:
    return [(gap.from_ms, gap.until_ms) for gap in report.gaps]


def backlog(report: BacklogReport) -> str:
    """Draw the waiting targets, with the tiers stacked."""
    series = report.series
    tiers = {name: levels for name, levels in series.backlog.get("tier", {}).items() if any(levels)}
    sums = [sum(column) for column in zip(*tiers.values(), strict=True)] or [0]
    frame = _frame(series.times_ms, max(*sums, 1) * ROOM)
    bands = [Band(name, TIER_COLOURS.get(name, OTHER_COLOUR), levels) for name, levels in tiers.items()]
    stack = frame.stack(series.times_ms, bands, "waiting targets")
    ends = ", ".join(f"{name} {levels[-1]:,}" for name, levels in tiers.items()) or "nothing"
    words = f"Backlog over time by tier. Now: {ends}. At most it was {max(sums):,} in all."
    body = [*frame.grid(), *stack, *frame.gaps(_gaps(report)), *frame.time_axis()]
    return document("backlog", "Backlog over time", words, frame.picture_height, body)


def rates(report: BacklogReport) -> str:
    """Draw the targets per second that arrived and that were sent."""
    series = report.series
    lines = (series.arrival, series.service)
    known = [rate for line in lines for rate in line if rate is not None]
    frame = _frame(series.times_ms, max([*known, report.service.capacity, 1]) * ROOM, height=170)
    arrived, sent = (zip(series.times_ms, line, strict=True) for line in lines)
    body = [*frame.grid(), *frame.gaps(_gaps(report)), *frame.capacity(report.service.capacity)]
    body += [frame.curve(arrived, "s6", "7 4"), frame.curve(sent, "s4")]
    unit = "targets a second; each further attempt counts again in both"
    body += [*legend([("arrived (dashed)", 6), ("sent", 4)], unit), *frame.time_axis()]
    words = (
        "Targets a second that arrived and that were sent; one that is tried again counts again in both. Without "
        f"that, recently {report.total.arrival_rate:,.0f} arrived and {report.total.service_rate:,.0f} were sent."
    )
    return document("rates", "Arrived and sent", words, frame.picture_height, body)


# ----------------------------------------------------------------- shares


def shares(report: BacklogReport) -> str:
    """Draw one panel per tier: the share it got as an area, the share it wanted as a dashed line."""
    series = report.series
    tiers = [tier for tier, line in series.got.items() if any(line) or any(series.wanted[tier])]
    body: list[str] = []
    frame = _frame(series.times_ms, top=TOP, height=-18)
    for tier in tiers:
        frame = _frame(series.times_ms, top=frame.bottom + 18, height=_PANEL, left=ROW_LEFT)
        body += [
            *_panel(frame, series.times_ms, tier, series.got[tier], series.wanted[tier]),
            *frame.gaps(_gaps(report)),
        ]
    body += [
        *(frame.time_axis() if tiers else ()),
        text(LEFT, 26.5, "actual: filled · wanted by weight: dashed", "ink"),
        text(WIDTH - RIGHT, 26.5, "part of all targets sent", "soft small", "end"),
    ]
    now = {share.tier: share for share in report.shares if share.pool == TOTAL}
    summary = ", ".join(
        f"{tier} wanted {now[tier].wanted:.0%}, got {now[tier].got:.0%}" for tier in tiers if tier in now
    )
    words = f"By tier. Recently: {summary or 'nothing was sent'}."
    return document("shares", "Shares, wanted and actual", words, frame.picture_height, body)


def _panel(
    frame: PlotArea, times_ms: Sequence[int], tier: str, actual_shares: Line, wanted_shares: Line
) -> Iterator[str]:
    yield text(frame.left - 52, frame.top + frame.height / 2 + 4, tier, "ink", "end")
    for part in (0.5, 1.0):
        yield from frame.level(part, f"{part:.0%}")
    for known, run in groupby(zip(times_ms, actual_shares, strict=True), lambda point: point[1] is not None):
        points = list(run)
        if known:
            corners = [(points[0][0], 0.0), *points, (points[-1][0], 0.0)]
            yield frame.area(corners, TIER_COLOURS.get(tier, OTHER_COLOUR), 0.75)
    yield frame.curve(zip(times_ms, wanted_shares, strict=True), "mark", "5 4")
    yield f'<path class="axis" d="M{frame.left} {frame.bottom:.1f}H{WIDTH - RIGHT}"/>'


# ----------------------------------------------------------------- waits


def waits(report: BacklogReport) -> str:
    """Draw the wait that 95 % of the targets did not exceed, by app, on a logarithmic scale."""
    series = report.series
    known = [wait for line in series.waits_p95_s.values() for wait in line if wait]
    if not known:
        return ""
    low, high = math.log10(max(0.001, min(known) / 1.5)), math.log10(max(known) * 1.5)
    frame = _frame(series.wait_ms, high - low, height=200)
    body = [*_wait_grid(frame, low, high), *frame.gaps(_gaps(report))]
    for index, line in enumerate(series.waits_p95_s.values()):
        scaled = _carried([None if not wait else math.log10(wait) - low for wait in line])
        body.append(frame.curve(zip(series.wait_ms, scaled, strict=True), f"s{index}", DASHES[index % len(DASHES)]))
    names = [(app, index) for index, app in enumerate(series.waits_p95_s)]
    body += [*legend(names, "95 % waited no longer"), *frame.time_axis()]
    now = {group.name: group.waits for group in report.apps if group.waits is not None}
    summary = "; ".join(f"{app} {span(each.p95_s)}" for app, each in now.items() if each.done)
    words = f"The wait that 95 % of each app's targets did not exceed, over time. For the whole period: {summary}."
    return document("waits", "Wait by app", words, frame.picture_height, body)


def _carried(line: Line) -> Line:
    """Fill single gaps in which nothing was sent, so that they do not break a curve that goes on after them."""
    return [
        line[index - 1] if value is None and 0 < index < len(line) - 1 and line[index + 1] is not None else value
        for index, value in enumerate(line)
    ]


def _wait_grid(frame: PlotArea, low: float, high: float) -> Iterator[str]:
    for wait_s in _WAIT_TICKS_S:
        if low <= math.log10(wait_s) <= high:
            yield from frame.level(math.log10(wait_s) - low, f"{wait_s * 1000:g} ms" if wait_s < 1 else span(wait_s))


# ----------------------------------------------------------------- ages


def ages(report: BacklogReport) -> str:
    """Draw a heat map of targets by age band, over time."""
    series = report.series
    if not any(any(column) for column in series.heat):
        return ""
    bands = age_bands({}, 0.0)
    used = [band for band in range(len(bands)) if any(column[band] for column in series.heat)]
    shown = range(used[0], used[-1] + 1)
    maximum = max(max(column) for column in series.heat)
    frame = _frame(series.heat_ms, height=_BAR * len(shown), left=ROW_LEFT)
    body: list[str] = []
    for row, band in enumerate(reversed(shown)):
        y = TOP + _BAR * row
        body.append(row_name(y + _BAR / 2, bands[band].label))
        body += _heat_row(frame, series.heat_ms, [column[band] for column in series.heat], y, maximum)
    body += [*frame.gaps(_gaps(report)), *frame.time_axis(), *_heat_legend(maximum)]
    old = bands[used[-1]]
    words = f"Targets by how long they had waited, over time. The oldest now: {span(report.total.oldest_s)}."
    words += f" The longest waits seen are in the band {old.label}."
    return document("ages", "Age of what waits", words, frame.picture_height, body)


def _heat_row(frame: PlotArea, times_ms: Sequence[int], counts: Sequence[int], y: float, maximum: int) -> Iterator[str]:
    for index, count in enumerate(counts):
        if count:
            left, right = frame.x(times_ms[max(0, index - 1)]), frame.x(times_ms[index])
            wide = max(1, right - left) if index else 2
            title = f"{count:,} targets"
            yield rect("heat cell", left, y + 1, wide, _BAR - 2, opacity=_heat(count, maximum), title=title)


def _heat(count: int, maximum: int) -> float:
    return 0.12 + 0.88 * math.log1p(count) / math.log1p(maximum) if count else 0.0


def _heat_legend(maximum: int) -> Iterator[str]:
    steps = [max(1, round(maximum**part)) for part in (0.25, 0.5, 0.75, 1.0)]
    x = float(ROW_LEFT)
    for step in dict.fromkeys(steps):
        yield rect("heat", x, 16, 16, 12, opacity=_heat(step, maximum))
        yield text(x + 21, 26.5, short(step), "ink small")
        x += 21 + 7 * len(short(step)) + 16
    yield text(WIDTH - RIGHT, 26.5, "targets by how long they had waited", "soft small", "end")


# ----------------------------------------------------------------- causes


def causes(report: BacklogReport) -> str:
    """Draw a bar for each tier and for the apps with the largest backlog: the causes as parts of the recent time."""
    groups = [group for group in (*report.tiers, *report.apps) if group.backlog][:_MAX_BARS]
    if not groups:
        return ""
    body = [part for row, group in enumerate(groups) for part in _cause_bar(group, TOP + _BAR * row)]
    named = dict.fromkeys(cause for group in groups for cause, part in group.held_back.items() if part >= 0.005)
    body += legend([(cause, CAUSE_COLOURS[cause]) for cause in named], "part of the recent time")
    summary = "; ".join(f"{group.name}: {_parts(group)}" for group in groups)
    height = TOP + _BAR * len(groups) + 12
    return document("causes", "What holds it back", f"By tier and app. {summary}.", height, body)


def _cause_bar(group: BacklogGroup, y: float) -> Iterator[str]:
    yield row_name(y + _BAR / 2, group.name)
    x, room = float(ROW_LEFT), WIDTH - ROW_LEFT - RIGHT
    for cause, part in group.held_back.items():
        title = f"{group.name}: {cause} {part:.0%}"
        yield rect(f"c{CAUSE_COLOURS[cause]}", x, y + 3, room * part, _BAR - 6, title=title)
        x += room * part


def _parts(group: BacklogGroup) -> str:
    return ", ".join(f"{cause} {part:.0%}" for cause, part in group.held_back.items() if part >= 0.005)
