"""Seats: jobs that one worker does for all, held by locks in Redis that expire."""

from collections.abc import Collection, Sequence

from backends.redis.view import RedisView


class JobLocks:
    """All methods raise Unreachable."""

    def __init__(self, view: RedisView) -> None:
        self._view = view

    def hold(
        self, names: Sequence[str], owner: str, ttl_ms: int, limit: int, overdue: Collection[str]
    ) -> dict[str, str]:
        """Renews those of `names` that are owner's; takes free ones, in order, until it holds `limit`; takes the free
        ones among `overdue` in any case. One atomic call; the owner by name, of those that are held."""
        answer = self._view.call("hold_seats", owner, ttl_ms, limit, len(names), *names, *overdue)
        words = [word.decode() for word in answer]
        return dict(zip(words[::2], words[1::2], strict=True))

    def release(self, names: Sequence[str], owner: str) -> None:
        """Lets go of those that are owner's."""
        self._view.call("release_seats", owner, *names)
