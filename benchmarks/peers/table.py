"""The figures as a table: medians, who is ahead, and explanations where Fairlane is not."""

from typing import Any

from lines import LINES, Cell, Line, median
from peers import PEERS

Results = dict[str, dict[str, list[Cell]]]
"""Runs by row name and peer name."""


def ahead(line: Line, cells: dict[str, list[Cell]]) -> list[str]:
    """Return the names of the peers that are best by the line's figure, including those level with the best."""
    values = {name: median(runs, line.key) for name, runs in cells.items() if runs}
    if not values:
        return []
    best = min(values.values()) if line.less else max(values.values())
    margin = line.level if line.amount else line.level * best
    return [name for name, value in values.items() if abs(value - best) <= margin]


def markdown(results: Results) -> str:
    """Return the table, followed by an explanation for each line where Fairlane is not ahead."""
    peers = [peer for peer in PEERS if any(peer.name in cells for cells in results.values())]
    lines = [line for line in LINES if line.row in results]
    table = ["| | " + " | ".join(peer.title for peer in peers) + " | ahead |", "|---" * (len(peers) + 2) + "|"]
    table += [_shown(line, results[line.row], [peer.name for peer in peers]) for line in lines]
    return "\n".join([*table, "", *_reasons(lines, results)])


def _shown(line: Line, cells: dict[str, list[Cell]], peers: list[str]) -> str:
    first = ahead(line, cells)
    shown = [_cell(line, cells.get(name), best=name in first) for name in peers]
    names = ", ".join(peer.title for peer in PEERS if peer.name in first)
    return "| " + " | ".join([line.title, *shown, names + (" (level)" if len(first) > 1 else "")]) + " |"


def _cell(line: Line, runs: list[Cell] | None, *, best: bool) -> str:
    if runs is None:
        return "-"
    if not runs:
        return "failed"
    return f"**{line.show(runs)}**" if best else line.show(runs)


def _reasons(lines: list[Line], results: Results) -> list[str]:
    reasons = [line for line in lines if "fairlane" in results[line.row] and len(results[line.row]) > 1]
    if not reasons:
        return []
    behind = [line for line in reasons if "fairlane" not in ahead(line, results[line.row])]
    if not behind:
        return ["Fairlane is ahead or level in every row."]
    title = f"Fairlane is ahead or level in {len(reasons) - len(behind)} of {len(reasons)} rows. The others:"
    return [title, ""] + [f"- **{line.title}**: {_why(line, results[line.row])}" for line in behind]


def _why(line: Line, cells: dict[str, list[Cell]]) -> str:
    return line.why if cells["fairlane"] else "it could not be measured."


def document(results: Results, about: dict[str, Any]) -> dict[str, Any]:
    """Return all results, for the JSON file."""
    fields = {
        name: {
            "ahead": {line.key: ahead(line, cells) for line in LINES if line.row == name},
            "peers": {peer: {"runs": runs, "median": _medians(runs)} for peer, runs in cells.items()},
        }
        for name, cells in results.items()
    }
    return {**about, "rows": fields}


def _medians(runs: list[Cell]) -> Cell:
    return {name: median(runs, name) for name in runs[0]} if runs else {}
