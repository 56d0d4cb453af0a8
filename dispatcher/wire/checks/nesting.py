"""Values of any form in stored bytes: the levels and types that every reader takes.

The bound belongs to the format. Without it, the recursion limit of a reader decides, and that depends on its stack.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from types import NoneType
from typing import Any

import msgspec

from dispatcher.model.errors import DECODING_ERRORS

MAX_LEVELS = 32
"""Maximum lists and maps inside each other, in a variable of a target or a field of a message."""
MAX_VALUES = 1 << 20
"""Maximum values in one level of all variables of an envelope. 500 targets with 2 KiB each have fewer."""
TOO_DEEP = f"lists and maps are nested more than {MAX_LEVELS} levels deep"
_SCALARS = {NoneType, bool, int, float, str, bytes, datetime}
_TYPES = {*_SCALARS, list, dict}
_KEYS = {str, int, float, bytes}
"""Types of keys that JSON can write; those of variables and of messages are texts."""
_HEADERS = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
"""The bytes with which lists and maps begin in msgpack. Others may have the same values."""
_decode = msgspec.msgpack.Decoder().decode


def complaint_of(maps: Sequence[Mapping[str, Any] | None]) -> str:
    """Return why some reader could not take decoded variables or messages; "" if each can. Costs 0.1 us for a map of
    two texts, which are nearly all."""
    for each in maps:
        if each:
            for value in each.values():
                if type(value) not in _SCALARS:
                    return _complaint_of_values(maps)
    return ""


def _complaint_of_values(maps: Sequence[Mapping[str, Any] | None]) -> str:
    """Look at all values level by level, and never deeper than the bound."""
    level: Iterable[Any] = chain.from_iterable([each.values() for each in maps if each])
    for _ in range(MAX_LEVELS + 1):
        values = list(islice(level, MAX_VALUES + 1))
        if len(values) > MAX_VALUES:
            return f"there are more than {MAX_VALUES:,} values"
        if _SCALARS.issuperset(map(type, values)):
            return ""
        dicts = [value for value in values if type(value) is dict]
        if not _KEYS.issuperset(map(type, chain.from_iterable(dicts))):
            return "a key of it is no text or number"
        if unknown := set(map(type, values)) - _TYPES:
            kind = min(kind.__name__ for kind in unknown)
            return f"a value has the type {kind}, which no channel can send"
        lists = [value for value in values if type(value) is list]
        level = chain(chain.from_iterable(lists), chain.from_iterable([each.values() for each in dicts]))
    return TOO_DEEP


def complaint_of_encoded(encoded: bytes) -> str:
    """Return why some reader could not take an encoded message; "" if each can. Does not decode one with few lists and
    maps."""
    if len(encoded) - len(encoded.translate(None, _HEADERS)) <= MAX_LEVELS:
        return ""
    return complaint_after_decoding(encoded)


def complaint_after_decoding(encoded: bytes) -> str:
    """Return why some reader could not take an encoded map, list of maps, or other value; "" if each can."""
    try:
        decoded = _decode(encoded)
    except RecursionError:
        return TOO_DEEP
    except DECODING_ERRORS as error:
        return str(error)
    maps = decoded if isinstance(decoded, list) else [decoded]
    if not all(each is None or isinstance(each, dict) for each in maps):
        maps = [{"": decoded}]
    return complaint_of(maps)
