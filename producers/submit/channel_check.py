"""Check, before a task is submitted, that its channel sends, and that a live worker has it."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from dispatcher.analysis.served import Served
from dispatcher.channels.names import sends_nothing
from dispatcher.channels.submission.task_message import ignored_fields
from dispatcher.model.errors import FairlaneError, Refused
from dispatcher.model.view import WorkerBeat

Warn: TypeAlias = Callable[[str], None] | None
_log = logging.getLogger(__name__)
_KEPT_S = 1.0
"""Workers beat once a second. Submissions in quick succession share one read."""


class ChannelCheck:
    """Checks channels against the live workers. Safe for threads: two checks at once both read."""

    def __init__(self, workers: Callable[[], Sequence[WorkerBeat]]) -> None:
        self._workers = workers
        self._seen: tuple[float, Served] | None = None
        self._logged: set[str] = set()

    def check(self, channel: str, *, strict: bool, on_warning: Warn, message: Mapping[str, Any] | None = None) -> None:
        """Warn if the channel sends nothing, ignores a field of the message, or no live worker has it: by on_warning,
        or, if it is None, in the log once per channel.

        strict: raise Refused if no worker has it, and Unreachable if Redis does not answer, which is ignored otherwise.
        """
        trial = sends_nothing(channel)
        ignored = ignored_fields(channel, message or {})
        warnings = [warning for warning in (trial, self._no_worker(channel, strict=strict), *ignored) if warning]
        if on_warning is None and warnings and channel not in self._logged:
            self._logged.add(channel)
            on_warning = partial(_log.warning, "channel %s: %s", channel)
        for warning in warnings:
            if on_warning is not None:
                on_warning(warning)

    def _no_worker(self, channel: str, *, strict: bool) -> str:
        """Return a warning if no live worker has the channel; empty if one has it, or may have it."""
        try:
            served = self._served()
        except FairlaneError:
            if strict:
                raise
            return ""
        trouble = served.trouble(channel)
        if not trouble:
            return ""
        have = f" Live workers have: {served.channel_list()}." if served.workers else ""
        if strict:
            cause = f"Nothing was submitted: {trouble}.{have}"
            raise Refused(cause, f"Start a worker with channel {channel}, or correct the task's channel.")
        return f"{trouble}: the task waits until one {'has it' if served.workers else 'is started'}.{have}"

    def _served(self) -> Served:
        now_s, seen = time.monotonic(), self._seen
        if seen is None or now_s - seen[0] >= _KEPT_S:
            self._seen = seen = now_s, Served.by(self._workers())
        return seen[1]
