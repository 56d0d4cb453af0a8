"""The results as tables in Markdown, and the file that collects them over several calls."""

import json
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.kafka.load import PATTERNS

Results = dict[str, Any]
"""`topics`: durability -> topics -> publisher -> pattern -> rates; `priority`: system -> figure -> values."""


def load(file: Path) -> Results:
    return json.loads(file.read_text()) if file.exists() else {"topics": {}, "priority": {}}


def save(file: Path, results: Results) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(results, indent=1) + "\n")
    fresh.replace(file)


def of_topics(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a row for each publisher, durability and pattern: thousand messages/s, median (minimum to maximum)."""
    counts = sorted({int(count) for by_count in cells.values() for count in by_count})
    lines = ["| thousand messages/s | " + " | ".join(f"{count:,} topics" for count in counts) + " |"]
    lines.append("|---" * (len(counts) + 1) + "|")
    for durability, by_count in cells.items():
        publishers = dict.fromkeys(name for cell in by_count.values() for name in cell)
        for publisher, pattern in product(publishers, PATTERNS):
            shown = [shown_rates(by_count.get(str(count), {}).get(publisher, {}).get(pattern)) for count in counts]
            lines.append(f"| {publisher} ({durability}), {pattern} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def shown_rates(rates: Iterable[float] | None) -> str:
    """Return "median (minimum to maximum)" in thousands, or "-"."""
    runs = [rate / 1000 for rate in rates or ()]
    if not runs:
        return "-"
    return f"{median(runs):.3g} ({min(runs):.3g} to {max(runs):.3g})"


def of_priority(figures: Mapping[str, Mapping[str, list[float]]]) -> str:
    """Return a row for each figure of the late task, with Kafka and Fairlane side by side."""
    names = list(dict.fromkeys(name for values in figures.values() for name in values))
    lines = ["| late task | " + " | ".join(figures) + " |", "|---" * (len(figures) + 1) + "|"]
    for name in names:
        runs = [values.get(name, []) for values in figures.values()]
        shown = [f"{median(each):.4g} ({min(each):.4g} to {max(each):.4g})" if each else "-" for each in runs]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    return "\n".join(lines)
