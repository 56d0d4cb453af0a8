"""Positions of targets in an envelope as the view keeps them (quotas/lua/shared/positions.lua).

A text with a hexadecimal digit for each four of them, the first its lowest bit; empty for none.
"""

from collections.abc import Iterable

_ALL_DIGITS = ("", "1", "3", "7")


def all_positions(size: int) -> str:
    """Return the text of all positions of an envelope of this many targets."""
    return "f" * (size // 4) + _ALL_DIGITS[size % 4]


def pack_flags(flags: bytes | bytearray) -> str:
    """Return the text of the positions where `flags` has the character 1 and not 0."""
    if b"1" not in flags:
        return ""
    return f"{int(flags[::-1], 2):0{(len(flags) + 3) // 4}x}"[::-1]


def pack_positions(positions: Iterable[int], size: int) -> str:
    """Return the text of these positions of an envelope of this many targets."""
    flags = bytearray(b"0" * size)
    for position in positions:
        if position < size:
            flags[position] = 0x31
    return pack_flags(flags)


def unpack_positions(text: str) -> list[int]:
    """Return the positions in order. Raises ValueError for a text that is none of this form."""
    flags = f"{int(text[::-1] or '0', 16):b}"[::-1]
    return [position for position, flag in enumerate(flags) if flag == "1"]
