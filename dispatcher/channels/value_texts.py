"""The forms of a variable of a target, on the wire and in a text: one table for Python, files and Spark.

JSON's own values stay as they are, so that `http` gets numbers as numbers. All other values become texts when they are
accepted. `text_of` gives every value as it appears in a message.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import chain
from math import isfinite
from typing import Any, Final
from uuid import UUID

import msgspec

_INTEGERS = range(-(2**63), 2**64)
"""Other whole numbers become texts: msgpack has none beyond 64 bits."""
_MAX_DIGITS = 2_048
"""A number with more digits is larger than all variables of a target may be."""
_MAX_PLACES = 6
"""With more places, as in Spark's decimal(38,18), zeros at the end are those of a type and not of a person."""
_UNCHANGED = frozenset({str, bool, type(None)})
_SCALARS = _UNCHANGED | {int, float}
_encode = msgspec.json.Encoder().encode


def text_of(value: object) -> str | None:
    """Return a value as it appears in a text; None if it has none, as NaN. Raises TypeError for bytes and the like."""
    plain = plain_value(value)
    if plain is None or isinstance(plain, str):
        return plain
    return _digits(plain) if isinstance(plain, float) else _encode(plain).decode()


def are_plain(each: Iterable[Mapping[Any, Any]]) -> bool:
    """Return whether all variables of some targets are scalars of JSON with names, so that they stay as they are."""
    values = list(chain.from_iterable([variables.values() for variables in each]))
    kinds = set(map(type, values))
    if not kinds <= _SCALARS or not {str}.issuperset(map(type, chain.from_iterable(each))):
        return False
    if int in kinds and not all(value in _INTEGERS for value in values if type(value) is int):
        return False
    return float not in kinds or all(isfinite(value) for value in values if type(value) is float)


def plain_variables(variables: Mapping[Any, Any]) -> dict[str, Any]:
    """Return variables as JSON values and texts, without those that have no value. Raises TypeError for a value that
    cannot be written, and names it."""
    plain = {}
    for name, value in variables.items():
        if not isinstance(name, str):
            raise TypeError("variables must be a mapping from text to values")
        try:
            form = plain_value(value)
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            raise TypeError(f"{name}: {error}") from error
        if form is not None or value is None:
            plain[str.__str__(name)] = form
    return plain


def plain_value(value: object) -> Any:
    """Return a value as a JSON value or a text; None if it has none. Raises TypeError if it cannot be written."""
    if type(value) in _UNCHANGED:
        return value
    plain = _EXACT.get(type(value)) or next((form for kinds, form in _FORMS if isinstance(value, kinds)), None)
    if plain is not None:
        return plain(value)
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return _numpy_value(value)
    names = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", ())
    if names:
        return {name: plain_value(getattr(value, name)) for name in names}
    if type(value).__name__ == "NAType":  # of pandas, which needs no import to be recognized
        return None
    raise TypeError(f"a value of type {type(value).__name__} is neither text nor JSON: convert it first")


def _object(value: Mapping[Any, Any]) -> dict[str, Any]:
    if not all(isinstance(name, str) for name in value):
        raise TypeError("the names in an object must be texts")
    return {str.__str__(name): plain_value(inner) for name, inner in value.items()}


def _decimal(value: Decimal) -> str | None:
    """Return all digits, also the zeros at the end: they are those of a price."""
    if not value.is_finite():
        return None
    exponent = int(value.as_tuple().exponent)
    if abs(exponent) > _MAX_DIGITS:
        raise TypeError(f"a number with more than {_MAX_DIGITS:,} digits is too long for a text")
    text = format(value, "f")
    return text if exponent >= -_MAX_PLACES else text.rstrip("0").rstrip(".")


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


_FORMS: Final[tuple[tuple[tuple[type, ...], Callable[[Any], Any]], ...]] = (
    ((Enum,), lambda value: plain_value(value.value)),
    ((str,), str.__str__),  # the text itself, whatever a subclass makes of str()
    ((int,), lambda value: int(value) if int(value) in _INTEGERS else format(Decimal(int(value)), "f")),
    ((float,), lambda value: float(value) if isfinite(value) else None),
    ((dict, Mapping), _object),
    ((list, tuple), lambda value: [plain_value(inner) for inner in value]),
    (
        (set, frozenset),
        lambda value: [plain_value(one) for one in sorted(value, key=lambda one: (str(type(one)), one))],
    ),
    ((Decimal,), _decimal),
    ((datetime, date, time), _moment),
    ((timedelta,), _duration),
    ((UUID,), str),
)
"""By types, the first that fit: how a value of them is written."""
_EXACT: Final = {kind: form for kinds, form in _FORMS for kind in kinds}
"""The same for values that are of no subclass: quicker."""
