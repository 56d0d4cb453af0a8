"""Parts of calls whose caps do not let them leave yet, for channels that do not ask the gate themselves."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from consumers.delivery.fleet_gate import LONGEST_WAIT_S, SHORTEST_WAIT_S, FleetGate
from consumers.delivery.pending import CallPart
from dispatcher.channels.guards.door import Load
from dispatcher.clock import Clock
from dispatcher.model.flow_pause import flow_name
from dispatcher.wire.envelope import Envelope


class PacedCall(NamedTuple):
    """A part that leaves now, with what its flow's caps count of it."""

    part: CallPart
    flow: str
    load: Load


@dataclass(slots=True, eq=False)
class _Line:
    """Parts of one flow, in order."""

    parts: deque[CallPart] = field(default_factory=deque)
    next_s: float = 0.0
    """Monotonic time before which the door need not be asked."""


class PacedParts:
    """Waiting parts, each a single envelope, by flow. The flows take turns."""

    def __init__(self, channel: str, targets_per_request: int, gate: FleetGate, clock: Clock) -> None:
        self._channel = channel
        self._targets_per_request = targets_per_request
        self._gate = gate
        self._clock = clock
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)
        self.count = 0

    def paces(self, app: str) -> bool:
        """Return whether an app's envelopes must wait for the door: it has a cap, or others of it wait."""
        flow = flow_name(self._channel, app)
        return flow in self._lines or self._gate.is_paced(flow)

    def add(self, part: CallPart) -> None:
        """Let a part wait behind those of its flow."""
        self._lines[flow_name(self._channel, part.envelopes[0].app)].parts.append(part)
        self.count += 1

    def late(self, is_late: Callable[[CallPart], bool]) -> Iterator[CallPart]:
        """Remove and yield the parts whose time is over. The first of a flow are the oldest."""
        for flow, line in list(self._lines.items()):
            while line.parts and is_late(line.parts[0]):
                yield self._pop(flow, line)

    def turn(self, tier: str = "") -> PacedCall | None:
        """Remove and return a part that leaves now; None if no door is open. tier: only one of this tier, if set."""
        now_s = self._clock.monotonic_s()
        for flow, line in list(self._lines.items()):
            if line.next_s > now_s or tier not in ("", line.parts[0].pending.batch.tier):
                continue
            load = self._load(line.parts[0].envelopes[0])
            wait_s = self._gate.wait_s(flow, load)
            if wait_s <= 0.0:
                part = self._pop(flow, line)
                if line.parts:  # the others' turn
                    self._lines[flow] = self._lines.pop(flow)
                return PacedCall(part, flow, load)
            line.next_s = now_s + min(max(wait_s, SHORTEST_WAIT_S), LONGEST_WAIT_S)
        return None

    def wait_s(self) -> float:
        """Return how long no door need be asked, while parts wait."""
        next_s = min(line.next_s for line in self._lines.values())
        return min(max(next_s - self._clock.monotonic_s(), SHORTEST_WAIT_S), LONGEST_WAIT_S)

    def clear(self) -> Iterator[CallPart]:
        """Remove and yield all parts."""
        return self.late(lambda _: True)

    def _pop(self, flow: str, line: _Line) -> CallPart:
        part = line.parts.popleft()
        self.count -= 1
        if not line.parts:
            del self._lines[flow]
        return part

    def _load(self, envelope: Envelope) -> Load:
        targets, per_request = len(envelope.targets), self._targets_per_request
        return Load(targets, -(-targets // per_request) if per_request else 1)
