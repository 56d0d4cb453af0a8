"""Messages for invalid fields, in our own words instead of pydantic's."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from dispatcher.channels.names import NO_CHANNEL
from dispatcher.model.errors import InvalidInput
from dispatcher.wire.topics import NAME_PATTERN, TASK_PATTERN

NAME_RULE: Final = "it must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit"
_RULES: Final = {f"^{NAME_PATTERN}$": NAME_RULE, f"^{TASK_PATTERN}$": NAME_RULE.replace("64", "100")}
_INTEGER, _NUMBER, _TIME = (
    "it must be a whole number",
    "it must be a number",
    "it must be a time, such as 2030-01-31T18:00+01:00",
)
_TRUTH, _TEXT, _FIELDS = "it must be true or false", "it must be a text", "it must be a mapping of fields"

_Context = Mapping[str, Any]
_WORDS: Final[dict[str, str | Callable[[_Context], str]]] = {
    "extra_forbidden": "there is no such field",
    "missing": "is missing",
    "string_type": _TEXT,
    "string_pattern_mismatch": lambda context: _RULES.get(context["pattern"], "it has the wrong form"),
    "enum": lambda context: f"it must be {context['expected']}",
    "int_type": _INTEGER,
    "int_parsing": _INTEGER,
    "int_parsing_size": _INTEGER,
    "int_from_float": _INTEGER,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "it must be a finite number",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "greater_than_equal": lambda context: f"it must be {context['ge']:,} or more",
    "less_than_equal": lambda context: f"it must be at most {context['le']:,}",
    "greater_than": lambda context: f"it must be more than {context['gt']:,}",
    "less_than": lambda context: f"it must be less than {context['lt']:,}",
    "literal_error": lambda context: f"it must be {context['expected']}",
    "timezone_aware": "it has no time zone; write one, as in 2030-01-31T18:00+01:00",
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "datetime_object_invalid": _TIME,
    "dict_type": "it must be a mapping or a text",
    "model_type": _FIELDS,
    "invalid-json-value": "it must be a JSON value",
}
"""Messages by pydantic's error type. For any other type, pydantic's own message is used."""


def invalid_input(error: ValidationError, subject: str = "task") -> InvalidInput:
    """Convert pydantic's errors to one error with a line for each field."""
    return InvalidInput("\n".join(f"{subject}: {_line(dict(detail))}" for detail in error.errors()))


def missing(field: str) -> str:
    """Return what to say about a field of a task that must be given."""
    return NO_CHANNEL if field == "channel" else "is missing"


def in_words(detail: Mapping[str, Any]) -> str:
    """Return the message for a pydantic error, such as "it must be a whole number"."""
    words = _WORDS.get(detail["type"], str(detail["msg"]).removeprefix("Value error, "))
    return words if isinstance(words, str) else words(detail["ctx"])


def _line(detail: Mapping[str, Any]) -> str:
    field = ".".join(str(part) for part in detail["loc"] if part not in ("float", "int", "str")) or "(all)"
    if detail["type"] == "missing" or (field == "channel" and detail.get("input") is None):
        return f"{field}: {missing(field)}"
    value = repr(detail.get("input"))
    shown = f" (given: {value if len(value) <= 60 else value[:57] + '...'})"
    return f"{field}: {in_words(detail)}{shown}"
