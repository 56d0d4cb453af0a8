"""Values of forms, as people type them."""

from collections.abc import Mapping

from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import parse_duration_s


def texts(form: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the fields of these names that are not empty."""
    return {name: text for name in names if (text := form.get(name, "").strip())}


def need(form: Mapping[str, str], name: str) -> str:
    """Return a field. Raises InvalidInput if it is empty."""
    if not (text := form.get(name, "").strip()):
        raise InvalidInput(f"{name}: is empty.", "Fill it in.")
    return text


def number(text: str, name: str) -> float:
    """Return a number, 0 for `none`. Raises InvalidInput."""
    try:
        return 0.0 if text == "none" else float(text.replace(",", ""))
    except ValueError:
        raise InvalidInput(f"{name}: is {text!r}; it must be a number.", "Write 2 or 0.5, for example.") from None


def seconds(text: str, name: str) -> float:
    """Return a duration. Raises InvalidInput."""
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise InvalidInput(f"{name}: {error}.") from None
