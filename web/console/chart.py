"""Charts of the overview: what was sent by tier, and the forecast; the course of a figure."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from math import inf
from statistics import fmean

from markupsafe import Markup

from dispatcher.analysis.forecast import Steps
from dispatcher.model.tier import TIERS
from dispatcher.model.values import duration
from dispatcher.model.view import TaskView
from fairlane.pages.picture import ROOM, Band, PlotArea, document, time_ticks

SPAN_MS = 1_800_000
"""The chart shows this time back and ahead."""
_MEAN_MS = 30_000
"""Rows of such a time are drawn as one, their mean: an update of the page is a few kB."""
_ROW_MS = 10_000
_GAP_MS = 2.5 * _MEAN_MS
"""Between rows further apart nothing is known."""
_FLAGS, _FLAG_PX = 6, 15
_POINTS = 30
Row = tuple[float, Sequence[float]]
"""A wall time in ms, and the targets/s by tier."""


def chart(past: Sequence[Row], steps: Steps, now_ms: int, capacity: int, ending: Sequence[TaskView]) -> Markup:
    """Return the chart. ending: the tasks that end last."""
    past, ahead = [*_means(past), *past[-1:]], list(_ahead(steps, now_ms))
    highest = max([sum(rates) for _, rates in (*past, *ahead)], default=0.0)
    capacity = capacity if capacity <= 3 * highest else 0
    flags = sorted((task for task in ending if (task.eta_s or 0) * 1000 < SPAN_MS), key=lambda task: task.eta_s or 0)
    flags, first, last = flags[-_FLAGS:], now_ms - SPAN_MS, now_ms + SPAN_MS
    area = PlotArea(
        first=first, last=last, maximum=max(highest, capacity) * ROOM or 1.0, marks=time_ticks(first, last),
        top=24 + _FLAG_PX * len(flags),
    )  # fmt: skip
    body = [*area.grid()]
    for run in (*_runs(past), ahead):
        bands = [Band(str(tier), index, [rates[index] for _, rates in run]) for index, tier in enumerate(TIERS)]
        body += area.layers([at_ms for at_ms, _ in run], bands, 0.3 if run is ahead else 0.75)
    body += [*area.capacity(capacity), *area.time_axis(), *area.moment(now_ms, "now")]
    for index, task in enumerate(flags):
        at_ms, above = now_ms + 1000 * (task.eta_s or 0), _FLAG_PX * (len(flags) - index)
        body += area.moment(at_ms, f"{task.id} in {duration(task.eta_s)}", "done", above)
    words = "; ".join(f"{task.id} is done in {duration(task.eta_s)}" for task in flags)
    title = "Targets sent a second by tier: 30 minutes back, and the forecast of the next 30"
    return Markup(document("rates", title, words, area.picture_height, body, style=""))


def spark(values: Sequence[float]) -> Markup:
    """Return the course of a figure, as a line from 0 to its maximum."""
    size, top = max(1, len(values) // _POINTS), max(values, default=0.0) or 1.0
    means = [fmean(values[begin : begin + size]) for begin in range(0, len(values), size)]
    step = 84 / max(1, len(means) - 1)
    points = " ".join(f"{step * index:.0f},{22 - 20 * mean / top:.1f}" for index, mean in enumerate(means))
    return Markup(f'<svg class="spark" viewBox="0 0 84 24" aria-hidden="true"><polyline points="{points}"/></svg>')


def _means(rows: Sequence[Row]) -> Iterator[Row]:
    for _, some in groupby(rows, key=lambda row: row[0] // _MEAN_MS):
        times, rates = zip(*some, strict=True)
        yield fmean(times), [fmean(of_tier) for of_tier in zip(*rates, strict=True)]


def _runs(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield rows without a gap between them; one that is alone for as long as it counts."""
    begin = 0
    for index, (before, after) in enumerate(pairwise(rows), 1):
        if after[0] - before[0] > _GAP_MS:
            yield _wide(rows[begin:index])
            begin = index
    yield _wide(rows[begin:])


def _wide(rows: Sequence[Row]) -> Sequence[Row]:
    is_alone = rows and rows[-1][0] - rows[0][0] < _ROW_MS
    return [(rows[0][0] - _ROW_MS, rows[0][1]), *rows] if is_alone else rows


def _ahead(steps: Steps, now_ms: int) -> Iterator[Row]:
    """Yield the corners of a forecast's steps within the chart."""
    for (from_s, by_tier), (to_s, _) in pairwise([*steps, (inf, {})]):
        rates = [by_tier.get(str(tier), 0.0) for tier in TIERS]
        if from_s * 1000 < SPAN_MS and to_s > 0:
            yield now_ms + max(0.0, from_s * 1000), rates
            yield now_ms + min(to_s * 1000, SPAN_MS), rates
