"""Positions of targets in an envelope in the view's form (quotas/lua/shared/positions.lua).

A string with one hexadecimal digit per four positions; the first position of a digit is its lowest bit. Empty for none.
"""

from collections.abc import Iterable

_ALL_DIGITS = ("", "1", "3", "7")


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
