"""The life cycle of a broker or a bookie as a table, and what is remembered of one node between two looks.

Only observed facts and commands that were carried out change a state. All of it is stored, so that another guard goes
on where this one ended.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from dispatcher.model.errors import DECODING_ERRORS, InvalidInput
from dispatcher.model.lifecycle import Lifecycle

NODE_LIFE = Lifecycle(
    name="node",
    start=("joining",),
    transitions={
        "joining": {"serve": "serving", "isolate": "isolated", "vanish": "gone"},
        "serving": {"slow": "suspect", "isolate": "isolated", "drain": "draining", "vanish": "gone"},
        "suspect": {"well": "serving", "isolate": "isolated", "drain": "draining", "vanish": "gone"},
        "draining": {"drained": "isolated", "release": "serving", "vanish": "gone"},
        "isolated": {"release": "serving", "return": "serving", "vanish": "gone"},
        "gone": {"appear": "joining"},
    },
)
"""`slow`, `well`: judged so at several looks in a row. `isolate`: a guard or somebody else made a bookie read-only, or
a node came back out of service, as it was left. `drain`: the moves of a broker's bundles have begun. `return`: somebody
else made the node serve again, or it was restarted."""


class NodeKind(StrEnum):
    """Kind of a node."""

    BROKER = "broker"
    BOOKIE = "bookie"


class Intent(StrEnum):
    """A command that was stored before it was given, and of which no end is known."""

    NONE = ""
    ISOLATE = "isolate"
    """Make a bookie read-only, or drain a broker."""
    RELEASE = "release"


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """State and counts of one node, remembered between looks."""

    kind: NodeKind
    name: str
    """host:port."""
    state: str = "joining"
    """A state of NODE_LIFE."""
    intent: Intent = Intent.NONE
    by_guard: bool = False
    """Whether a guard asked for its isolation, and neither released it since nor knows that it failed. A node that
    somebody else took out of service is left to them."""
    slow_looks: int = 0
    """Looks in a row that found it slow."""
    well_looks: int = 0
    """Looks in a row that found it not slow."""
    well_ms: float = 0.0
    """Time in a row in which its probes were well, while it was isolated."""
    hold_ms: float = 0.0
    """Time for which its probes must be well before it is released; 0 if it was never isolated."""
    stale_ms: float = 0.0
    """Remaining time in which its p99 may be from before it came back. Looks do not count, and its probation waits."""
    probation_ms: float = 0.0
    """Time until its release is forgotten. If it is isolated before, it is held twice as long."""

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def out_of_service(self) -> bool:
        return self.state in ("isolated", "draining")

    def after(self, event: str) -> "NodeRecord":
        """Return the record in the state after an event, with its counts at zero if that changes the state."""
        state = NODE_LIFE.after(self.state, event)
        if state == self.state:
            return self
        return msgspec.structs.replace(self, state=state, slow_looks=0, well_looks=0, well_ms=0.0)


FORMAT = 1


class _Stored(msgspec.Struct, frozen=True):
    format: int
    nodes: list[NodeRecord]


def encode_nodes(nodes: Mapping[str, NodeRecord]) -> bytes:
    """Return the stored form of all records."""
    return msgspec.json.encode(_Stored(FORMAT, sorted(nodes.values(), key=lambda node: node.key)))


def decode_nodes(content: bytes) -> dict[str, NodeRecord]:
    """Return the records by their keys. Raises InvalidInput for anything else, and for states that do not exist."""
    try:
        stored = msgspec.json.decode(content, type=_Stored)
    except DECODING_ERRORS as error:
        raise InvalidInput(f"The stored states of nodes cannot be read: {error}.") from error
    if stored.format != FORMAT:
        raise InvalidInput(f"The stored states of nodes have format {stored.format}; this version reads {FORMAT}.")
    for node in stored.nodes:
        if node.state not in NODE_LIFE.states:
            raise InvalidInput(f"The stored state of {node.key} is {node.state!r}, which does not exist.")
    return {node.key: node for node in stored.nodes}
