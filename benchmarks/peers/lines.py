"""The lines of the table: the figures and row of each, the figure that decides who is ahead, and explanations.

Explanations are shown where Fairlane is not ahead.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Cell = dict[str, float]
"""The figures of one run, by name."""
Show = Callable[[Sequence[Cell]], str]


def median(runs: Sequence[Cell], name: str) -> float:
    return statistics.median(run[name] for run in runs)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the table."""

    row: str
    title: str
    show: Show
    key: str
    """The figure that decides; higher is better unless `less`."""
    why: str
    """Explanation, shown where Fairlane is not ahead."""
    less: bool = False
    level: float = 0.05
    """A peer within this part of the best figure (or, with `amount`, this much of it) is level with it."""
    amount: bool = False


def _rate(name: str) -> Show:
    return lambda runs: f"{median(runs, name):,.0f}"


def _handled(runs: Sequence[Cell]) -> str:
    wrong = sum(run["missing"] + run["repeated"] for run in runs)
    return f"{median(runs, 'handled_targets_s'):,.0f}" + (f", {wrong:.0f} missing or repeated" if wrong else "")


def _shares(runs: Sequence[Cell]) -> str:
    parts = "/".join(f"{median(runs, f'{tier}_percent'):.0f}" for tier in ("high", "medium", "low"))
    return f"{parts} (off by {median(runs, 'deviation_points'):.1f})"


def _idle(runs: Sequence[Cell]) -> str:
    medium, low = median(runs, "medium_percent"), median(runs, "low_percent")
    return f"{median(runs, 'used_percent'):.0f} % ({medium:.0f}/{low:.0f})"


def _wait(runs: Sequence[Cell]) -> str:
    times = f"{median(runs, 'p50_ms'):,.0f} / {median(runs, 'p99_ms'):,.0f} ms"
    return f"{times} ({median(runs, 'submit_p50_ms'):,.0f})"


def _behind(runs: Sequence[Cell]) -> str:
    return " / ".join(f"{median(runs, name):.1f}" for name in ("first_s", "median_s", "last_s")) + " s"


_CPU = (
    "the limit is the CPU of the two cores. Fairlane leases and claims a message, stores an outcome record of its "
    "targets and counts them before it acknowledges the message; the others only acknowledge it."
)
_STORED = (
    "Pulsar, on the same two cores, stores each message, and the submission waits for its receipt. Dramatiq does not "
    "wait for its broker, and Redis keeps messages in memory."
)
_PER_TASK = (
    "nearly all of the wait is the call of submit (in brackets). For each task Pulsar stores a control record, a new "
    "topic with its subscription, envelopes and a seal, each with a receipt; the others push one message to an "
    "existing queue. This cost is per task, not per target. It does not grow with the backlog or with the size of "
    "messages in progress."
)

LINES = (
    Line(row="throughput-1", title="targets/s handled, 1 a message", show=_handled, key="handled_targets_s", why=_CPU),
    Line(
        row="throughput-1",
        title="targets/s submitted, 1 a message",
        show=_rate("submitted_targets_s"),
        key="submitted_targets_s",
        why=_STORED,
    ),
    Line(
        row="throughput-500", title="targets/s handled, 500 a message", show=_handled, key="handled_targets_s", why=_CPU
    ),
    Line(
        row="throughput-500",
        title="targets/s submitted, 500 a message",
        show=_rate("submitted_targets_s"),
        key="submitted_targets_s",
        why=_STORED,
    ),
    Line(
        row="shares",
        title="high/medium/low %, all backlogged, wanted 60/30/10 (mean deviation, points)",
        show=_shares,
        key="deviation_points",
        why="the ledger grants whole envelopes, and keeps the shares over a window, not at every moment.",
        less=True,
        level=0.5,
        amount=True,
    ),
    Line(
        row="idle-tier",
        title="capacity used with high idle (medium/low %)",
        show=_idle,
        key="used_percent",
        why="credit is granted in advance; a worker that cannot use it in time returns it, to be granted again.",
        level=2.0,
        amount=True,
    ),
    Line(
        row="wait-10",
        title="wait of a small high task, p50 / p99 (and of the call of submit, p50), 10 a message",
        show=_wait,
        key="p50_ms",
        why=_PER_TASK,
        less=True,
        level=2.0,
        amount=True,
    ),
    Line(
        row="wait-100",
        title="the same, 100 a message",
        show=_wait,
        key="p50_ms",
        why=_PER_TASK + " A worker kept free for high is quicker, but its capacity is lost while high is idle.",
        less=True,
        level=2.0,
        amount=True,
    ),
    Line(
        row="behind",
        title="small tasks behind a large one done after, first / median / last",
        show=_behind,
        key="median_s",
        why="small tasks share the tier with the large one and with each other.",
        less=True,
        level=0.1,
    ),
)
