"""Find the channel whose code blocks the event loop of all channels."""

import asyncio
import contextlib
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType

from dispatcher.ports import AnyChannel

CHANNEL: ContextVar[AnyChannel] = ContextVar("channel")
"""The channel whose code is running. Tasks, callbacks and timers made by that code inherit it."""
SAMPLE_EVERY_S = 0.1
BLOCKED_S = 1.0
"""A step that takes longer than this causes a warning."""
WARN_EVERY_S = 60.0
"""Minimum time between two warnings about one channel."""
_MAX_GAP_S = 5 * SAMPLE_EVERY_S
"""Maximum time counted between two samples: the whole process may have been stopped."""
_RUN = asyncio.Handle._run.__code__
"""Code of the method that runs one step of a task, a callback or a timer; the loop calls it for each."""
_log = logging.getLogger(__name__)


class LoopWatch:
    """Samples the stack of the event loop's thread ten times a second.

    A step found in consecutive samples blocks the loop. Its context names the channel, whatever other calls are in
    progress. The calls themselves pay nothing for this.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now_s: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self._now_s = now_s
        self.thread: int | None = None
        """Identifier of the thread that runs the loop; None if no thread does."""
        self.blocked_s = 0.0
        """How long the current step has been running."""
        self._step: Callable[[], asyncio.Handle | None] = lambda: None
        self._channel: AnyChannel | None = None
        self._loop_turned = True
        """Whether the loop has gone round since the step was first seen: the handle of a socket runs many times."""
        self._sampled_s = now_s()
        self._location = ""
        self._warned_s: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def run(self, stop: threading.Event) -> None:
        """Sample until stopped, or until the loop has ended. Never raise: that would end the worker for a warning."""
        try:
            while not stop.wait(SAMPLE_EVERY_S) and self.thread is not None:
                self.sample()
        except Exception:
            _log.exception("The event loop of the channels is no longer watched; the worker continues")

    def sample(self) -> None:
        """Compare the step that the loop runs with that of the previous sample."""
        now_s, last_s = self._now_s(), self._sampled_s
        self._sampled_s = now_s
        innermost = None if self.thread is None else sys._current_frames().get(self.thread)
        step = _running(innermost)
        if step is None or step is not self._step() or self._loop_turned:
            self._end_step()
            self._begin_step(step)
            return
        self.blocked_s += min(now_s - last_s, _MAX_GAP_S)
        if self.blocked_s >= BLOCKED_S and not self._location:
            self._location = _location(innermost, type(self._channel).__module__)

    def _begin_step(self, step: asyncio.Handle | None) -> None:
        self.blocked_s, self._location, self._channel = 0.0, "", None
        if step is None:
            return
        self._step, self._loop_turned = weakref.ref(step), False
        self._channel = step._context.get(CHANNEL)  # type: ignore[attr-defined]  # there is no public way
        with contextlib.suppress(RuntimeError):  # the loop was closed just now
            self._loop.call_soon_threadsafe(self._turn)

    def _turn(self) -> None:
        self._loop_turned = True

    def _end_step(self) -> None:
        """Warn if the previous step blocked the loop. A step without a channel is our own."""
        if self.blocked_s < BLOCKED_S or self._channel is None:
            return
        name = self._channel.name
        if self._sampled_s - self._warned_s.get(name, -WARN_EVERY_S) < WARN_EVERY_S:
            self._suppressed[name] = self._suppressed.get(name, 0) + 1
            return
        self._warned_s[name] = self._sampled_s
        suppressed = self._suppressed.pop(name, 0)
        others = f" ({suppressed} more since the last warning.)" if suppressed else ""
        _log.warning(
            "The channel %s blocked the event loop for %.1f s, at %s: meanwhile no channel was served and no timeout "
            "held. Use an async client there, or derive the class from fairlane.channels.BlockingChannel.%s",
            *(name, self.blocked_s, self._location, others),
        )


def _running(frame: FrameType | None) -> asyncio.Handle | None:
    """Return the step that a thread with this stack is running; None while it waits."""
    while frame is not None and frame.f_code is not _RUN:
        frame = frame.f_back
    step = None if frame is None else frame.f_locals.get("self")
    return step if isinstance(step, asyncio.Handle) else None


def _location(innermost: FrameType | None, module: str) -> str:
    """Return the line of this module that the step has reached, or the innermost line if there is none."""
    frame = innermost
    while frame is not None and frame.f_code is not _RUN:
        if frame.f_globals.get("__name__") == module:
            return _line(frame)
        frame = frame.f_back
    return "" if innermost is None else _line(innermost)


def _line(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
