"""Inputs that routes share: pages, filters, times."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from dispatcher.model.errors import InvalidInput
from dispatcher.model.tier import Tier

MAX_ROWS = 500
Limit = Annotated[int, Meta(ge=1, le=MAX_ROWS)]


class Input(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of bodies and queries: a field that is not known is refused."""


class Page(Input):
    """How much of a list is answered."""

    limit: Limit = 100


class TaskSelection(Input):
    """Which tasks are meant. What is left out selects any."""

    state: str | None = None
    app: str | None = None
    tier: Tier | None = None
    channel: str | None = None
    id_prefix: str | None = None
    q: str | None = None
    """A part of the id or of the app."""

    def only(self) -> dict[str, str | None]:
        """Return the selection as the desk takes it."""
        return {name: getattr(self, name) for name in TaskSelection.__struct_fields__}


def moment(text: str | None, name: str) -> datetime | None:
    """Return a time of RFC 3339. Raises InvalidInput."""
    try:
        return text if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{name}: is {text!r}; it must be a time such as 2026-01-31T08:00:00Z.") from None
