"""The whole service in the registry: its settings, its side lanes, and whether anything changed."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from backends.redis.client import pairs
from backends.redis.view import ViewPart, texts_of
from dispatcher.analysis.task_times import Switch, flow_switches_of, switches_of
from dispatcher.model.errors import Malformed
from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.model.service_settings import globals_of
from dispatcher.model.view import Globals


class RegistryState(NamedTuple):
    """The registry state that a worker watches."""

    now_ms: int
    """Redis' time."""
    version: int
    """Grows with every change; it restarts when the registry is wiped."""
    sides: frozenset[str]
    """All side lanes."""
    paused: frozenset[str]
    """Paused channels."""
    flows: Mapping[str, FlowPause] = MappingProxyType({})
    """Entries of flows that still mean something, by flow: open pauses, and those that have ended."""


class TakenFlow(NamedTuple):
    """Whether a worker may write the next entry of a flow."""

    is_taken: bool
    now_ms: int
    """Redis' time."""
    entry: FlowPause | None
    """The present entry."""


class ServiceTable(ViewPart):
    """Settings of the whole service. All methods raise Unreachable when Redis is gone."""

    def globals(self) -> Globals:
        """Return the settings of the whole service."""
        now_ms, (fields,) = self._view.commands(("HGETALL", self._view.keys.globals))
        return globals_of(texts_of(fields), now_ms)

    def channel_pauses(self, channel: str) -> list[Switch]:
        """Return when the channel was paused and resumed."""
        return switches_of((self._view.command("HGET", self._view.keys.globals, f"pauses|{channel}") or b"").decode())

    def flow_pauses(self, channel: str, app: str) -> list[Switch]:
        """Return when an app was paused on the channel, and when that ended."""
        field = f"pauses|{channel}:{app}"
        return flow_switches_of((self._view.command("HGET", self._view.keys.globals, field) or b"").decode())

    def flow_entries(self) -> Mapping[str, FlowPause]:
        """Return the entries of flows that still mean something, by flow: open pauses, and those that have ended."""
        return self.read_state().flows

    def take_flow(self, flow: str, kind: PauseKind) -> TakenFlow:
        """Ask for the right to write the next entry of a flow. Of several workers that ask at once one gets it."""
        is_taken, now_ms, text = self._view.call("take_flow", _stored_name(flow), str(kind))
        return TakenFlow(is_taken == 1, now_ms, _entry(text))

    def free_flow(self, flow: str) -> None:
        """Give the right back, once the entry is applied."""
        self._view.command("DEL", self._view.keys.pausing(_stored_name(flow)))

    def forget_flows(self) -> int:
        """Remove entries of flows that mean nothing any more; return their number."""
        return int(self._view.call("forget_flows"))

    def read_state(self) -> RegistryState:
        """Return the registry state that a worker watches, in one call."""
        now_ms, version, sides, paused, flows = self._view.call("read_state")
        return RegistryState(now_ms, version, _names(sides), _names(paused), _entries(flows))

    def now_ms(self) -> int:
        """Return Redis' time."""
        return self._view.now_ms()


class SideLaneTable(ViewPart):
    """The side lanes that may hold envelopes. All methods raise Unreachable when Redis is gone."""

    def topics(self) -> frozenset[str]:
        """Return their topics."""
        return _names(self._view.command("SMEMBERS", self._view.keys.sides))

    def add(self, topic: str) -> None:
        """Add a side lane; workers attach to it from now on."""
        self._view.command("SADD", self._view.keys.sides, topic)

    def drop(self, topic: str) -> None:
        """Remove a side lane; workers detach from it."""
        self._view.command("SREM", self._view.keys.sides, topic)


def _names(names: Iterable[bytes]) -> frozenset[str]:
    return frozenset(name.decode() for name in names)


def _entries(flat: Sequence[bytes]) -> dict[str, FlowPause]:
    parsed = {flow.decode().replace(":", "/"): _entry(text) for flow, text in pairs(flat)}
    return {flow: entry for flow, entry in parsed.items() if entry is not None}


def _entry(text: bytes) -> FlowPause | None:
    """Return the entry of a flow; None if there is none that this version can read."""
    try:
        return FlowPause.parse(text.decode())
    except Malformed:
        return None


def _stored_name(flow: str) -> str:
    """Return a flow's name as in the fields of settings."""
    return flow.replace("/", ":")
