"""What a variable of a target is on the wire and in a text: one table for Python, files and Spark.

JSON's own values stay as they are, so that `http` gets numbers as numbers. All other values become texts when they are
accepted. `text_of` gives every value as it appears in a message.
"""

from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any, Final
from uuid import UUID

import msgspec

_INTEGERS = range(-(2**63), 2**64)
"""Other whole numbers become texts: msgpack has none beyond 64 bits."""
_MAX_DIGITS = 2_048
"""A number with more digits is larger than all variables of a target may be."""
_UNCHANGED = frozenset({str, bool, type(None)})
_encode = msgspec.json.Encoder().encode


def text_of(value: object) -> str | None:
    """Return a value as it appears in a text; None if it has none, as NaN. Raises TypeError for bytes and the like."""
    plain = plain_value(value)
    if plain is None or isinstance(plain, str):
        return plain
    return _digits(plain) if isinstance(plain, float) else _encode(plain).decode()


def plain_variables(variables: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Return variables as JSON values and texts, without those that have no value. Raises TypeError for a value that
    cannot be written."""
    if _UNCHANGED.issuperset(map(type, variables.values())) and all(type(name) is str for name in variables):
        return variables
    pairs = [(_key(name), value, plain_value(value)) for name, value in variables.items()]
    return {name: plain for name, value, plain in pairs if plain is not None or value is None}


def plain_value(value: object) -> Any:
    """Return a value as a JSON value or a text; None if it has none. Raises TypeError if it cannot be written."""
    if type(value) in _UNCHANGED:
        return value
    for kind, plain in _FORMS:
        if isinstance(value, kind):
            return plain(value)
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return _numpy_value(value)
    names = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", ())
    if names:
        return {name: plain_value(getattr(value, name)) for name in names}
    if type(value).__name__ == "NAType":  # of pandas, which needs no import to be recognized
        return None
    raise TypeError(f"a value of type {type(value).__name__} has no form as text")


def exact_text(text: str) -> str:
    """Return a text of a subclass, such as an enum's or numpy's, as a plain text."""
    return text if type(text) is str else str.__str__(text)


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError("variables must be a mapping from text to values")
    return exact_text(name)


def _whole(value: int) -> int | str:
    return int(value) if int(value) in _INTEGERS else str(int(value))


def _decimal(value: Decimal) -> str | None:
    """Return all digits, also trailing zeros: they are those of a price."""
    if not value.is_finite():
        return None
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > _MAX_DIGITS:
        raise TypeError(f"a number with more than {_MAX_DIGITS:,} digits is too long for a text")
    return format(value, "f")


def _digits(value: float) -> str:
    """Return the shortest digits that stand for a number, without an exponent."""
    text = repr(value)
    return format(Decimal(text), "f") if "e" in text else text


def _moment(value: date | time) -> str | None:
    """Return the ISO form. NaT of pandas is a datetime without one."""
    text = value.isoformat()
    if text == "NaT":
        return None
    return text.removesuffix("+00:00") + ("Z" if text.endswith("+00:00") else "")


def _duration(value: timedelta) -> str:
    """Return hours, minutes and seconds, such as 26:05:00."""
    whole, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    minutes, seconds = divmod(whole, 60)
    sign = "-" if value < timedelta(0) else ""
    fraction = f".{micros:06d}" if micros else ""
    return f"{sign}{minutes // 60}:{minutes % 60:02d}:{seconds:02d}{fraction}"


def _numpy_value(value: Any) -> Any:
    kind = value.dtype.kind
    if kind == "f":  # of 16 or 32 bits: the digits that were written, not those of the double next to it
        return plain_value(float(str(value)))
    if kind == "M":
        seconds, _, fraction = str(value).partition(".")
        return None if seconds == "NaT" else seconds + (f".{fraction}" if fraction.strip("0") else "")
    return plain_value(value.astype("m8[us]").item() if kind == "m" else value.item())


def _refused(value: object) -> None:
    raise TypeError(f"a value of type {type(value).__name__} is no text: decode it first")


_FORMS: Final[tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...]] = (
    (Enum, lambda value: plain_value(value.value)),
    (str, exact_text),
    (int, _whole),
    (float, lambda value: float(value) if isfinite(value) else None),
    (Mapping, lambda value: {_key(name): plain_value(inner) for name, inner in value.items()}),
    ((list, tuple), lambda value: [plain_value(inner) for inner in value]),
    ((set, frozenset), lambda value: [plain_value(inner) for inner in sorted(value)]),
    (Decimal, _decimal),
    ((date, time), _moment),
    (timedelta, _duration),
    (UUID, str),
    ((bytes, bytearray, memoryview), _refused),
)
"""By type, the first that fits: how its values are written. A datetime is a date."""
