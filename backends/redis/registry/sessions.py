"""Sessions of the console in Redis. Nothing is lost with them but that people sign in again."""

from backends.redis.view import ViewPart

IDLE_S = 8 * 3_600
"""A session ends when it was not used for this time."""
MAX_SESSIONS = 100
"""Sessions of one key or user; the oldest ends with the next."""
LINK_S = 600
"""For how long a link to sign in is good."""


class SessionTable(ViewPart):
    """Sessions by the SHA-256 of their cookies, and links by that of their secrets. Methods raise Unreachable."""

    def start(self, digest: str, subject: str) -> None:
        """Begin a session of `key:ID` or `user:NAME`."""
        command, ours = self._view.command, self._view.keys.sessions_of(subject)
        command("SET", self._view.keys.session(digest), subject, "PX", IDLE_S * 1_000)
        command("ZADD", ours, self._view.now_ms(), digest)
        command("PEXPIRE", ours, IDLE_S * 1_000)
        for oldest in command("ZRANGE", ours, 0, -MAX_SESSIONS - 1):
            self.end(oldest.decode())
            command("ZREM", ours, oldest)

    def use(self, digest: str) -> str | None:
        """Return whose session this is, which then goes on for IDLE_S; None if there is none."""
        subject = self._view.command("GETEX", self._view.keys.session(digest), "PX", IDLE_S * 1_000)
        return None if subject is None else bytes(subject).decode()

    def end(self, digest: str) -> None:
        """End a session."""
        self._view.command("UNLINK", self._view.keys.session(digest))

    def offer(self, digest: str) -> None:
        """Let a link be used once, within LINK_S."""
        self._view.command("SET", self._view.keys.session_link(digest), 1, "PX", LINK_S * 1_000)

    def spend(self, digest: str) -> bool:
        """Use a link. Return False if it was used, is too old, or never was."""
        return self._view.command("GETDEL", self._view.keys.session_link(digest)) is not None
