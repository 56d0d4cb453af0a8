"""The figures as a table: medians, who is ahead, and why Fairlane is not where it is not."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from peers import PEERS
from rows import ROWS, Row

Cell = dict[str, float]
Results = dict[str, dict[str, list[Cell]]]
"""Row name -> peer name -> its runs."""

WHY = {
    "throughput-1": "Fairlane's message is stored by Pulsar with a receipt, leased, claimed and accounted for by an "
    "outcome record; CPU of the two workers is the limit.",
    "throughput-500": "CPU of the two workers is the limit: decoding, the outcome record, and Pulsar's own copy.",
    "shares": "The ledger grants whole envelopes in windows; see docs/fairness.md for what it holds over a window.",
    "idle-tier": "The ledger holds back a reserve for work that is already granted; a handler that sleeps paces itself "
    "without that.",
    "wait-10": "A new task gets a lane of its own: a topic, a subscription and a record in the control topic are made "
    "and acknowledged by Pulsar before the first envelope, and a worker attaches to the lane; a job pushed to a queue "
    "that is there, with workers waiting on it, has none of that. It is a cost per task, not per target.",
    "wait-100": "The same cost per task as at 10 a message: a topic, a subscription and a control record, then a "
    "worker attaches.",
    "behind": "Small tasks share the tier with the large one and with each other, so the last of them ends when all "
    "nine have had their share.",
}


def median(runs: Sequence[Cell], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _throughput(runs: Sequence[Cell]) -> str:
    handled, submitted = median(runs, "handled_targets_s"), median(runs, "submitted_targets_s")
    wrong = sum(run["missing"] + run["repeated"] for run in runs)
    return f"{handled:,.0f} (submit {submitted:,.0f})" + (f", {wrong:.0f} missing or repeated" if wrong else "")


def _shares(runs: Sequence[Cell]) -> str:
    parts = "/".join(f"{median(runs, f'{tier}_percent'):.0f}" for tier in ("high", "medium", "low"))
    return f"{parts} (off by {median(runs, 'deviation_points'):.1f})"


def _idle(runs: Sequence[Cell]) -> str:
    medium, low = median(runs, "medium_percent"), median(runs, "low_percent")
    return f"{median(runs, 'used_percent'):.0f} % ({medium:.0f}/{low:.0f})"


def _wait(runs: Sequence[Cell]) -> str:
    return f"{median(runs, 'p50_ms'):,.0f} / {median(runs, 'p99_ms'):,.0f} ms"


def _behind(runs: Sequence[Cell]) -> str:
    return " / ".join(f"{median(runs, name):.1f}" for name in ("first_s", "median_s", "last_s")) + " s"


SHOWN: dict[str, tuple[str, Callable[[Sequence[Cell]], str]]] = {
    "throughput-1": ("targets/s at 1 a message (submit)", _throughput),
    "throughput-500": ("targets/s at 500 a message (submit)", _throughput),
    "shares": ("high/medium/low %, all backlogged, wanted 60/30/10 (mean deviation, points)", _shares),
    "idle-tier": ("capacity used with high idle (medium/low %)", _idle),
    "wait-10": ("wait of a small high task, p50 / p99, 10 a message", _wait),
    "wait-100": ("wait of a small high task, p50 / p99, 100 a message", _wait),
    "behind": ("small tasks behind a large one done after, first / median / last", _behind),
}


def ahead(row: Row, cells: dict[str, list[Cell]]) -> list[str]:
    """Names of the peers that are best by the row's figure, those level with it included."""
    values = {name: median(runs, row.key) for name, runs in cells.items() if runs}
    if not values:
        return []
    best = min(values.values()) if row.less else max(values.values())
    margin = row.level * best if row.level < 0.2 else row.level
    return [name for name, value in values.items() if abs(value - best) <= margin]


def markdown(results: Results) -> str:
    """The table, then a line for each row where Fairlane is not ahead."""
    peers = [peer for peer in PEERS if any(peer.name in cells for cells in results.values())]
    rows = [row for row in ROWS if row.name in results]
    lines = ["| | " + " | ".join(peer.title for peer in peers) + " | ahead |", "|---" * (len(peers) + 2) + "|"]
    lines += [_line(row, results[row.name], [peer.name for peer in peers]) for row in rows]
    return "\n".join([*lines, "", *_reasons(rows, results)])


def _line(row: Row, cells: dict[str, list[Cell]], peers: list[str]) -> str:
    title, show = SHOWN[row.name]
    first = ahead(row, cells)
    shown = [_cell(show, cells.get(name), name in first) for name in peers]
    names = ", ".join(peer.title for peer in PEERS if peer.name in first)
    return "| " + " | ".join([title, *shown, names + (" (level)" if len(first) > 1 else "")]) + " |"


def _cell(show: Callable[[Sequence[Cell]], str], runs: list[Cell] | None, best: bool) -> str:
    if runs is None:
        return "-"
    if not runs:
        return "failed"
    return f"**{show(runs)}**" if best else show(runs)


def _reasons(rows: list[Row], results: Results) -> list[str]:
    found = [row for row in rows if results[row.name].get("fairlane") and len(results[row.name]) > 1]
    if not found:
        return []
    behind = [row for row in found if "fairlane" not in ahead(row, results[row.name])]
    if not behind:
        return ["Fairlane is ahead, or level with who is, in every row."]
    return ["Where Fairlane is not ahead, and why:", ""] + [f"- **{row.title}**: {WHY[row.name]}" for row in behind]


def document(results: Results, about: dict[str, Any]) -> dict[str, Any]:
    """All there is, for the JSON file."""
    found = {
        name: {
            "ahead": ahead(next(row for row in ROWS if row.name == name), cells),
            "peers": {peer: {"runs": runs, "median": _medians(runs)} for peer, runs in cells.items()},
        }
        for name, cells in results.items()
    }
    return {**about, "rows": found}


def _medians(runs: list[Cell]) -> Cell:
    return {name: median(runs, name) for name in runs[0]} if runs else {}
