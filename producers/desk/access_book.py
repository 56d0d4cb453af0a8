"""The keys, users and policies that the door knows: a copy of the view's, at most a second old."""

import logging
import threading
from collections.abc import Callable
from shlex import quote

from backends.redis.registry.access import Access, AccessTable
from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.keys import id_and_secret
from dispatcher.access.principal import Principal, Scope
from dispatcher.access.users import LOCAL_USER
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Forbidden, NoKey, NotReady

EVERY_S = 0.25
"""How often the view is asked for changes: a revoked key is refused within a second."""
JUDGED_S = 1.0
"""For how long the copy is good enough to call a key unknown: it may be newer than the copy."""
CHANGES_S = 5.0
"""For how long the copy is good enough for what changes anything, without an answer of the view."""
SILENT_S = 3.0
"""After this time without an answer of the view, pages that are known are shown as they are."""
READS_S = 60.0
"""For how long it is good enough for reading."""
LOCAL = f"user:{LOCAL_USER}"
_HOW = "Send a key in the header Authorization, after the word Bearer. An operator makes keys: `fairlane key create`."
_log = logging.getLogger(__name__)


class UnknownKey(NoKey):
    """A key that the copy does not have: it is wrong, or newer than the copy."""

    def __init__(self, age_s: float) -> None:
        """age_s: of the copy."""
        super().__init__("The key is unknown.", _HOW)
        self.age_s = age_s


class AccessBook:
    """Follows keys and policies in a thread of its own, and knows who a key is. Methods may be called by any thread."""

    def __init__(self, table: AccessTable, is_complete: Callable[[], bool], clock: Clock) -> None:
        """is_complete: whether the view is, so that a missing key does not exist. Raises Unreachable."""
        self._table = table
        self._is_complete = is_complete
        self._clock = clock
        self._access = Access()
        self._last: str | None = None
        self._confirmed_s = float("-inf")
        self._uses: dict[str, int] = {}
        self._noted: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="access", daemon=True)

    def start(self) -> None:
        """Read once, and go on in a thread. Return also if the view does not answer."""
        self.follow()
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def principal(self, token: str) -> Principal:
        """Return who asks with a key. Raises NoKey, UnknownKey; NotReady if too little is known of keys."""
        parts, now_ms = id_and_secret(token), self._clock.wall_ms()
        if parts is None:
            raise NoKey("There is no valid key." if token else "There is no key.", _HOW)
        id_, secret = parts
        self.check_age(READS_S)
        key = self._access.keys.get(id_)
        if key is None or not key.fits(secret):
            self.check_age(JUDGED_S)
            raise UnknownKey(self.age_s)
        if (state := key.state(now_ms)) != "live":
            raise NoKey(f"The key {id_} {'has ended' if state == 'ended' else 'was revoked'}.", _HOW)
        self._uses[id_] = now_ms
        return key.principal(id_)

    def principal_of(self, subject: str) -> Principal:
        """Return who a session is of, by `key:ID` or `user:NAME`. Raises NoKey, NotReady."""
        self.check_age(READS_S)
        kind, _, name = subject.partition(":")
        if subject == LOCAL:
            return Principal(kind="user", name=name, app="", scopes=frozenset(Scope))
        key = self._access.keys.get(name) if kind == "key" else None
        if key is None or key.state(self._clock.wall_ms()) != "live":
            raise NoKey("The session has ended with its key.", "Sign in again.")
        self._uses[name] = self._clock.wall_ms()
        return key.principal(name)

    def user(self, name: str) -> Principal:
        """Return a user that a proxy has named, with the rights that it has now. Raises Forbidden, NotReady."""
        self.check_age(READS_S)
        user = self._access.users.get(name)
        if user is None:
            self.check_age(JUDGED_S)
            raise Forbidden(
                f"You are {name!r}, a user who may do nothing here.",
                f"Ask an operator for rights: `fairlane user set {quote(name)} --scopes read`.",
            )
        return user.principal(name)

    def policy(self, app: str) -> AppPolicy:
        """Return the policy of an app."""
        return self._access.policy(app)

    @property
    def age_s(self) -> float:
        """Seconds since the view last confirmed the copy, `inf` if it never did."""
        return self._clock.monotonic_s() - self._confirmed_s

    @property
    def silence(self) -> NotReady | None:
        """Why the view need not be waited for again; None if it answers."""
        try:
            self.check_age(SILENT_S)
        except NotReady as error:
            return error
        return None

    def check_age(self, max_s: float) -> None:
        """Raise NotReady if the view confirmed the copy longer ago."""
        age_s = self.age_s
        if age_s > max_s:
            known = f"not confirmed for {age_s:.0f} s" if age_s < float("inf") else "not known yet"
            raise NotReady(
                f"Keys and policies are {known}: Redis does not answer, or its view is being rebuilt.",
                "Try again in some seconds; an operator sees which in `fairlane doctor`.",
            )

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.follow()

    def follow(self) -> None:
        """Read what has changed. Only a view that was complete before and after counts: an empty one has no keys."""
        asked_s = self._clock.monotonic_s()
        try:
            if not self._is_complete():
                return
            last = self._table.last()
            access = self._access if last == self._last else self._table.read()
            if self._is_complete():
                self._access, self._last, self._confirmed_s = access, last, asked_s
                self._note_uses()
        except FairlaneError as error:
            _log.debug("keys are not followed: %s", error)
        except Exception:  # without this thread every request would be refused for ever
            _log.exception("keys are not followed")

    def _note_uses(self) -> None:
        """Store the last uses of keys, each once a minute at most."""
        for id_, used_ms in list(self._uses.items()):
            if self._noted.get(id_) != used_ms // 60_000:
                self._table.note_use(id_, used_ms)
                self._noted[id_] = used_ms // 60_000
