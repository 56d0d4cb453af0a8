"""The open targets of an envelope by tries and due time, in envelopes, outcome records, the view and leases.

Their positions are in the view's form (quotas/lua/shared/positions.lua): a string with one hexadecimal digit per four
positions; the first position of a digit is its lowest bit. Empty for none.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

_ALL_DIGITS = ("", "1", "3", "7")
MAX_TRIES = 20
"""Largest number of tries of a target, and largest maximum of attempts of a task."""
MAX_DUES = 6
"""Maximum due times of one envelope. One in between is rounded up to the next."""
MAX_GROUPS = 256
"""Maximum groups of one envelope: two for each due time and number of tries."""
MAX_TIME_MS = 253_402_300_800_000
"""The year 10,000."""
Time = Annotated[int, Meta(ge=0, lt=MAX_TIME_MS)]
"""Wall time in ms, before the year 10,000."""


def all_positions(size: int) -> str:
    """Return the string for all positions of an envelope with `size` targets."""
    return "f" * (size // 4) + _ALL_DIGITS[size % 4]


def pack_flags(flags: bytes | bytearray) -> str:
    """Return the string for the positions where `flags` has the character 1 and not 0."""
    if b"1" not in flags:
        return ""
    return f"{int(flags[::-1], 2):0{(len(flags) + 3) // 4}x}"[::-1]


def pack_positions(positions: Iterable[int], size: int) -> str:
    """Return the string for these positions of an envelope with `size` targets."""
    flags = bytearray(b"0" * size)
    for position in positions:
        if position < size:
            flags[position] = 0x31
    return pack_flags(flags)


def mask_of(text: str) -> int:
    """Return the positions as bits of an integer. Raises ValueError for a string that does not have this form."""
    return int(text[::-1] or "0", 16)


def positions_of(mask: int, size: int) -> str:
    """Return the string for the bits of an integer, for an envelope with `size` targets. Empty for none."""
    return f"{mask:0{(size + 3) // 4}x}"[::-1] if mask else ""


def unpack_positions(text: str) -> list[int]:
    """Return the positions in order. Raises ValueError for a string that does not have this form."""
    flags = f"{mask_of(text):b}"[::-1]
    return [position for position, flag in enumerate(flags) if flag == "1"]


class TargetGroup(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """Open targets of one envelope with as many tries and the same due time."""

    positions: Annotated[str, Meta(pattern="^[0-9a-f]{1,125}$")]
    """Their positions in the first envelope (see above)."""
    tries: Annotated[int, Meta(ge=0, le=MAX_TRIES)]
    """Calls that may have reached the provider."""
    due_ms: Time
    """Wall time before which they must not be sent; 0: at once."""
    first_ms: Time = 0
    """Wall time of their first call; 0: none."""
    is_lost: bool = False
    """Whether their last try was under a claim that ended without a record."""
    waits_for_flow: bool = False
    """Whether they wait for the end of a pause of their flow, and may be sent before `due_ms` if it is ended."""
    paused_ms: Time = 0
    """In leases: the time since their first call in which the task, its channel or its flow was paused."""

    @property
    def count(self) -> int:
        return mask_of(self.positions).bit_count()


Groups = Annotated[list[TargetGroup], Meta(max_length=MAX_GROUPS)]


def partition_of(groups: Sequence[TargetGroup]) -> int | None:
    """Return the positions of all groups as a mask; None if two groups share a position or one has none."""
    mask = 0
    for group in groups:
        own = mask_of(group.positions)
        if not own or own & mask:
            return None
        mask |= own
    return mask


def groups_within(groups: Iterable[TargetGroup], positions: str, rest: TargetGroup) -> list[TargetGroup]:
    """Return the groups cut to `positions`, each position in one group. Positions in no group get a group like
    `rest`."""
    left, size = mask_of(positions), 4 * len(positions)
    found: list[TargetGroup] = []
    for group in groups:
        own = mask_of(group.positions) & left
        if own:
            left &= ~own
            found.append(msgspec.structs.replace(group, positions=positions_of(own, size)))
    if left:
        found.append(msgspec.structs.replace(rest, positions=positions_of(left, size)))
    return found
