"""Draw pictures of a run."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from fairlane.pages.picture import (
    ROOM,
    ROW_LEFT,
    TIER_COLOURS,
    TOP,
    Band,
    PlotArea,
    document,
    legend,
    rect,
    row_name,
    text,
    ticks,
)
from lab.simulator.findings.result import Result, TaskFigure

ROW, MAX_ROWS = 20, 40
MAX_BANDS = 8
Amount = TypeVar("Amount", int, float)


def draw(kind: str, result: Result) -> str:
    """Return a picture of one kind (shares, tasks, task-shares) as an SVG document."""
    kinds: dict[str, Callable[[Result], str]] = {"shares": shares, "tasks": timeline, "task-shares": task_shares}
    return kinds[kind](result)


# ------------------------------------------------------------- shares over time
def shares(result: Result) -> str:
    """Draw targets sent per second over time, with the tiers stacked."""
    bands = [Band(tier, TIER_COLOURS[tier], sent) for tier, sent in result.windows.sent.items() if any(sent)]
    parts = ", ".join(f"{name} {tier.share:.1f} %" for name, tier in result.tiers.items())
    return _stacked(result, bands, "shares", f"Targets sent a second by tier. Share of the total: {parts}.")


def task_shares(result: Result) -> str:
    """Draw targets sent per second over time, with the tasks stacked.

    If there are many, those of one entry are combined.
    """
    many = len(result.tasks) > MAX_BANDS
    entries: dict[str, list[Sequence[int]]] = {}
    for task in result.tasks:
        entries.setdefault(task.entry if many else task.task, []).append(task.sent_by_window)
    named = [(f"{name} (all {len(parts)})" if len(parts) > 1 else name, parts) for name, parts in entries.items()]
    if len(named) > MAX_BANDS:
        rest: list[Sequence[int]] = [_sum(parts) for _, parts in named[MAX_BANDS - 1 :]]
        named[MAX_BANDS - 1 :] = [(f"{len(rest)} others", rest)]
    bands = [Band(name, index, _sum(parts)) for index, (name, parts) in enumerate(named)]
    sums = ", ".join(f"{band.name} {sum(band.values):,}" for band in bands)
    return _stacked(result, bands, "task-shares", f"Targets sent a second by task. In all: {sums}.")


def _sum(parts: Sequence[Sequence[Amount]]) -> list[Amount]:
    return [sum(column) for column in zip(*parts, strict=True)]


def _stacked(result: Result, amounts: Sequence[Band], name: str, words: str) -> str:
    """Draw a stack in steps. `amounts` are the targets in each window."""
    windows = _windows(result, max((len(band.values) for band in amounts), default=0))
    bands = [Band(band.name, band.colour, _rates(windows, band.values)) for band in amounts]
    maximum = max([*_sum([band.values for band in bands]), result.capacity, 1])
    frame = PlotArea(last=result.ran_s, maximum=maximum * ROOM, marks=_marks(result))
    times = [edge for window in windows for edge in window]
    body = [*frame.grid(), *frame.stack(times, bands, "targets sent a second"), *frame.capacity(result.capacity)]
    title = f"{result.scenario}: shares over time"
    return document(name, title, words, frame.picture_height, [*body, *frame.time_axis()])


def _windows(result: Result, count: int) -> list[tuple[float, float]]:
    """Return the windows. A short rest at the end of the run is left out: it does not give a useful rate."""
    wide, end_s = result.windows.window_s, result.ran_s
    windows = list(pairwise(min(index * wide, end_s) for index in range(count + 1)))
    return windows[:-1] if count > 1 and end_s - windows[-1][0] < wide / 2 else windows


def _rates(windows: Sequence[tuple[float, float]], amounts: Sequence[float]) -> list[float]:
    """Return targets a second at both edges of each window."""
    return [amount / (end - start) for (start, end), amount in zip(windows, amounts, strict=False) for _ in range(2)]


def _marks(result: Result) -> list[tuple[float, str]]:
    return [(at_s, f"{at_s:g} s") for at_s in (0.0, *ticks(result.ran_s, 8))]


# ------------------------------------------------------------- tasks as a time line
def timeline(result: Result) -> str:
    """Draw a row for each task: when it arrived, how fast it was sent over time, and when it ended."""
    tasks = sorted(result.tasks, key=lambda task: (list(TIER_COLOURS).index(task.tier), task.arrived_s or 0))
    shown, hidden = tasks[:MAX_ROWS], len(tasks[MAX_ROWS:])
    height = ROW * (len(shown) + bool(hidden))
    frame = PlotArea(last=result.ran_s, marks=_marks(result), left=ROW_LEFT, height=height)
    max_sent = max((sent for task in tasks for sent in task.sent_by_window), default=1) or 1
    body = [part for index, task in enumerate(shown) for part in _row(frame, result, task, index, max_sent)]
    if hidden:
        body.append(text(ROW_LEFT, frame.bottom - 6, f"and {hidden:,} more", "soft small"))
    tiers = [named for named in TIER_COLOURS.items() if any(task.tier == named[0] for task in tasks)]
    body += [*legend(tiers, "the darker, the more targets a second; ● ended"), *frame.time_axis()]
    words = f"Tasks over time. {'; '.join(_in_words(task) for task in shown[:10])}."
    return document("tasks", f"{result.scenario}: tasks over time", words, frame.picture_height, body)


def _row(frame: PlotArea, result: Result, task: TaskFigure, index: int, max_sent: int) -> Iterator[str]:
    window_s, middle = result.windows.window_s, TOP + ROW * index + ROW / 2
    arrived_s = task.arrived_s or 0.0
    ended_s = result.ran_s if task.ended_s is None else task.ended_s
    yield row_name(middle, task.task)
    yield f'<path class="axis" d="M{frame.x(arrived_s):.1f} {middle - 6:.1f}v12m0 -6H{frame.x(ended_s):.1f}"/>'
    for window, sent in enumerate(task.sent_by_window):
        if sent:
            left = frame.x(max(arrived_s, window * window_s))
            wide = max(0.0, frame.x(min(ended_s, (window + 1) * window_s)) - left)
            kind, opacity = f"c{TIER_COLOURS[task.tier]} cell", 0.2 + 0.8 * (sent / max_sent) ** 0.5
            yield rect(kind, left, middle - 7, wide, 14, opacity=opacity)
    if task.ended_s is not None:
        yield f'<circle class="ink" cx="{frame.x(ended_s):.1f}" cy="{middle:.1f}" r="3.5"/>'


def _in_words(task: TaskFigure) -> str:
    ended = "has not ended" if task.ended_s is None else f"ended at {task.ended_s:.1f} s"
    return f"{task.task} ({task.tier}) arrived at {task.arrived_s:g} s and {ended}"
