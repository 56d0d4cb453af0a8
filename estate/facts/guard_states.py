"""The states of the estate's nodes as the elected guard knows them, and who that is."""

from backends.redis.view import ViewPart

GUARD_JOB = "estate-guard"
"""Name of the guard's lock."""


class GuardStates(ViewPart):
    """Stores and reads the states. Every method raises Unreachable if Redis cannot be reached."""

    def guard(self) -> str | None:
        """Return the elected guard; None if there is none now."""
        holder = self._view.command("GET", self._view.keys.lock(GUARD_JOB))
        return None if holder is None else holder.decode()

    def read(self) -> bytes | None:
        """Return the stored states; None if none were ever stored, or Redis was emptied."""
        content: bytes | None = self._view.command("GET", self._view.keys.guarded)
        return content

    def keep(self, guard: str, content: bytes) -> bool:
        """Store the states. Return False, and store nothing, if another guard is elected, or none."""
        return bool(self._view.call("keep_guarded", guard, content))
