"""Envelopes as JSON, for the channels that send or write it."""

import msgspec

from dispatcher.verdicts import error_text
from dispatcher.wire.envelope import Envelope, decode_message
from dispatcher.wire.outcome import Outcome, Report, Verdict

_encode = msgspec.json.Encoder().encode


def json_or_failed(envelope: Envelope, tier: str, **more: str) -> bytes | Report:
    """Encode an envelope, after further fields. If its message or variables cannot be written as JSON, return FAILED
    for this envelope: the call contains others."""
    try:
        fields = {
            **more,
            "task": envelope.task,
            "app": envelope.app,
            "tier": tier,
            "writer": envelope.writer,
            "sequence": envelope.sequence,
            "attempt": envelope.attempt,
            "message": decode_message(envelope.message),
            "targets": envelope.targets,
        }
        return _encode(fields if envelope.variables is None else {**fields, "variables": envelope.variables})
    except Exception as error:
        return Report(Verdict(int(Outcome.FAILED), f"cannot be written as JSON: {error_text(error)}"))
