"""Findings of checks, and the settings of servers that a check looks at."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import nan


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing needs to be done here."""
    WARN = "warn"
    """It works, but worse, or one event makes it fail."""
    FAIL = "fail"
    """It does not work as promised, or one lost node stops every lane."""


@dataclass(frozen=True)
class Finding:
    """One result of a check."""

    level: str
    """One of Level."""
    what: str
    """The case, and the node it is of."""
    fix: str = ""
    """How to fix it; empty if ok."""
    figure: str = ""
    """The value that was found, against the wanted one, unless `what` has it."""
    reason: str = ""
    """The harm that it does, unless `what` says so."""

    @property
    def sentence(self) -> str:
        """Return what, figure and reason as one text."""
        return f"{self.phrase}: {self.reason}" if self.reason else self.phrase

    @property
    def phrase(self) -> str:
        """Return what and figure as one text."""
        return f"{self.what} ({self.figure})" if self.figure else self.what


warn = partial(Finding, Level.WARN)


@dataclass(frozen=True)
class SettingRule:
    """A server's setting that Fairlane relies on."""

    name: str
    wanted: str
    good: Callable[[str], bool]
    level: str
    """Level of the finding if the setting has another value."""
    reason: str


def is_word(word: str) -> Callable[[str], bool]:
    return lambda value: value.lower() == word


def at_least(least: float) -> Callable[[str], bool]:
    return lambda value: number_in(value) >= least


def at_most(largest: float) -> Callable[[str], bool]:
    return lambda value: number_in(value) <= largest


def number_in(value: str) -> float:
    """Return a setting's number; NaN, which is neither more nor less than any, if it is none."""
    try:
        return float(value)
    except ValueError:
        return nan
