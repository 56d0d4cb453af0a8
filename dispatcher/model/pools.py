"""Caps: how fast, how much and how many, what part of them may be used, and the pools that they limit, by name.
`capped_by` in quotas/lua/lease/settings.lua builds the same names.
"""

import re
from enum import StrEnum
from typing import NamedTuple, Self

import msgspec

from dispatcher.model.errors import InvalidInput

TOTAL = "total"
"""The pool that all tasks draw from; its cap is the capacity."""
WINDOW_S = 0.25
"""The buckets of a cap hold as much as it allows in this time, unless it has a burst."""
MAX_CAP = 10**9
"""Maximum of a rate (targets/s) and of a burst (targets)."""
EVERY_APP = "*"
"""In place of an app in a limit: applies to every app without a limit of its own."""
_WRITTEN_CAP = re.compile(r"(\d{1,20})(?::(\d{1,20}))?", re.ASCII)
MILLION = 1_000_000


class CapUnit(StrEnum):
    """Units that a cap counts."""

    TARGET = "target"
    REQUEST = "request"
    """A request to the provider, which may have many targets."""


def is_count(value: object, maximum: int) -> bool:
    """Return whether the value is a whole number from 0 to `maximum`; 2.0 counts as one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= maximum and value % 1 == 0


class Cap(NamedTuple):
    """A maximum rate, and a burst above it."""

    rate: int
    """Targets/s; 0 for no cap."""
    burst: int = 0
    """Targets that may be sent at once; 0 for a quarter of a second of the rate."""

    @classmethod
    def parse(cls, text: str, name: str = "cap") -> Self:
        """Parse "RATE", "RATE:BURST" or "none". Raises InvalidInput."""
        if text == "none":
            return cls(0)
        written = _WRITTEN_CAP.fullmatch(text)
        if written is None:
            raise InvalidInput(f"{name}: is {text!r}; write RATE or RATE:BURST (targets/s and targets), or none.")
        return cls(int(written[1]), int(written[2] or 0)).checked(name)

    @classmethod
    def of(cls, given: "Cap | int | str") -> "Cap":
        """Return a cap from a rate, or from a text as in `parse`. Raises InvalidInput."""
        if isinstance(given, str):
            return cls.parse(given)
        return (given if isinstance(given, Cap) else cls(given)).checked()

    @property
    def text(self) -> str:
        """The stored form."""
        return f"{int(self.rate)}:{int(self.burst)}" if self.burst else str(int(self.rate))

    @property
    def allowance(self) -> float:
        """Targets that may be sent at once in addition to the rate."""
        return self.burst or max(self.rate * WINDOW_S, 1)

    def checked(self, name: str = "cap") -> Self:
        """Return this cap if it is valid. Raises InvalidInput with this name if a part is beyond its limits."""
        for part, unit in ((self.rate, "targets/s"), (self.burst, "targets of burst")):
            if not is_count(part, MAX_CAP):
                raise InvalidInput(f"{name}: is {part!r}; it must be a whole number of {unit}, 0 to {MAX_CAP:,}.")
        if self.burst and not self.rate:
            raise InvalidInput(f"{name}: has a burst and no rate.", "Write RATE:BURST, for example 500:100.")
        return self


NO_CAP = Cap(0)


class Limits(NamedTuple):
    """Admission limits of an app; 0 for unlimited."""

    tasks: int = 0
    """Maximum live tasks."""
    targets: int = 0
    """Maximum queued targets."""


class PoolNames(NamedTuple):
    """The pools, besides the total, that a task draws from if they are capped."""

    channel: str
    app: str
    app_channel: str


def pools_of(app: str, channel: str) -> PoolNames:
    return PoolNames(f"channel/{channel}", f"app/{app}", f"app_channel/{app}/{channel}")


def quota_pool(group: str) -> str:
    """Return the pool of a quota group: apps on channels that share a limit of their provider."""
    return f"quota/{group}"


class Pool(NamedTuple):
    """A channel, an app, an app on one channel, or a quota group; the other parts are empty."""

    app: str = ""
    channel: str = ""
    quota: str = ""

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the pool of that name; None for the total and for names that are none."""
        match name.split("/"):
            case ["channel", channel] if channel:
                return cls(channel=channel)
            case ["app", app] if app:
                return cls(app)
            case ["app_channel", app, channel] if app and channel:
                return cls(app, channel)
            case ["quota", group] if group:
                return cls(quota=group)
        return None

    def __str__(self) -> str:
        return " on ".join(f"{kind} {name}" for kind, name in zip(self._fields, self, strict=True) if name)


class CapPhase(StrEnum):
    """Reasons why a cap is not used as it is set."""

    FULL = "full"
    """All of it may be used."""
    HALVED = "halved"
    """The provider has asked to slow down."""
    GROWING = "growing"
    """The same, and that time is over: it grows by a twentieth every ten seconds."""
    RAMP = "ramp"
    """The quota group has rested, and reaches its cap within a minute."""
    RESTING = "resting"
    """The quota group is not used. It will begin at a sixtieth of its cap."""


class CapState(msgspec.Struct, frozen=True, kw_only=True):
    """A cap at present."""

    phase: CapPhase
    part: float
    """The part of the cap that may be used."""
    until_ms: int = 0
    """When the phase ends, by Redis' clock; 0: no end is known."""


FULL = CapState(phase=CapPhase.FULL, part=1.0)


def cap_state(part_millionths: int, slow_until_ms: int, grown_ms: int, ramp_end_ms: int, *, rests: bool) -> CapState:
    """Return the state of a cap from the fields of quotas/lua/lease/cap_states.lua. The times are 0 once they are over.

    Of several phases the one that keeps the cap lowest for longest is named.
    """
    part = part_millionths / MILLION
    if slow_until_ms:
        return CapState(phase=CapPhase.HALVED, part=part, until_ms=slow_until_ms)
    if rests:
        return CapState(phase=CapPhase.RESTING, part=part)
    if ramp_end_ms:
        return CapState(phase=CapPhase.RAMP, part=part, until_ms=ramp_end_ms)
    if grown_ms:
        return CapState(phase=CapPhase.GROWING, part=part, until_ms=grown_ms)
    return FULL
