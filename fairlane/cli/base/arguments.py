"""Kinds of command-line arguments: durations, sizes, times, parts, and `field=value` pairs."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from dispatcher.model.pools import Cap
from dispatcher.model.values import parse_duration_s

if TYPE_CHECKING:
    Parameter = click.ParamType[Any]  # generic only in newer versions of click's types
else:
    Parameter = click.ParamType

UNITS_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

LONGEST_DAYS = 36_500

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def parse_bytes(text: str) -> int:
    """Parse a number of bytes: "4096", "33kB", "512MiB", "1.5GB". Raises ValueError."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d+)?)\s*(\w*)", text)
    if not match or (match[2] or "B").lower() not in UNITS_BYTES:
        raise ValueError(f"{text!r} is not a size; write for example 4096, 33kB, 512MiB or 1.5GB")
    return round(float(match[1]) * UNITS_BYTES[(match[2] or "B").lower()])


def parse_count(text: str) -> float:
    """Parse a number: "5000", "50k", "100M", "1.5G". Raises ValueError."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d+)?)([kMG]?)", text)
    if not match:
        raise ValueError(f"{text!r} is not a number; write for example 5000, 50k or 100M")
    return float(match[1]) * UNITS[match[2]]


def parse_time(text: str, now: datetime) -> datetime:
    """Parse an ISO 8601 time (local time if it names no zone), or "+15m" from now. Raises ValueError."""
    if text.startswith("+"):
        seconds = parse_duration_s(text[1:])
        with suppress(OverflowError):
            return now + timedelta(seconds=seconds)
    return _parse_iso(text, "+15m")


def parse_past(text: str, now: datetime) -> datetime:
    """Parse an ISO 8601 time, or how long ago it was: "2h". Raises ValueError."""
    with suppress(ValueError, OverflowError):
        return now - timedelta(seconds=parse_duration_s(text))
    return _parse_iso(text, "2h (ago)")


def _parse_iso(text: str, other: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time; write for example 2030-01-31T18:00+01:00 or {other}") from None


def parse_fraction(text: str) -> float:
    """Parse "5%" or "0.05". Raises ValueError."""
    with suppress(ValueError):
        part = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if 0 <= part <= 1:
            return part
    raise ValueError(f"{text!r} is not a fraction; write for example 5% or 0.05")


def _duration_s(text: str) -> float:
    """Parse a duration, with a bound: times that far away have no date, and no clock can wait for them."""
    seconds = parse_duration_s(text)
    if seconds > LONGEST_DAYS * 86_400:
        raise ValueError(f"{text!r} is longer than {LONGEST_DAYS:,} days")
    return seconds


class Parsed(Parameter):
    """A value of a type, from a text."""

    def __init__(self, name: str, kind: type, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._kind = kind
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return value if isinstance(value, self._kind) else self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Parsed("duration", float, _duration_s)
"""Seconds, from text like 15m, up to LONGEST_DAYS."""
BYTE_SIZE = Parsed("bytes", int, parse_bytes)
"""Bytes, from text like 512MiB."""
COUNT = Parsed("number", float, parse_count)
"""A number, from text like 100M."""
FRACTION = Parsed("part", float, parse_fraction)
"""A fraction: 5% or 0.05."""
TIME = Parsed("time", datetime, lambda text: parse_time(text, datetime.now(UTC)))
"""A moment, from ISO 8601 or from +15m."""
MOMENT = Parsed("time", datetime, lambda text: parse_past(text, datetime.now(UTC)))
"""A moment, from ISO 8601 or from how long ago it was, like 2h."""


class NumberBetween(click.FloatRange):
    """A number within bounds. (`nan` is within every range of click's.)"""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


HOURS = NumberBetween(0, 48, min_open=True)
"""Hours that a model simulates."""


def seconds_between(least: float) -> NumberBetween:
    """Return the type of the seconds between two looks, from `least` to a day."""
    return NumberBetween(least, 86_400)


class LimitText(Parameter):
    """A whole number, or none (0)."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return 0 if value == "none" else click.IntRange(0).convert(value, param, ctx)


class CapText(Parameter):
    """RATE, RATE:BURST or none, as a Cap. `of`: what the cap limits, for error messages."""

    name = "cap"

    def __init__(self, of: str = "cap") -> None:
        self._of = of

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Cap:  # noqa: ARG002
        return value if isinstance(value, Cap) else Cap.parse(str(value), self._of)


def named_values(
    option: str, texts: Iterable[str], form: str = "NAME=VALUE", *, may_be_empty: bool = False
) -> dict[str, str]:
    """Return the values of an option that may be repeated, by name. form: how each is written."""
    pairs = {text: text.partition("=") for text in texts}
    for text, (name, sign, value) in pairs.items():
        if not (name and sign and (value or may_be_empty)):
            raise click.BadParameter(f"{text!r}: write {form}", param_hint=option)
    return {name: value for name, _, value in pairs.values()}


class Assignment(Parameter):
    """`field=value`, where the field is one of a given set."""

    name = "field=value"

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        field, sign, text = str(value).partition("=")
        if not sign or field not in self.fields:
            self.fail(f"{value!r}: write {' or '.join(f'{name}=VALUE' for name in self.fields)}", param, ctx)
        return field, text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        return [CompletionItem(f"{field}=") for field in self.fields if field.startswith(incomplete)]
