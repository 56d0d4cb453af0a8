"""Read bodies that may be anything: a provider's JSON, a proxy's web page, nothing."""

from collections.abc import Mapping
from typing import Any

import msgspec

from dispatcher.model.errors import DECODING_ERRORS
from dispatcher.wire.outcome import sound_text

_decode = msgspec.json.Decoder().decode


def json_object(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object in a body; an empty one if the body is something else."""
    try:
        value = _decode(body)
    except DECODING_ERRORS:
        return {}
    return value if isinstance(value, Mapping) else {}


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list; none if the value is no list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def text(value: object) -> str:
    """Return a text in at most 1 kB; empty if the value is no text."""
    return sound_text(value) if isinstance(value, str) else ""
