"""Format values for tables and messages: one form each for counts, fractions, durations, times and missing values.
Durations are read here as well."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any

from dispatcher.model.shown import KNOWN, escaped

NOTHING = "-"
"""Shown for no cap, no limit, unset and unknown values."""
_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhd])\s*", re.ASCII)


def is_object(text: str) -> bool:
    """Return whether a text is to be read as a JSON object. One that begins with `{{name}}` is a template."""
    begin = text.lstrip("\ufeff \t\r\n")
    return begin.startswith("{") and not begin.startswith("{{")


def text_of(value: Any) -> str:
    """Return the default form of a value in a table."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text_of(inner)}" for name, inner in value.items()) or NOTHING
    if isinstance(value, list | tuple):
        return ", ".join(map(text_of, value)) or NOTHING
    return escaped(KNOWN.mask(str(value)))


def number(value: float) -> str:
    """Return a number with thousands separators; below 1,000 with its fraction."""
    return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"


def count(value: float) -> str:
    """Return a whole number with thousands separators."""
    return f"{value:,.0f}"


def counted(value: int, noun: str) -> str:
    """Return a number with its noun: 1 task, 2,000 tasks."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def listed(names: Sequence[str], maximum: int) -> str:
    """Return the first names, with the number of the others: a, b and 3 more."""
    return ", ".join(names[:maximum]) + (f" and {len(names) - maximum:,} more" if len(names) > maximum else "")


def limit(value: float | None) -> str:
    """Return a cap or a limit; 0 means that there is none."""
    return number(value) if value else NOTHING


def percent(part: float | None) -> str:
    return NOTHING if part is None else f"{part:.1%}"


def duration(seconds: float | None) -> str:
    """Return a duration in readable form: 0.25 s, 45 s, 1 m 05 s, 2 h 01 m, 3 d 04 h."""
    if seconds is None or not isfinite(seconds):
        return NOTHING
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds >= 0.001 else "0 s"
    seconds_rounded, minutes_rounded, hours_rounded = round(seconds), round(seconds / 60), round(seconds / 3_600)
    if seconds_rounded < 60:
        return f"{seconds_rounded} s"
    if seconds_rounded < 3_600:
        return f"{seconds_rounded // 60} m {seconds_rounded % 60:02} s"
    return (
        f"{minutes_rounded // 60} h {minutes_rounded % 60:02} m"
        if hours_rounded < 48
        else f"{hours_rounded // 24:,} d {hours_rounded % 24:02} h"
    )


def parse_duration_s(text: str) -> float:
    """Parse a duration in seconds: "90", "90s", "1h30m", "2 d", and what `duration` returns. Raises ValueError."""
    given = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", given, re.ASCII):
        return float(given)
    if not given or _DURATION_PART.sub("", given):
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 15m, 1h30m or 2d")
    return sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION_PART.findall(given))


def moment(wall_ms: float, now: datetime) -> str:
    """Return the time of day in the zone of `now`, with the date if that is another day; 0 ms means no time."""
    if not wall_ms:
        return NOTHING
    try:
        at = datetime.fromtimestamp(wall_ms / 1000, now.tzinfo)
    except (OverflowError, ValueError, OSError):  # beyond the year 9999
        return text_of(int(wall_ms))
    return f"{at:%H:%M:%S}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S}"
