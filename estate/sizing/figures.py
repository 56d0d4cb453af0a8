"""Figures with their reasons."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A number or a setting that a plan recommends."""

    value: float | str
    reason: str
    assumed: bool = False
    """Whether it rests on something that the needs do not say."""

    @property
    def why(self) -> str:
        """Return the reason, with a mark if it is assumed."""
        return f"{self.reason} (assumed)" if self.assumed else self.reason


def texts_of(figures: Mapping[str, Figure]) -> dict[str, str]:
    """Return settings as configuration files have them."""
    return {name: str(figure.value) for name, figure in figures.items()}


def mb(value: float) -> str:
    """Return bytes as MB, GB or TB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9)):
        if value >= size:
            return f"{value / size:,.3g} {unit}"
    return f"{value / 1e6:,.3g} MB"
