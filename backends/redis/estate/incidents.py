"""Incidents that were noted for the process that takes captures, and whose turn it is to take one."""

from typing import Annotated

import msgspec

from backends.redis.view import ViewPart
from dispatcher.model.errors import DECODING_ERRORS

FRESH_MS = 120_000
"""Age from which on a note is forgotten: a capture would show another state."""
MAX_NOTES = 100
MAX_REASON, MAX_PARTITIONS = 1_000, 10_000
"""Bounds of what is read: a note may come from any process that reaches Redis."""


class IncidentNote(msgspec.Struct, frozen=True, kw_only=True):
    """An incident that another process should capture."""

    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON)]
    """In words, as in "task sale got no receipt from Pulsar for 30 s"."""
    task: str = ""
    lane: str = ""
    """Topic of the lane, without a partition; empty if none is concerned."""
    partitions: Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTITIONS)] = 0
    """Partitions of the lane; 0 for a plain topic."""
    who: str = ""
    """host:pid of the process that noted it."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(IncidentNote).decode


class Incidents(ViewPart):
    """Notes of incidents, and the turns of captures. Every method raises Unreachable if Redis cannot be reached."""

    def note(self, incident: IncidentNote) -> bool:
        """Note an incident, in the place of an earlier one of the same task. Return False if there are too many."""
        subject = incident.task or incident.reason
        return bool(self._view.call("note_incident", subject, _encode(incident), MAX_NOTES, FRESH_MS))

    def take(self) -> list[IncidentNote]:
        """Return all fresh notes and forget them. Notes that cannot be read are left out."""
        notes = []
        for body in self._view.call("take_incidents", FRESH_MS):
            try:
                notes.append(_decode(body))
            except DECODING_ERRORS:
                continue
        return notes

    def take_turn(self, owner: str, ttl_ms: int, span_ms: int) -> int:
        """Take or keep the turn to make a capture until `ttl_ms` from now. Return 0, or the ms until it is free.

        span_ms: longest such time. A turn that seems to last longer, because Redis' clock was set back, is shortened.
        """
        return int(self._view.call("take_capture", owner, ttl_ms, span_ms))
