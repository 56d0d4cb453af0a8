"""The part of a cap that may be used now: less than all of it after a provider asked to slow down, or after a rest."""

from enum import StrEnum

import msgspec

MILLION = 1_000_000


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
