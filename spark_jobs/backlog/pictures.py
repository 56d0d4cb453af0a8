"""Pictures of the report on the backlog: shapes in SVG that stretch with the page, labels in HTML that do not.

Each comes with a table of its numbers.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from itertools import groupby

from dispatcher.model.shown import escaped
from dispatcher.model.values import NOTHING
from fairlane.pages.page import table
from fairlane.pages.picture import ROOM, PlotArea, rect, short, ticks, time_ticks
from spark_jobs.backlog.causes import MEANINGS
from spark_jobs.backlog.report import BacklogReport, TaskWaits, span

SIZE = 1_000
"""The width and height of all pictures, in their own units."""
Levels = Iterable[tuple[float, str]]
"""Values that are marked by a horizontal line, with their labels."""
Line = Sequence[float | None]
_FIGURES = ("Targets", "Waited")


def tagged(kind: str, content: str, name: str = "span", style: str = "") -> str:
    """Return an element of HTML."""
    return f'<{name} class="{escape(kind)}" style="{style}">{content}</{name}>'


def shown(text: str) -> str:
    """Return a text from outside as HTML."""
    return escape(escaped(text))


def clock(at_ms: float) -> str:
    """Format a time in UTC, with its date."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%d %b %H:%M}"


# ----------------------------------------------------------------- the parts of a picture


def _area(report: BacklogReport, maximum: float = 1.0) -> PlotArea:
    first, last = min([report.from_ms, *report.series.spans_ms[:1]]), report.until_ms
    size = {"top": 0.0, "height": SIZE, "left": 0.0, "right": SIZE}
    return PlotArea(first=first, last=last, maximum=maximum or 1.0, marks=time_ticks(first, last), **size)


def _plot(area: PlotArea, shapes: Iterable[str], high: int, levels: Levels = (), *, axis: bool = True) -> str:
    """Return a picture. high: its height in pixels."""
    svg = f'<svg viewBox="0 0 {SIZE} {SIZE}" preserveAspectRatio="none" aria-hidden="true">{"".join(shapes)}</svg>'
    lines = [
        tagged("level", f"<b>{label}</b>", "i", f"bottom:{value / area.maximum:.2%}")
        for value, label in levels
        if value <= area.maximum
    ]
    return tagged("plot", "".join((*lines, svg, *(_dates(area) if axis else ()))), "div", f"height:{high}px")


def _dates(area: PlotArea) -> Iterator[str]:
    """Yield the labels of the time axis, with the date at the first one and at midnight. A phone shows every second."""
    times = [datetime.fromtimestamp(at_ms / 1000, UTC) for at_ms, _ in area.marks]
    days = [index for index, at in enumerate(times) if f"{at:%H%M%S}" == "000000"]
    for index, (at, (at_ms, label)) in enumerate(zip(times, area.marks, strict=True)):
        part, is_dated = area.x(at_ms) / SIZE, index in {0, *days}
        place = " first" if part < 0.03 else " last" if part > 0.97 else ""
        odd = " odd" if not is_dated and (index - sum(days[:1])) % 2 else ""
        time = "00:00" if index in days else label
        yield tagged(f"at{place}{odd}", f"{time}<br>{at:%d %b}" if is_dated else time, "i", f"left:{part:.2%}")


def _gaps(report: BacklogReport, area: PlotArea) -> Iterator[str]:
    return area.gaps((gap.from_ms, gap.until_ms) for gap in report.gaps)


def _round(area: PlotArea) -> Levels:
    return [(value, short(value)) for value in ticks(area.maximum, 4)]


def _key(kinds: Iterable[tuple[str, str]]) -> str:
    """Return a legend: classes, and the name of what has them."""
    return tagged("key", "".join(tagged(kind, name) for kind, name in kinds), "div")


def _numbers(rows: Sequence[Mapping[str, str]]) -> str:
    return f"<details><summary>Numbers</summary>{table(rows)}</details>"


# ----------------------------------------------------------------- by app and hour


def waiting(report: BacklogReport) -> str:
    """Draw a row of bars for each app: the waiting targets of each hour by cause."""
    series, body, rows = report.series, "", []
    used = [cause for cause in MEANINGS if any(cause in causes for causes in series.waiting.values())]
    for app, causes in series.waiting.items():
        ordered = {cause: causes.get(cause) or [0.0] * len(series.spans_ms) for cause in used}
        sums = [sum(column) for column in zip(*ordered.values(), strict=True)]
        area = _area(report, max(sums) * ROOM)
        bars = [_bar(area, report, index, ordered) for index in range(len(sums))]
        peak = tagged("soft", f"up to {short(max(sums))}", "small")
        body += tagged("name", f"<b>{shown(app)}</b>{peak}", "div")
        body += _plot(area, [*_gaps(report, area), *bars], 64, axis=app == [*series.waiting][-1])
        rows += [
            {"app": app, "from": clock(at_ms), "waiting": f"{total:,.0f}"}
            | {cause: f"{levels[index]:,.0f}" for cause, levels in ordered.items()}
            for index, (at_ms, total) in enumerate(zip(series.spans_ms, sums, strict=True))
            if total >= 0.5
        ]
    return _key((cause, cause) for cause in used) + tagged("rows", body, "div") + _numbers(rows) if rows else ""


def _bar(area: PlotArea, report: BacklogReport, index: int, causes: Mapping[str, Sequence[float]]) -> str:
    at_ms, base = report.series.spans_ms[index], 0.0
    left, right = area.x(at_ms), area.x(at_ms + report.series.step_ms)
    parts = ""
    for cause, levels in causes.items():
        top, bottom = area.y(base + levels[index]), area.y(base)
        parts += rect(cause, left + 1, top, max(1.0, right - left - 2), bottom - top) if levels[index] else ""
        base += levels[index]
    why = ", ".join(f"{cause} {levels[index]:,.0f}" for cause, levels in causes.items() if levels[index])
    return f"<g><title>{clock(at_ms)}: {base:,.0f} waiting ({why})</title>{parts}</g>" if base else ""


def waits(report: BacklogReport) -> str:
    """Draw a row of cells for each app: the wait that 95 % of the targets sent in each hour did not exceed."""
    series, area = report.series, _area(report)
    area = replace(area, last=area.first + len(series.spans_ms) * series.step_ms)
    known = [math.log1p(wait) for line in series.waits_p95_s.values() for wait in line if wait is not None]
    body, rows = "", []
    for app in sorted(series.waits_p95_s, key=[*series.waiting, *series.waits_p95_s].index):
        line = series.waits_p95_s[app]
        cells = "".join(
            _cell(at_ms, wait, max(known, default=1.0)) for at_ms, wait in zip(series.spans_ms, line, strict=True)
        )
        body += f"<b>{shown(app)}</b>" + tagged("cells", cells, "div")
        rows += [
            {"app": app, "from": clock(at_ms), "95 % waited at most": span(wait)}
            for at_ms, wait in zip(series.spans_ms, line, strict=True)
            if wait is not None
        ]
    return tagged("heat", f"{body}<span></span>{_plot(area, (), 0)}", "div") + _numbers(rows) if rows else ""


def _cell(at_ms: float, wait: float | None, longest: float) -> str:
    if wait is None:
        return "<i></i>"
    part = 0.06 + 0.44 * math.log1p(wait) / longest
    return f'<i style="--part:{part:.0%}" title="{clock(at_ms)}: {span(wait)}">{brief(wait)}</i>'


def brief(seconds: float) -> str:
    """Format a time span in few characters: 20ms, 8s, 45m, 3.5h, 12d."""
    return span(seconds).replace(" ", "").removesuffix("in")


# ----------------------------------------------------------------- over time


def backlog(report: BacklogReport) -> str:
    """Draw the waiting targets, with the tiers stacked."""
    series = report.series
    tiers = {name: levels for name, levels in series.backlog.items() if any(levels)}
    area = _area(report, max([sum(column) for column in zip(*tiers.values(), strict=True)], default=1) * ROOM)
    base, shapes = [0.0] * len(series.times_ms), list(_gaps(report, area))
    for name, levels in tiers.items():
        tops = [low + level for low, level in zip(base, levels, strict=True)]
        shapes.append(_filled(area, name, series.times_ms, tops, base))
        base = tops
    key = _key((f"tier {name}", name) for name in tiers)
    return key + _plot(area, shapes, 200, _round(area)) + _over_time(report, tiers, ",")


def _filled(area: PlotArea, kind: str, times_ms: Sequence[int], tops: Line, base: Line) -> str:
    corners = [*zip(times_ms, tops, strict=True), *list(zip(times_ms, base, strict=True))[::-1]]
    return f'<path class="{kind}" opacity=".72" d="{area.path(corners)}Z"/>'


def rates(report: BacklogReport) -> str:
    """Draw the targets per second that arrived and that were sent."""
    series, capacity = report.series, report.service.capacity
    highest = max([rate for rate in (*series.arrival, *series.service) if rate is not None], default=0.0)
    area = _area(report, max(highest, capacity, 1) * ROOM)
    lines = {"arrived": ("arrived", series.arrival), "medium": ("sent", series.service)}
    if capacity:
        lines["mark dashed"] = (f"capacity {capacity:,}/s", [float(capacity)] * len(series.times_ms))
    curves = [
        area.curve(zip(series.times_ms, line, strict=True), kind, "4 3" * kind.endswith("dashed"))
        for kind, (_, line) in lines.items()
    ]
    key = _key((f"line {kind}", name) for kind, (name, _) in lines.items())
    numbers = _over_time(report, dict([*lines.values()][:2]), ",.0f")
    return key + _plot(area, [*_gaps(report, area), *curves], 200, _round(area)) + numbers


def shares(report: BacklogReport) -> str:
    """Draw one panel per tier: the share it got as an area, the share it wanted as a dashed line."""
    series, area, body = report.series, _area(report), ""
    tiers = [tier for tier, line in series.got.items() if any(line) or any(series.wanted[tier])]
    for tier in tiers:
        points = list(zip(series.times_ms, series.got[tier], strict=True))
        runs = [list(run) for known, run in groupby(points, lambda point: point[1] is not None) if known]
        filled = [_filled(area, tier, *zip(*((at, got, 0.0) for at, got in run), strict=True)) for run in runs]
        wanted = area.curve(zip(series.times_ms, series.wanted[tier], strict=True), "mark", "4 3")
        plot = _plot(area, [*_gaps(report, area), *filled, wanted], 56, [(1, "100 %")], axis=tier == tiers[-1])
        body += tagged("name", f"<b>{tier}</b>", "div") + plot
    both = (("wanted", series.wanted), ("got", series.got))
    numbers = {f"{tier} {name}": lines[tier] for tier in tiers for name, lines in both}
    key = _key([("line dashed mark", "wanted by its weight"), ("held", "got")])
    return key + tagged("rows", body, "div") + _over_time(report, numbers, ".0%") if tiers else ""


def _over_time(report: BacklogReport, columns: Mapping[str, Line], form: str) -> str:
    """Return a table of the values at each time, in this format."""
    rows = [
        {"at": clock(at_ms)} | {name: _known(line[index], form) for name, line in columns.items()}
        for index, at_ms in enumerate(report.series.times_ms)
    ]
    return _numbers(rows)


def _known(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)


# ----------------------------------------------------------------- tasks


def tasks(report: BacklogReport) -> str:
    """Draw a row for each task that waited: when it was sent, how long its targets waited, and why."""
    area = _area(report)
    dates = f"When <small>{clock(area.first)} to {clock(area.last)}</small>"
    names = ["Task", "Tier", dates, "Targets", "Waited", "Why", "Done"]
    head = "".join(f'<th scope="col" class="{"figure" if name in _FIGURES else ""}">{name}</th>' for name in names)
    body = "\n".join(f"<tr>{''.join(_task(area, task))}</tr>" for task in report.tasks)
    whole = f'<table class="campaigns"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return whole if report.tasks else ""


def _task(area: PlotArea, task: TaskWaits) -> Iterator[str]:
    left, right = (area.x(at_ms) / SIZE for at_ms in (task.begun_ms, task.ended_ms or area.last))
    kind, waits = f"{task.tier}{' on' * (task.ended_ms is None)}", task.waits
    lane = tagged(kind, "", style=f"left:{left:.2%};width:{right - left:.2%}")
    yield tagged("", f"<b>{shown(task.task)}</b><small>{shown(task.app)} · {shown(task.channel)}</small>", "td")
    yield tagged("wide", tagged(f"tier {task.tier}", shown(task.tier)), "td")
    yield tagged("across when", tagged("lane", lane, "div"), "td")
    left_over = f"<small>{task.backlog:,} wait</small>" if task.backlog else ""
    yield tagged("figure targets", f"{task.targets:,}{left_over}", "td")
    half = f"{span(waits.p50_s)}<small>95 %: {span(waits.p95_s)}</small>" if waits and waits.done else NOTHING
    yield tagged("figure waited", half, "td")
    yield tagged("why", _why(task), "td")
    yield tagged("done", _done(task), "td")


def _why(task: TaskWaits) -> str:
    cause, part = next(iter(task.held_back.items()), ("", 0.0))
    parts = "".join(tagged(cause, "", style=f"flex:{part:.4f}") for cause, part in task.held_back.items())
    return f"{cause} {part:.0%}" + tagged("bar", parts, "div")


def _done(task: TaskWaits) -> str:
    if task.ended_ms is not None:
        return f"{clock(task.ended_ms)}<small>took {span((task.ended_ms - task.begun_ms) / 1000)}</small>"
    if task.held_by or not task.backlog:
        return task.held_by.replace("_", " ") or NOTHING
    return "never" if task.done_s is None else f"in {span(task.done_s)}"
