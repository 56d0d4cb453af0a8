"""Kinds of command-line arguments: durations, sizes, times, parts, and `field=value` pairs."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from dispatcher.model.service_settings import Cap
from dispatcher.model.values import parse_duration_s

if TYPE_CHECKING:
    Parameter = click.ParamType[Any]  # generic only in newer versions of click's types
else:
    Parameter = click.ParamType

UNITS_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def parse_bytes(text: str) -> int:
    """Parse a number of bytes: "4096", "33kB", "512MiB", "1.5GB". Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(\w*)", text)
    if not match or (match[2] or "B").lower() not in UNITS_BYTES:
        raise ValueError(f"{text!r} is not a size; write for example 4096, 33kB, 512MiB or 1.5GB")
    return round(float(match[1]) * UNITS_BYTES[(match[2] or "B").lower()])


def parse_time(text: str, now: datetime) -> datetime:
    """Parse an ISO 8601 time (local time if it names no zone), or "+15m" from now. Raises ValueError."""
    if text.startswith("+"):
        return now + timedelta(seconds=parse_duration_s(text[1:]))
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise ValueError(f"{text!r} is not a time; write for example 2030-01-31T18:00+01:00 or +15m") from None


class Duration(Parameter):
    """Seconds, from text like 15m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else parse_duration_s(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class ByteSize(Parameter):
    """Bytes, from text like 512MiB."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else parse_bytes(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Time(Parameter):
    """A moment, from ISO 8601 or from +15m."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return value if isinstance(value, datetime) else parse_time(str(value), datetime.now(UTC))
        except ValueError as error:
            self.fail(str(error), param, ctx)


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


def cap_words(cap: Cap) -> str:
    """Return a cap in words."""
    if not cap.rate:
        return "no cap"
    return f"at most {cap.rate:,} targets/s" + (f", {cap.burst:,} at once" if cap.burst else "")


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


class Fraction(Parameter):
    """A fraction: 5% or 0.05."""

    name = "part"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            part = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            part = -1.0
        if not 0 <= part <= 1:
            self.fail(f"{text!r} is not a fraction; write for example 5% or 0.05", param, ctx)
        return part
