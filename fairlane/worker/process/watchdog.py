"""Ends a worker in which a part hangs: its messages then go to others, and its supervisor starts another worker.

The watchdog asks each part for its progress once per tick. A part that gives the same answer tick after tick, although
it has something to do, hangs. Time is counted in the watchdog's own ticks and not by a clock: while the process is
stopped (SIGSTOP, a sleeping machine) there are no ticks, and when it wakes each part has as much time to move as
before.
"""

import logging
import math
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dispatcher.model.errors import Hung
from fairlane.settings import Settings
from fairlane.worker.process.guardian import say, start_guardian

MAIN_S = 30.0
"""The main thread moves five times a second. Only it handles signals."""
ENGINE_S = 30.0
"""The engine moves at least twice a second; the longest stall seen on an overloaded machine was a few seconds."""
LEASE_S = 60.0
"""Added to the Redis client's wait for one call and its repetition: resolving a name has no timeout of its own."""
OVERDUE_S = 10.0
"""Added to the channel's timeout, which ends a call unless the channel prevents that."""
UPKEEP_CALLS = 10
"""Maximum number of calls that folds, watch, heartbeat and job locks make between two checks of their stop signal."""
UNBOUNDED = ("rebuild", "snapshots", "housekeeping")
"""Threads that are not watched: the length of a round depends on the size of the view. Each call has a timeout."""
EXIT_WITHIN_S = 10.0
_log = logging.getLogger(__name__)

Signs = Mapping[str, object | None]
"""Progress by part. None: it has nothing to do."""


@dataclass(frozen=True)
class WatchdogSettings:
    """When a part counts as hung."""

    limits_s: Mapping[str, float]
    """Maximum time with the same sign, by part."""
    upkeep_s: float
    """The limit of any other part."""
    tick_s: float = 1.0

    def limit_s(self, part: str) -> float:
        return self.limits_s.get(part, self.upkeep_s)


def watchdog_settings(settings: Settings, timeouts_s: Mapping[str, float], lease_s: float) -> WatchdogSettings:
    """Derive the limits from the timeouts of the servers and of the channels (`timeouts_s`).

    `lease_s`: how long after its lease a batch may be started.
    """
    redis, pulsar = settings.redis, settings.pulsar
    redis_s = redis.connect_timeout_s + redis.socket_timeout_s
    return WatchdogSettings(
        limits_s={
            "main": MAIN_S,
            "engine": ENGINE_S,
            "lease": LEASE_S + 2 * redis_s,
            "channels": max(timeouts_s.values(), default=0.0) + OVERDUE_S,
            **{channel_part(name): lease_s + timeout_s + OVERDUE_S for name, timeout_s in timeouts_s.items()},
            **dict.fromkeys(UNBOUNDED, math.inf),
        },
        upkeep_s=UPKEEP_CALLS * (redis_s + pulsar.operation_timeout_s),
    )


def channel_part(channel: str) -> str:
    """Return the name of the part for a channel's batches."""
    return f"channel {channel}"


class Judge:
    """Counts, for each part, the ticks through which it has given the same sign."""

    def __init__(self, settings: WatchdogSettings) -> None:
        self._settings = settings
        self._last: Signs = {}
        self._ticks: dict[str, int] = {}

    def observe(self, signs: Signs) -> str | None:
        """Take the signs of one tick. Return the part that hangs."""
        tick_s = self._settings.tick_s
        same = [part for part, sign in signs.items() if sign is not None and sign == self._last.get(part)]
        self._ticks = {part: self._ticks.get(part, 0) + 1 for part in same}
        self._last = dict(signs)
        return next((part for part in same if self._ticks[part] * tick_s > self._settings.limit_s(part)), None)


class Watchdog:
    """An actor beside the threads that it watches."""

    def __init__(
        self,
        signs: Callable[[], Signs],
        fail: Callable[[Hung], None],
        settings: WatchdogSettings,
        start_guardian: Callable[[], Callable[[], None]] = start_guardian,
    ) -> None:
        """Set up the watchdog. `fail` stops the worker; the process ends soon afterwards even if that has no effect."""
        self._signs = signs
        self._fail = fail
        self._start_guardian = start_guardian
        self._settings = settings
        self._judge = Judge(settings)

    def run(self, stop: threading.Event) -> None:
        give_sign = self._start_guardian()
        while not stop.wait(self._settings.tick_s):
            give_sign()
            part = self._judge.observe(self._signs())
            if part is not None:
                self._end(part)
                return

    def _end(self, part: str) -> None:
        exit_within(EXIT_WITHIN_S, Hung.exit_code)  # before the log, which may be what hangs
        error = Hung(
            f"{describe(part)} for more than {self._settings.limit_s(part):g} s.",
            "The worker ends, and its messages go to others. The stacks below show where it hangs.",
        )
        _log.critical("%s\n%s", error, stacks())
        self._fail(error)


def describe(part: str) -> str:
    """Return the log line for a part that makes no progress."""
    if part == "channels":
        return "A channel has blocked the event loop of all channels (its calls must be async)"
    if part.startswith("channel "):
        return f"A batch of the {part} has had no report (a call blocks the event loop or ignores cancellation)"
    return f"The thread {part!r} has made no progress"


def stacks() -> str:
    """Return where each thread is."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame)).rstrip()}"
        for ident, frame in sys._current_frames().items()
    )


def exit_within(seconds: float, code: int) -> None:
    """Make sure that the process ends within this time, even if its threads do not."""

    def end() -> None:
        say(f"The process has not ended by itself within {seconds:g} s: exit code {code}.\n")
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
