"""Draw pictures of a run as SVG, legible on light and dark backgrounds, each with its content in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulator.verdict.result import Result, TaskFigure
from spark_jobs.backlog.svg import (
    BOTTOM,
    LEFT,
    RIGHT,
    TIER_COLOURS,
    TOP,
    WIDTH,
    cut,
    document,
    legend,
    short,
    text,
    tick,
    ticks,
)

PLOT_HEIGHT = 230
ROW, MOST_ROWS, ROW_LEFT = 20, 40, 130
MOST_BANDS = 8
STYLE = """
.ground{fill:#fff}.ink{fill:#1c2430}.soft{fill:#5b6675}.line{stroke:#d5dbe3}.axis{stroke:#8b95a3}.cap{stroke:#1c2430}
.c0{fill:#c8385a}.c1{fill:#e0a030}.c2{fill:#1f8a9c}.c3{fill:#6d55c4}.c4{fill:#4a9a4f}.c5{fill:#a8663b}.c6{fill:#3f70c8}
.c7{fill:#8a8f98}
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif}.small{font-size:12px}
@media(prefers-color-scheme:dark){.ground{fill:#141a22}.ink{fill:#eef2f7}.soft{fill:#a5b0bf}.line{stroke:#2d3744}
.axis{stroke:#6b7788}.cap{stroke:#eef2f7}.c0{fill:#e8607f}.c1{fill:#eebb5c}.c2{fill:#3fb2c4}.c3{fill:#9a86e6}
.c4{fill:#6cc072}.c5{fill:#c98a5f}.c6{fill:#6f9bea}.c7{fill:#a7adb7}}
"""


@dataclass(frozen=True)
class Band:
    """One layer of a stacked picture: targets in each window."""

    name: str
    colour: int
    amounts: Sequence[int]


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
    many = len(result.tasks) > MOST_BANDS
    rates: dict[str, list[Sequence[int]]] = {}
    for task in result.tasks:
        rates.setdefault(task.entry if many else task.task, []).append(task.sent_by_window)
    sums = {name: [sum(column) for column in zip(*parts, strict=True)] for name, parts in rates.items()}
    names = [f"{name} (all {len(rates[name])})" if len(rates[name]) > 1 else name for name in sums]
    bands = [Band(name, place, amounts) for place, (name, amounts) in enumerate(zip(names, sums.values(), strict=True))]
    if len(bands) > MOST_BANDS:
        rest = [band.amounts for band in bands[MOST_BANDS - 1 :]]
        others = Band(f"{len(rest)} others", MOST_BANDS - 1, [sum(column) for column in zip(*rest, strict=True)])
        bands = [*bands[: MOST_BANDS - 1], others]
    told = ", ".join(f"{band.name} {sum(band.amounts):,}" for band in bands)
    return _stacked(result, bands, "task-shares", f"Targets sent a second by task. In all: {told}.")


def _stacked(result: Result, bands: Sequence[Band], name: str, words: str) -> str:
    frame = _Frame(result, bands)
    base = [0.0] * frame.count
    body = []
    for band in bands:
        tops = [low + frame.rate(place, band.amounts[place]) for place, low in enumerate(base)]
        body.append(f'<path class="c{band.colour}" d="{frame.area(base, tops)}"/>')
        base = tops
    if result.capacity:
        y = frame.y(result.capacity)
        body.append(f'<path class="cap" stroke-dasharray="5 4" fill="none" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        body.append(text(WIDTH - RIGHT - 4, y - 6, f"capacity {result.capacity:,}/s", "ink small", "end"))
    height = TOP + PLOT_HEIGHT + BOTTOM
    names = legend([(band.name, band.colour) for band in bands], "targets sent a second")
    return _document(name, result, words, height, [*frame.grid(), *body, *names, frame.time_axis()])


class _Frame:
    """The scales of a stacked picture."""

    def __init__(self, result: Result, bands: Sequence[Band]) -> None:
        self._window_s = result.windows.window_s
        self._end_s = result.ran_s
        self.count = max((len(band.amounts) for band in bands), default=0)
        # A short rest of a window at the end of the run does not give a useful rate.
        if self.count > 1 and self._end_s - (self.count - 1) * self._window_s < self._window_s / 2:
            self.count -= 1
        sums = [sum(self.rate(place, band.amounts[place]) for band in bands) for place in range(self.count)]
        self._most = max([*sums, result.capacity, 1]) * 1.08

    def rate(self, place: int, amount: int) -> float:
        """Return the targets per second in a window."""
        return amount / min(self._window_s, self._end_s - place * self._window_s)

    def x(self, seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(seconds, self._end_s) / self._end_s

    def y(self, rate: float) -> float:
        return TOP + PLOT_HEIGHT * (1 - rate / self._most)

    def area(self, lows: Sequence[float], tops: Sequence[float]) -> str:
        """Return a path in steps along the tops and back along the lows."""
        edges = [self.x(place * self._window_s) for place in range(self.count + 1)]
        there = [f"V{self.y(top):.1f}H{edges[place + 1]:.1f}" for place, top in enumerate(tops)]
        back = [f"V{self.y(lows[place]):.1f}H{edges[place]:.1f}" for place in reversed(range(self.count))]
        return f"M{edges[0]:.1f} {self.y(lows[0]):.1f}{''.join(there)}{''.join(back)}Z" if self.count else ""

    def grid(self) -> list[str]:
        lines = []
        for rate in ticks(self._most, 4):
            y = self.y(rate)
            lines.append(f'<path class="line" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            lines.append(text(LEFT - 8, y + 4, short(rate), "soft small", "end"))
        return lines

    def time_axis(self) -> str:
        return _time_axis(self._end_s, LEFT, TOP + PLOT_HEIGHT)


# ------------------------------------------------------------- tasks as a time line
def timeline(result: Result) -> str:
    """Draw a row for each task: when it arrived, how fast it was sent over time, and when it ended."""
    tasks = sorted(result.tasks, key=lambda task: (list(TIER_COLOURS).index(task.tier), task.arrived_s or 0))
    shown = tasks[:MOST_ROWS]
    most = max((sent for task in tasks for sent in task.sent_by_window), default=1) or 1
    body = [line for place, task in enumerate(shown) for line in _row(result, task, place, most)]
    bottom = TOP + ROW * len(shown)
    if len(tasks) > len(shown):
        bottom += ROW
        body.append(text(ROW_LEFT, bottom - 6, f"and {len(tasks) - len(shown):,} more", "soft small"))
    height = bottom + BOTTOM
    tiers = [named for named in TIER_COLOURS.items() if any(task.tier == named[0] for task in tasks)]
    body += legend(tiers, "the darker, the more targets a second; ● ended")
    body.append(_time_axis(result.ran_s, ROW_LEFT, bottom))
    words = "; ".join(_told(task) for task in shown[:10])
    return _document("tasks", result, f"Tasks over time. {words}.", height, body)


def _row(result: Result, task: TaskFigure, place: int, most: int) -> list[str]:
    def x(seconds: float) -> float:
        return ROW_LEFT + (WIDTH - ROW_LEFT - RIGHT) * min(seconds, result.ran_s) / result.ran_s

    window_s, middle = result.windows.window_s, TOP + ROW * place + ROW / 2
    parts = [text(ROW_LEFT - 8, middle + 4, cut(task.task), "ink small", "end")]
    arrived_s = task.arrived_s or 0.0
    ended_s = result.ran_s if task.ended_s is None else task.ended_s
    left = x(arrived_s)
    parts.append(f'<path class="axis" d="M{left:.1f} {middle - 6:.1f}v12m0 -6H{x(ended_s):.1f}"/>')
    for window, sent in enumerate(task.sent_by_window):
        if sent:
            left = x(max(arrived_s, window * window_s))
            wide = max(0.0, x(min(ended_s, (window + 1) * window_s)) - left)
            parts.append(
                f'<rect class="c{TIER_COLOURS[task.tier]}" x="{left:.1f}" y="{middle - 7:.1f}" width="{wide:.1f}" '
                f'height="14" shape-rendering="crispEdges" opacity="{0.2 + 0.8 * (sent / most) ** 0.5:.2f}"/>'
            )
    if task.ended_s is not None:
        parts.append(f'<circle class="ink" cx="{x(ended_s):.1f}" cy="{middle:.1f}" r="3.5"/>')
    return parts


def _told(task: TaskFigure) -> str:
    ended = "has not ended" if task.ended_s is None else f"ended at {task.ended_s:.1f} s"
    return f"{task.task} ({task.tier}) arrived at {task.arrived_s:g} s and {ended}"


# ------------------------------------------------------------- shared parts
def _time_axis(end_s: float, left: float, y: float) -> str:
    parts = [f'<path class="axis" d="M{left} {y:.1f}H{WIDTH - RIGHT}"/>']
    for at_s in [0.0, *ticks(end_s, 8)]:
        parts += tick(left + (WIDTH - left - RIGHT) * at_s / end_s, y, f"{at_s:g} s")
    return "".join(parts)


def _document(name: str, result: Result, words: str, height: float, body: Sequence[str]) -> str:
    title = f"{result.scenario}: {'tasks over time' if name == 'tasks' else 'shares over time'}"
    return document(name, title, words, height, body, STYLE)
