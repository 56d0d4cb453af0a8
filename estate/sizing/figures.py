"""Figures with their reasons."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A number or a setting that a plan recommends."""

    value: float | str
    reason: str
    assumed: bool = False
    """Whether it rests on something that the needs do not say."""


def shown(value: float | str) -> str:
    """Return a figure's value as settings and tables have it."""
    return value if isinstance(value, str) else f"{value:,.0f}" if abs(value) >= 10 else f"{value:g}"


def mb(value: float) -> str:
    """Return bytes as MB, GB or TB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9)):
        if value >= size:
            return f"{value / size:,.3g} {unit}"
    return f"{value / 1e6:,.3g} MB"
