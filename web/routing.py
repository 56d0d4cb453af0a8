"""A route: its place, its action, its inputs and its function."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from dispatcher.access.actions import ACTIONS
from producers.desk.front_door import Desks

JSON_BYTES = 1 << 20
"""The largest body of most routes."""
T = TypeVar("T")


class Call(NamedTuple):
    """One request, checked and parsed."""

    desks: Desks
    """The desks of its principal."""
    path: Mapping[str, str]
    """The values in the path, by name."""
    query: Any
    """An object of the route's `query`; None if it has none."""
    body: Any
    """An object of the route's `body`; None if it has none. For `upload`: the Feed of its lines."""
    headers: Mapping[str, str]


class Answer(NamedTuple):
    """The answer to a request."""

    document: Any
    """Anything that msgspec encodes as JSON."""
    status: int = 200
    headers: Mapping[str, str] = {}


def rows(items: Iterable[T], row_of: Callable[[T], Mapping[str, Any]], limit: int | None = None) -> Answer:
    """Return the first items as a list, and whether there are more. limit: None for all."""
    items = iter(items)
    return Answer({"rows": list(map(row_of, islice(items, limit))), "more": next(items, None) is not None})


class Stream(NamedTuple):
    """An answer that goes on until its client leaves, its key ends, or the server stops."""

    parts: AsyncGenerator[bytes, None]
    """Its parts. One comes at least every few seconds, even if it is empty: the key is checked then."""
    content_type: str = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    action: str
    """Name of its action in the table."""
    handle: Callable[[Call], Answer | Stream]
    """Runs in a thread; raises errors of Fairlane, which become problems."""
    body: type | None = None
    """The type of its JSON body, a Struct that forbids unknown fields."""
    query: type | None = None
    """The type of its query, such a Struct."""
    upload: Callable[[Call], Answer] | None = None
    """As `handle`, for a body of NDJSON, which it reads while it comes."""
    status: int = 200
    max_bytes: int = JSON_BYTES
    is_idempotent: bool = False
    """Whether the header Idempotency-Key counts, and a repetition is answered with 200."""
    name: str = ""
    """Its name in OpenAPI, where its action has several routes. Empty: the action's."""


def checked(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """Return the routes. Raises LookupError for a route whose action is not in the table, or an action without one."""
    if odd := {route.action for route in routes} ^ ACTIONS.keys():
        raise LookupError(f"Actions of routes and of the table differ: {sorted(odd)}.")
    return routes
