"""Encode envelopes as JSON, for channels that send JSON."""

from collections.abc import Callable
from typing import Any

import msgspec

from dispatcher.model.errors import DECODING_ERRORS
from dispatcher.verdicts import error_text
from dispatcher.wire.outcome import Outcome, Report, Verdict

_encode = msgspec.json.Encoder().encode


def json_or_failed(fields: Callable[[], dict[str, Any]]) -> bytes | Report:
    """Encode the fields. If the message or variables cannot be written as JSON, return FAILED for this envelope: the
    call contains others."""
    try:
        return _encode(fields())
    except (*DECODING_ERRORS, TypeError) as error:
        return Report(Verdict(int(Outcome.FAILED), f"cannot be written as JSON: {error_text(error)}"))
