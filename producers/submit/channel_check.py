"""Check, before a task is submitted, that a live worker has its channel."""

import logging
import time
from collections.abc import Callable, Sequence

from dispatcher.analysis.served import Served
from dispatcher.model.errors import FairlaneError, Refused
from dispatcher.model.view import WorkerBeat

_log = logging.getLogger(__name__)
_KEPT_S = 1.0
"""Workers beat once a second. Submissions in quick succession share one read."""


class ChannelCheck:
    """Checks channels against the live workers. Safe for threads: two checks at once both read."""

    def __init__(self, workers: Callable[[], Sequence[WorkerBeat]]) -> None:
        self._workers = workers
        self._seen: tuple[float, Served] | None = None
        self._logged: set[str] = set()

    def check(self, channel: str, *, strict: bool, on_warning: Callable[[str], None] | None) -> None:
        """Warn if no live worker has the channel: by on_warning, or, if it is None, in the log once per channel.

        strict: raise Refused instead of warning, and Unreachable if Redis does not answer, which is ignored otherwise.
        """
        try:
            served = self._served()
        except FairlaneError:
            if strict:
                raise
            return
        trouble = served.trouble(channel)
        if not trouble:
            return
        have = f" Live workers have: {served.channel_list()}." if served.workers else ""
        if strict:
            cause = f"Nothing was submitted: {trouble}.{have}"
            raise Refused(cause, f"Start a worker with channel {channel}, or correct the task's channel.")
        warning = f"{trouble}: the task waits until one {'has it' if served.workers else 'is started'}.{have}"
        if on_warning is not None:
            on_warning(warning)
        elif channel not in self._logged:
            self._logged.add(channel)
            _log.warning("channel %s: %s", channel, warning)

    def _served(self) -> Served:
        now_s, seen = time.monotonic(), self._seen
        if seen is None or now_s - seen[0] >= _KEPT_S:
            self._seen = seen = now_s, Served.by(self._workers())
        return seen[1]
