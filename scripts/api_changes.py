"""The rule for changes of the HTTP API: nothing is removed, and nothing is newly required."""

from collections.abc import Iterator
from typing import Any

FREE = {
    "default", "description", "info", "maxItems", "maxLength", "maximum", "minLength", "minimum", "required", "summary",
    "title",
}  # fmt: skip
"""Texts and bounds may change. `required` has rules of its own."""


def breaking(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield a line for each difference between two OpenAPI documents that would break a client."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _newly_required(old, new, place)
        for name in sorted(old.keys() - (set() if place.endswith("/properties") else FREE)):
            if name in new:
                yield from breaking(old[name], new[name], f"{place}/{name}")
            else:
                yield f"{place}/{name} is removed"
    elif isinstance(old, list) and isinstance(new, list):
        yield from breaking(_named(old), _named(new), place)
    elif old != new:
        yield f"{place} was {old} and is {new}"


def _newly_required(old: dict[str, Any], new: dict[str, Any], place: str) -> Iterator[str]:
    before, after = old.get("required", False), new.get("required", False)
    if isinstance(after, list):
        known = set(before or ())
        if new.get("additionalProperties") is False:  # an input
            yield from (f"{place}/{name} is newly required" for name in after if name not in known)
        else:
            yield from (f"{place}/{name} may be missing" for name in sorted(known - set(after)))
    elif after is True and before is not True:
        yield f"{place} is newly required"
    for name in sorted(new.keys() - old.keys()):
        if isinstance(new[name], dict) and new[name].get("required") is True:
            yield f"{place}/{name} is newly required"


def _named(items: list[Any]) -> dict[str, Any]:
    """Return the items by their names, so that their order does not count."""
    return {str(item.get("name", item) if isinstance(item, dict) else item): item for item in items}
