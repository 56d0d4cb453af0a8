"""The terminal, and colours that are legible on light and dark backgrounds."""

from rich.console import Console
from rich.theme import Theme

RED, GREEN, BLUE, ORANGE, PURPLE = "#d03030", "#2e8b2e", "#2f80d0", "#c06a10", "#a050c0"
QUIET = "dim"
TIER_STYLES = {"high": RED, "medium": ORANGE, "low": BLUE}
STATE_STYLES = {
    "running": GREEN,
    "serving": GREEN,
    "completed": QUIET,
    "cancelled": QUIET,
    "expired": QUIET,
    "stopped": QUIET,
    "paused": PURPLE,
    "suspect": ORANGE,
    "failed": RED,
    "lost": RED,
    "fail": RED,
    "warn": ORANGE,
}
_PROGRESS = {
    "bar.back": QUIET,
    "bar.complete": BLUE,
    "bar.finished": GREEN,
    "bar.pulse": BLUE,
    "progress.elapsed": QUIET,
    "progress.spinner": BLUE,
    "progress.description": "none",
}
"""Replacements for rich's colours: its yellow is invisible on white, and its grey bar looks full there."""
UNBOUNDED = 10_000
"""The width of output that has no limit."""


def console_of(*, stderr: bool = False) -> Console:
    """Return the console. A pipe or a file has no width limit: lines stay whole."""
    console = Console(stderr=stderr, highlight=False, markup=False, theme=theme())
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, markup=False, width=UNBOUNDED)


def theme() -> Theme:
    """Return the styles of progress bars and clocks."""
    return Theme(_PROGRESS)
