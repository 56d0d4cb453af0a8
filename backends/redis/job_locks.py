"""Locks in Redis, which expire, of the jobs that one worker does for all."""

from collections.abc import Collection, Sequence

from backends.redis.client import pairs
from backends.redis.view import ViewPart


class JobLocks(ViewPart):
    """Takes, renews and releases the locks. Every method raises Unreachable if Redis cannot be reached."""

    def hold(
        self, names: Sequence[str], owner: str, ttl_ms: int, limit: int, overdue: Collection[str]
    ) -> dict[str, str]:
        """Renew the owner's locks and take free ones, in one atomic call. Return the owner of each lock held, by name.

        Free locks are taken in the order of `names` until the owner holds `limit`; those in `overdue` are taken
        regardless of the limit.
        """
        answer = self._view.call("hold_job_locks", owner, ttl_ms, limit, len(names), *names, *overdue)
        return {name.decode(): holder.decode() for name, holder in pairs(answer)}

    def release(self, names: Sequence[str], owner: str) -> None:
        """Release those of the named locks that the owner holds."""
        self._view.call("release_job_locks", owner, *names)
