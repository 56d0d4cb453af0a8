"""The whole service in the registry: its settings, its side lanes, and whether anything changed."""

from collections.abc import Iterable
from typing import NamedTuple

from backends.redis.view import RedisView
from dispatcher.analysis.why import Switch, switches_of
from dispatcher.model.view import Globals, globals_of


class RegistryState(NamedTuple):
    """The registry state that a worker watches."""

    now_ms: int
    """Redis' time."""
    version: int
    """Grows with every change."""
    sides: frozenset[str]
    """All side lanes."""
    paused: frozenset[str]
    """Paused channels."""


class ServiceTable:
    """Settings of the whole service. All methods raise Unreachable when Redis is gone."""

    def __init__(self, view: RedisView) -> None:
        self._view = view

    def globals(self) -> Globals:
        """Return the settings of the whole service."""
        return globals_of(self.settings())

    def settings(self) -> dict[str, str]:
        """Return the settings as stored: fields and texts (dispatcher.model.service_settings)."""
        stored = self._view.command("HGETALL", self._view.keys.globals)
        return {field.decode(): text.decode() for field, text in stored.items()}

    def channel_pauses(self, channel: str) -> list[Switch]:
        """Return when the channel was paused and resumed."""
        return switches_of((self._view.command("HGET", self._view.keys.globals, f"pauses|{channel}") or b"").decode())

    def version(self) -> int:
        """Return the version, which grows with every change; it restarts when the registry is wiped."""
        return int(self._view.command("GET", self._view.keys.version) or 0)

    def read_state(self) -> RegistryState:
        """Return the registry state that a worker watches, in one call."""
        now_ms, version, sides, paused = self._view.call("look")
        return RegistryState(now_ms, version, _names(sides), _names(paused))

    def now_ms(self) -> int:
        """Return Redis' time."""
        return self._view.now_ms()


class SideLaneTable:
    """The side lanes that may hold envelopes. All methods raise Unreachable when Redis is gone."""

    def __init__(self, view: RedisView) -> None:
        self._view = view

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
