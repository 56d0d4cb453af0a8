"""The guard's stored states in words, for `estate show`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from estate.rules.node_life import Intent, NodeKind, NodeRecord


@dataclass(frozen=True)
class Guarded:
    """The elected guard and the states that it, or the one before it, left."""

    guard: str | None = None
    """None: none is elected, or nobody could be asked."""
    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    """By key of the record."""
    failure: str = ""
    """Why the states could not be read; empty if they were."""

    @property
    def title(self) -> str | None:
        """Return the guard's name or `none`; None if nobody could be asked."""
        return None if self.failure else self.guard or "none"

    def note(self, kind: NodeKind, name: str) -> str | None:
        """Return what is remarkable about a node's state; None for one that is serving, or unknown."""
        node = self.nodes.get(f"{kind}/{name}")
        return None if node is None else self._intent(node) or _state(node)

    def _intent(self, node: NodeRecord) -> str:
        if node.intent is Intent.NONE:
            return ""
        return f"{node.intent} is under way" if self.guard else f"{node.intent} was begun by a guard that ended"

    def wrong(self) -> Iterator[str]:
        """Yield one phrase for each thing that no bookie or broker shows by itself."""
        for node in self.nodes.values():
            if node.by_guard and node.out_of_service and not self.guard and not self.failure:
                yield f"{node.kind} {node.name} is {node.state}, and no guard runs that would release it"
            elif node.by_guard and node.out_of_service and node.kind is NodeKind.BROKER:
                yield f"broker {node.name} is {node.state} by the guard"
            elif node.intent is not Intent.NONE and not self.guard and not self.failure:
                yield f"to {node.intent} {node.kind} {node.name} was begun by a guard that ended, and none runs"


def _state(node: NodeRecord) -> str | None:
    if node.state == "isolated" and not node.by_guard:
        return "isolated by hand"
    if node.state == "isolated":
        return f"isolated, well for {node.well_ms / 1000:.0f} of {node.hold_ms / 1000:.0f} s"
    if node.state == "serving":
        return f"on probation for {node.probation_ms / 1000:.0f} s" if node.probation_ms > 0 else None
    return node.state
