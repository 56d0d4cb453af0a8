"""The last figures of pages, so that they can be shown, greyed, while the servers behind them do not answer."""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from dispatcher.model.errors import FairlaneError, NotReady, TimedOut, Unreachable
from web.console.page import Page, Visit

WAIT_S = 2.0
"""So long one waits for another who reads the same page."""
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
        self._kept: OrderedDict[tuple[Any, ...], _Kept] = OrderedDict()

    def read(self, page: Page, visit: Visit, silence: FairlaneError | None = None) -> Shown:
        """Read a page, or return it as it was read just now, also by a session that asked for it at the same time.

        silence: why servers are not waited for again. Raises errors of Fairlane that are not due to servers that do not
        answer. Tables as CSV may be large, and their readers do not see an age: they are never kept.
        """
        if "format" in visit.query:
            return Shown(page.read(visit))
        return self._kept_of(page, visit).read(page, visit, silence)

    def last(self, page: Page, visit: Visit, trouble: FairlaneError) -> Shown:
        """Return a page as it was last read. trouble: why it is not waited for, which is raised instead of a table."""
        if "format" in visit.query:
            raise trouble
        return self._kept_of(page, visit).last(trouble)

    def _kept_of(self, page: Page, visit: Visit) -> "_Kept":
        principal = visit.desks.principal
        key = (
            page.name, principal.app, principal.scopes, *sorted(visit.path.items()), *sorted(visit.query.items())
        )  # fmt: skip
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return kept


class _Kept:
    """A page as one reads it for all who ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_s = self._read_s = float("-inf")
        """Monotonic times: when it was last asked for, and when it was last read."""
        self._context: Mapping[str, Any] | None = None
        self._trouble: FairlaneError | None = None

    def read(self, page: Page, visit: Visit, silence: FairlaneError | None) -> Shown:
        if silence and self._context is not None:
            return self.last(silence)
        if not self._lock.acquire(timeout=WAIT_S):
            return self.last(TimedOut("This page takes long to read.", "Load it again in a few seconds."))
        try:
            if time.monotonic() - self._asked_s >= FRESH_S:
                self._ask(page, visit)
            return self.last(self._trouble)
        finally:
            self._lock.release()

    def _ask(self, page: Page, visit: Visit) -> None:
        try:
            self._context, self._trouble = page.read(visit), None
            self._read_s = time.monotonic()
        except (Unreachable, NotReady, TimedOut) as error:
            self._trouble = error
        self._asked_s = time.monotonic()

    def last(self, trouble: FairlaneError | None) -> Shown:
        age_s = time.monotonic() - self._read_s
        if trouble is None:
            return Shown(self._context)
        return Shown(self._context if age_s < KEPT_S else None, age_s, trouble)
