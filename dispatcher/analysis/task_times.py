"""When and why a task was held back, in the forms that the view keeps."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

NO_PULSAR = "no_pulsar"
NO_WORKER, RETRY_WAIT, PROVIDER = "no_worker", "retry_wait", "provider"
COVERED_MS = 3_000
"""The ledger counts a task's time at least this often while workers ask for the task."""


class Switch(NamedTuple):
    """A pause or a resume at a wall time."""

    at_ms: int
    paused: bool


class TimeSpan(NamedTuple):
    """A span between two wall times in ms."""

    from_ms: int = 0
    to_ms: int = 0


class Counted(NamedTuple):
    """Time of a task as counted by the ledger while workers asked for its envelopes."""

    causes: Mapping[str, int] = MappingProxyType({})
    """ms by cause; the most recently counted cause is last."""
    span: TimeSpan = TimeSpan()
    """When it started and stopped counting; 0 for never."""

    @property
    def last(self) -> str:
        """The most recently counted cause; empty for none."""
        return list(self.causes)[-1] if self.causes else ""


def switches_of(text: str) -> list[Switch]:
    """Parse the field that the registry keeps, in the topic's order."""
    entries = (entry.partition("=")[2].split("@") for entry in text.split())
    return [Switch(int(at_ms), value == "1") for value, at_ms in entries]


def flow_switches_of(text: str) -> list[Switch]:
    """Parse the field that the registry keeps of a flow. A pause with an end is over at that time, or earlier."""
    switches: list[Switch] = []
    until_ms = 0
    for entry in text.split():
        value, _, times = entry.partition("=")[2].partition("@")
        at_ms, _, end_ms = times.partition(":")
        if until_ms and until_ms <= int(at_ms):
            switches.append(Switch(until_ms, paused=False))
        until_ms = int(end_ms or 0)
        switches.append(Switch(int(at_ms), value == "1"))
    return [*switches, Switch(until_ms, paused=False)] if until_ms else switches


def counted_of(text: str) -> dict[str, int]:
    """Parse the field that the ledger keeps (quotas/lua/lease/causes.lua) into ms by cause."""
    return {cause: int(ms) for cause, _, ms in (entry.rpartition("=") for entry in text.split())}
