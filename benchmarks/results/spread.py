"""Median, least and most of each figure of several runs."""

import statistics
from typing import Any

Spread = dict[str, dict[str, float]]
"""`median`, `min` and `max` by the name of a figure."""


def spread(runs: Any, name: str = "") -> Spread:
    """Return the spread of runs: a list of values, or of figures by name, or such lists by name, at any depth.

    The names of the levels are joined by spaces.
    """
    if isinstance(runs, dict):
        parts = runs.items()
    elif runs and isinstance(runs[0], dict):
        parts = {key: [run[key] for run in runs if key in run] for run in runs for key in run}.items()
    else:
        return {name: {"median": statistics.median(runs), "min": min(runs), "max": max(runs)}} if runs else {}
    return {figure: of for key, inner in parts for figure, of in spread(inner, f"{name} {key}".strip()).items()}
