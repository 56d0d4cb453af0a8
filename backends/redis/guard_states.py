"""States of the estate's nodes in Redis, as the elected guard knows them."""

import msgspec

from backends.redis.view import ViewPart
from dispatcher.model.errors import DECODING_ERRORS

GUARD_JOB = "estate-guard"
"""Name of the guard's lock."""


_STATES = ("gone", "isolated", "draining", "suspect", "joining", "serving")
"""The worst first."""


class GuardedNode(msgspec.Struct, frozen=True):
    """A broker or a bookie."""

    kind: str
    """broker or bookie."""
    name: str
    """host:port."""
    state: str
    """As in estate/rules/node_life.py."""
    slow_looks: int = 0
    """Looks in a row that found it slow."""


class _Stored(msgspec.Struct):
    nodes: list[GuardedNode]


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

    def nodes(self) -> list[GuardedNode]:
        """Return the nodes as the elected guard knows them, the worst first; none if no guard runs."""
        content = self.read() if self.guard() else None
        try:
            stored = [] if content is None else msgspec.json.decode(content, type=_Stored).nodes
        except DECODING_ERRORS:  # of another version
            return []
        rank = {state: index for index, state in enumerate(_STATES)}
        return sorted(stored, key=lambda node: (rank.get(node.state, 0), -node.slow_looks, node.name))

    def keep(self, guard: str, content: bytes) -> bool:
        """Store the states. Return False, and store nothing, if another guard is elected, or none."""
        return bool(self._view.call("keep_guarded", guard, content))
