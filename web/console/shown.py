"""The last figures of pages: read once for all who look, ahead of updates, and shown greyed while servers are gone."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from dispatcher.model.errors import FairlaneError, NotReady, TimedOut, Unreachable
from web.console.page import Page, Visit

WAIT_S = 2.0
"""So long one waits for another who reads the same page."""
FRESH_S = 1.0
"""Within this time a page is not read again: many sessions look at the same one."""
UPDATE_S = 3.0
"""An open page gets figures as old as this: it need not wait for those that are read for its next update."""
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
    texts: dict[str, str] | None = None
    """Renderings of this reading, by template; None: they are not kept."""


class LastShown:
    """The newest contexts of pages. May be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], _Kept] = OrderedDict()

    def read(self, page: Page, visit: Visit, silence: FairlaneError | None = None, *, is_update: bool = False) -> Shown:
        """Read a page, or return it as it was read just now, also by a session that asked for it at the same time.

        silence: why servers are not waited for again. is_update: of a page that is open. Raises errors of Fairlane that
        are not due to servers that do not answer. Tables as CSV may be large, and their readers do not see an age: they
        are never kept.
        """
        if "format" in visit.query:
            return Shown(page.read(visit))
        return self._kept_of(page, visit).read(page, visit, silence, UPDATE_S if is_update else FRESH_S)

    def ahead(self, page: Page, visit: Visit) -> Callable[[], None] | None:
        """Return what reads a page for its next update; None if somebody will. For one thread."""
        kept = self._kept_of(page, visit)
        if kept.is_awaited:
            return None
        kept.is_awaited = True
        return lambda: kept.renew(page, visit)

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
        self._shown = Shown(None)
        """The newest reading."""
        self._trouble: FairlaneError | None = None
        self.is_awaited = False
        """Whether `renew` will be called."""

    def read(self, page: Page, visit: Visit, silence: FairlaneError | None, max_age_s: float) -> Shown:
        if silence and self._shown.context is not None:
            return self.last(silence)
        if time.monotonic() - self._asked_s < max_age_s:
            return self.last(self._trouble)
        if not self._lock.acquire(timeout=WAIT_S):
            return self.last(TimedOut("This page takes long to read.", "Load it again in a few seconds."))
        try:
            if time.monotonic() - self._asked_s >= FRESH_S:  # else it was waited for
                self._ask(page, visit)
            return self.last(self._trouble)
        finally:
            self._lock.release()

    def renew(self, page: Page, visit: Visit) -> None:
        self.is_awaited = False
        with suppress(FairlaneError):  # who asks next is told
            self.read(page, visit, None, FRESH_S)

    def _ask(self, page: Page, visit: Visit) -> None:
        try:
            self._shown, self._trouble = Shown(page.read(visit), texts={}), None
            self._read_s = time.monotonic()
        except (Unreachable, NotReady, TimedOut) as error:
            self._trouble = error
        self._asked_s = time.monotonic()

    def last(self, trouble: FairlaneError | None) -> Shown:
        shown = self._shown._replace(age_s=time.monotonic() - self._read_s, trouble=trouble)
        return shown._replace(context=None) if trouble and shown.age_s >= KEPT_S else shown
