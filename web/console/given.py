"""Values of forms, as people type them."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import parse_duration_s
from web.bodies import parse_query

T = TypeVar("T", bound=msgspec.Struct)
_LABELS = {
    "for_s": "Pause for",
    "ttl_s": "Time to live up to",
    "requests_s": "Requests/s",
    "q": "Part of the id or app",
}


def label(name: str) -> str:
    """Return a field's name for people."""
    return _LABELS.get(name, name[:1].upper() + name[1:].replace("_", " "))


def texts(form: Mapping[str, str], *names: str) -> dict[str, Any]:
    """Return the fields of these names that are not empty."""
    return {name: text for name in names if (text := form.get(name, "").strip())}


def need(form: Mapping[str, str], name: str) -> str:
    """Return a field. Raises InvalidInput if it is empty."""
    if not (text := form.get(name, "").strip()):
        raise InvalidInput(f"{label(name)} is empty.", "Fill it in.")
    return text


def seconds(form: Mapping[str, str], name: str) -> float | None:
    """Return a duration; None for an empty field. Raises InvalidInput."""
    try:
        return parse_duration_s(form[name]) if texts(form, name) else None
    except ValueError as error:
        raise InvalidInput(f"{label(name)}: {error}.") from None


def body(model: type[T], form: Mapping[str, str], **more: Any) -> T:
    """Return a form as a body of the HTTP API. Raises InvalidInput.

    more: fields that are read already; None is left out."""
    given = texts(form, *model.__struct_fields__) | {name: value for name, value in more.items() if value is not None}
    try:
        return parse_query(list(given.items()), model)
    except InvalidInput as error:
        name = error.cause.partition(":")[0].rpartition(".")[2]
        if "got `str`" not in error.cause:
            raise
        kind = "a whole number" if "`int" in error.cause else "a number"
        raise InvalidInput(f"{label(name)}: is {form.get(name, '')!r}; it must be {kind}.", "Correct it.") from None
