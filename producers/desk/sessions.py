"""Who is signed in at the console: by a key, or by a link from this machine's terminal."""

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from backends.redis.registry.sessions import SessionTable
from dispatcher.access.principal import Principal
from dispatcher.clock import Clock
from dispatcher.model.errors import NoKey, NotReady, Unreachable
from producers.desk.access_book import LOCAL, READS_S, AccessBook

_MAX_KNOWN = 10_000
_AGAIN = "Sign in with a key: `fairlane key create`."


class Sessions:
    """Begins, ends and recognizes sessions. A cookie's text is never stored. May be called by any thread."""

    def __init__(self, table: SessionTable, book: AccessBook, clock: Clock) -> None:
        self._table = table
        self._book = book
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, float]] = {}
        """Whose session it is, and when Redis last said so (monotonic s), by digest."""

    def start(self, principal: Principal) -> str:
        """Begin a session. Return the text of its cookie. Raises Unreachable."""
        cookie = secrets.token_urlsafe(32)
        with _nameless():
            self._table.start(_digest(cookie), f"{principal.kind}:{principal.name}")
        return cookie

    def principal(self, cookie: str) -> Principal:
        """Return who is signed in, with the rights that it has now. Raises NoKey, NotReady, Unreachable.

        While Redis is gone a session of the last minute goes on.
        """
        self._book.check_age(READS_S)
        digest = _digest(cookie)
        known, known_s = self._known.get(digest, ("", float("-inf")))
        is_known = self._clock.monotonic_s() - known_s <= READS_S
        subject: str | None = known
        try:
            if silence := self._book.silence:
                raise silence
            with _nameless():
                subject = self._table.use(digest)
            self._note(digest, subject)
        except (NotReady, Unreachable):
            if not is_known:
                raise
        if not subject:
            raise NoKey("You are not signed in, or your session has ended.", _AGAIN)
        return self._book.principal_of(subject)

    def end(self, cookie: str) -> None:
        """End a session. Raises Unreachable."""
        self._note(_digest(cookie), None)
        with _nameless():
            self._table.end(_digest(cookie))

    def offer(self) -> str:
        """Return the secret of a link that signs in an operator of this machine once. Raises Unreachable."""
        secret = secrets.token_urlsafe(32)
        self._table.offer(_digest(secret))
        return secret

    def spend(self, secret: str) -> str:
        """Sign in by a link. Return the text of the cookie. Raises NoKey, Unreachable."""
        with _nameless():
            is_good = self._table.spend(_digest(secret))
        if not is_good:
            raise NoKey("The link is too old, or was used.", "Start `fairlane api` again, or sign in with a key.")
        return self.start(self._book.principal_of(LOCAL))

    def _note(self, digest: str, subject: str | None) -> None:
        with self._lock:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            if subject is None:
                self._known.pop(digest, None)
            else:
                self._known[digest] = subject, self._clock.monotonic_s()


@contextmanager
def _nameless() -> Iterator[None]:
    """Leave addresses out of what anybody may be told."""
    try:
        yield
    except Unreachable:
        raise Unreachable("Redis does not answer.", "Try again later.") from None


def _digest(secret: str) -> str:
    return sha256(secret.encode(errors="replace")).hexdigest()
