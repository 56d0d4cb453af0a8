"""Faults of a channel's answers, each kind logged once."""

import logging
import re

_MAX_FAULTS = 50
"""Maximum kinds of faults logged for a channel; a kind may contain the channel's own text."""
_NUMBER = re.compile(r"-?[0-9]+")
_log = logging.getLogger(__name__)


class FaultLog:
    """Logs the faults of one channel. Faults that differ only in numbers are of one kind."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._kinds: set[str] = set()

    def note(self, fault: str) -> None:
        """Log a fault if it is the first of its kind."""
        kind = _NUMBER.sub("0", fault)
        if kind in self._kinds or len(self._kinds) >= _MAX_FAULTS:
            return
        self._kinds.add(kind)
        more = " Further kinds are not logged." if len(self._kinds) == _MAX_FAULTS else ""
        _log.error("The channel %s is faulty: %s. Correct its class. (Logged once.)%s", self._channel, fault, more)
