"""The rows of the table: each a piece of work, and the figures derived from its records."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import records
from crew import CAPACITY, Run
from processes import Failed, wait_for

TIERS = ("high", "medium", "low")
WANTED = {"high": 60.0, "medium": 30.0, "low": 10.0}
CHUNK = 10
"""Targets per message in the paced rows, unless the row sets another number."""
PROBE_TARGETS, PROBE_EVERY_S = 10, 0.2
STALLED_S = 30.0
Figures = dict[str, float]


@dataclass(frozen=True)
class Size:
    """The size of a run."""

    part: float
    """Part of the throughput run's targets."""
    window_s: float
    """Length of a paced measurement."""
    probes: int
    """Number of small high tasks."""
    large: int
    """Targets of the fairness row's large task."""
    small: int
    """Targets of each of its small tasks."""


FULL = Size(part=1.0, window_s=10.0, probes=40, large=100_000, small=1_000)
QUICK = Size(part=0.1, window_s=3.0, probes=8, large=6_000, small=200)
SMALL_TASKS = 9


def throughput(run: Run, size: Size, chunk: int) -> Figures:
    """Submit six tasks, two a tier; then let two workers handle them as fast as they can."""
    total = int(run.peer.sizes[chunk] * size.part)
    each = total // 6 // chunk * chunk
    took = [run.submit(f"t{n}", TIERS[n // 2], n * each, each, chunk)["seconds"] for n in range(6)]
    run.work()
    _until_handled(run, 6 * each // chunk)
    handled = records.read(run.records)
    span_s = handled[-1].at_s - handled[0].at_s
    return {
        "submitted_targets_s": 6 * each / sum(took),
        "handled_targets_s": sum(one.targets for one in handled[1:]) / span_s,
        "targets": 6 * each,
        "span_s": span_s,
        "missing": 6 * each // chunk - len({(one.task, one.sequence) for one in handled}),
        "repeated": records.repeated(handled),
    }


def _until_handled(run: Run, messages: int) -> None:
    """Wait until all messages are handled. Raises Failed if a worker dies or nothing is handled for a while."""
    seen, moved = 0, time.monotonic()
    while (now := run.so_far()) < messages:
        if now > seen:
            seen, moved = now, time.monotonic()
        if words := run.fallen():
            raise Failed(f"a worker ended: {words}")
        if time.monotonic() - moved > STALLED_S:
            raise Failed(f"nothing was handled for {STALLED_S:.0f} s, after {now} of {messages} messages")
        time.sleep(0.05)


def _fill(run: Run, tiers: tuple[str, ...], seconds: float, chunk: int) -> None:
    """Give each of the tiers a backlog for that many seconds of the whole capacity, with two tasks."""
    each = max(math.ceil(CAPACITY * seconds / 2 / chunk) * chunk, 6_000)
    for number, tier in enumerate(tiers):
        for half in range(2):
            run.submit(f"{tier[0]}{half}", tier, (2 * number + half) * each, each, chunk)


def _window(run: Run, size: Size) -> list[records.Handled]:
    """Return the messages handled in the window, which begins a second after the first message."""
    wait_for("the first message", lambda: run.so_far() > 0, 60)
    began = time.time() + 1.0
    time.sleep(1.2 + size.window_s)
    return [each for each in records.read(run.records) if began <= each.at_s < began + size.window_s]


def _shares(handled: list[records.Handled]) -> dict[str, float]:
    """Return the percentage of the targets by tier, which the task's first letter identifies."""
    total = sum(each.targets for each in handled) or 1
    return {tier: 100 * sum(h.targets for h in handled if h.task[0] == tier[0]) / total for tier in TIERS}


def shares(run: Run, size: Size) -> Figures:
    """Measure how the capacity is shared while all tiers have a backlog."""
    _fill(run, TIERS, size.window_s + 4, CHUNK)
    run.work()
    handled = _window(run, size)
    shares_by_tier = _shares(handled)
    return {
        **{f"{tier}_percent": share for tier, share in shares_by_tier.items()},
        "deviation_points": statistics.mean(abs(shares_by_tier[tier] - WANTED[tier]) for tier in TIERS),
        "handled_targets_s": sum(each.targets for each in handled) / size.window_s,
    }


def idle_tier(run: Run, size: Size) -> Figures:
    """Measure whether the others use high's share of the capacity while it has nothing to send."""
    _fill(run, TIERS[1:], size.window_s + 4, CHUNK)
    run.work()
    handled = _window(run, size)
    used = sum(each.targets for each in handled) / size.window_s / CAPACITY
    shares_by_tier = _shares(handled)
    return {
        "used_percent": 100 * used,
        "medium_percent": shares_by_tier["medium"],
        "low_percent": shares_by_tier["low"],
    }


def wait(run: Run, size: Size, chunk: int) -> Figures:
    """Measure the wait of small high tasks while medium and low have a backlog.

    It lasts from the call of submit to the last target handled.
    """
    _fill(run, TIERS[1:], size.probes * PROBE_EVERY_S + 6, chunk)
    run.work()
    wait_for("messages to be handled", lambda: run.so_far() > 1 + CAPACITY // chunk, 60)
    probes = {}
    for number in range(size.probes):
        probes[f"p{number}"] = run.submit(f"p{number}", "high", number * 10, PROBE_TARGETS, PROBE_TARGETS)
        time.sleep(PROBE_EVERY_S)
    ended = _ends(run, set(probes), 30)
    waits = sorted(1000 * (ended[task] - probe["called_s"]) for task, probe in probes.items())
    return {
        "p50_ms": statistics.median(waits),
        "p99_ms": waits[math.ceil(len(waits) * 0.99) - 1],
        "submit_p50_ms": 1000 * statistics.median(probe["seconds"] for probe in probes.values()),
    }


def _ends(run: Run, tasks: set[str], timeout_s: float) -> dict[str, float]:
    """Wait until all tasks have begun; return the wall time at which the last message of each was handled."""
    wait_for("the small tasks", lambda: tasks <= {each.task for each in records.read(run.records)}, timeout_s, 0.25)
    return {each.task: each.at_s for each in records.read(run.records)}


def behind_a_large(run: Run, size: Size) -> Figures:
    """Measure when nine small tasks behind a large one in the same tier end, from the first message on."""
    run.submit("large", "high", 0, size.large, CHUNK)
    for number in range(SMALL_TASKS):
        run.submit(f"s{number}", "high", size.large + number * size.small, size.small, CHUNK)
    run.work()
    expected = SMALL_TASKS * size.small // CHUNK
    limit_s = 30 + 2 * (size.large + SMALL_TASKS * size.small) / CAPACITY

    def through() -> bool:
        return sum(each.task[0] == "s" for each in records.read(run.records)) >= expected

    wait_for("the small tasks", through, limit_s, 1.0)
    handled = records.read(run.records)
    ends = {each.task: each.at_s - handled[0].at_s for each in handled if each.task[0] == "s"}
    ordered = sorted(ends.values())
    return {"first_s": ordered[0], "median_s": statistics.median(ordered), "last_s": ordered[-1]}


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    name: str
    measure: Callable[[Run, Size], Figures]
    """Does one run."""
    paced: bool = True
    """Whether the capacity is limited."""
    runs: int = 1
    """Number of runs in a full measurement."""


ROWS = (
    Row("throughput-1", lambda run, size: throughput(run, size, 1), paced=False, runs=3),
    Row("throughput-500", lambda run, size: throughput(run, size, 500), paced=False, runs=3),
    Row("shares", shares),
    Row("idle-tier", idle_tier),
    Row("wait-10", lambda run, size: wait(run, size, 10)),
    Row("wait-100", lambda run, size: wait(run, size, 100)),
    Row("behind", behind_a_large),
)
