"""The last figures of pages, so that they can be shown, greyed, while the servers behind them do not answer."""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from dispatcher.model.errors import FairlaneError, NotReady, TimedOut, Unreachable
from web.console.page import Page, Visit

FRESH_S = 1.0
"""Within this time a page is not read again: many sessions look at the same one."""
KEPT_S = 600.0
_KEPT = 200


class Shown(NamedTuple):
    """A page as it is to be shown."""

    context: Mapping[str, Any] | None
    """The context of its template; None if nothing is known."""
    age_s: float = 0.0
    """Seconds since it was read; 0: now."""
    trouble: FairlaneError | None = None
    """Why it could not be read now."""


class LastShown:
    """The newest contexts of pages. May be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], tuple[float, Mapping[str, Any]]] = OrderedDict()

    def read(self, page: Page, visit: Visit) -> Shown:
        """Read a page, or return it as it was read just now.

        Raises errors of Fairlane that are not due to servers that do not answer.
        """
        principal = visit.desks.principal
        key = (
            page.name, principal.app, principal.scopes, *sorted(visit.path.items()), *sorted(visit.query.items())
        )  # fmt: skip
        at_s, context = self._kept.get(key, (float("-inf"), None))
        age_s = time.monotonic() - at_s
        if context is not None and age_s < FRESH_S:
            return Shown(context)
        try:
            fresh = page.read(visit)
        except (Unreachable, NotReady, TimedOut) as error:
            return Shown(context if age_s < KEPT_S else None, age_s, error)
        with self._lock:
            self._kept[key] = time.monotonic(), fresh
            self._kept.move_to_end(key)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return Shown(fresh)
