"""The runners of one flow: tasks that send one target after the other, of all calls in turn.

They outlive calls, since a task that sends one request costs a fifth of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol


class Targets(Protocol):
    """Targets of a call."""

    def take(self) -> Any:
        """Return the next target; None if no further one may be sent."""

    async def send(self, target: Any, /) -> bool:
        """Send a target. Return False if it waited in vain, so that nothing is gained by another runner."""


@dataclass(slots=True, eq=False)
class _Call:
    """A call that is being sent."""

    targets: Targets
    ended: "asyncio.Future[None]"
    under_way: int = 0
    has_enough: bool = False
    """Whether the call ends as soon as no target is under way."""

    def sent(self, *, goes_on: bool) -> None:
        """Record that a target is no longer under way."""
        self.under_way -= 1
        self.has_enough |= not goes_on
        self.end_if_over()

    def end_if_over(self) -> None:
        """End the call if nothing is under way and nothing will be."""
        if self.has_enough and not self.under_way and not self.ended.done():
            self.ended.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End the call with an error."""
        if not self.ended.done():
            self.ended.set_exception(error)


@dataclass(slots=True, eq=False)
class _Runner:
    """A task and the call whose target it sends."""

    call: _Call | None = None
    task: "asyncio.Task[None] | None" = None


class Runners:
    """Sends the targets of all calls of a flow, each call's in turn, with a bounded number of requests under way."""

    def __init__(self, limit: Callable[[], int]) -> None:
        """`limit`: returns how many runners there may be now."""
        self._limit = limit
        self._calls: deque[_Call] = deque()
        """Calls with targets to be taken."""
        self._runners: dict[_Runner, None] = {}

    async def send_all(self, targets: Targets) -> None:
        """Send the targets of a call. Raises the error with which sending one of them failed."""
        call = _Call(targets, asyncio.get_running_loop().create_future())
        self._calls.append(call)
        self._fill()
        try:
            await call.ended
        finally:
            if call in self._calls:
                self._calls.remove(call)
            if call.under_way:
                await self._cancel(call)

    async def _cancel(self, call: _Call) -> None:
        tasks = [runner.task for runner in self._runners if runner.call is call and runner.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _fill(self) -> None:
        """Add runners while there are targets and room."""
        while self._calls and len(self._runners) < self._limit():
            runner = _Runner()
            target = self._take(runner)
            if target is None:
                return
            self._runners[runner] = None
            runner.task = asyncio.get_running_loop().create_task(self._run(runner, target))
            runner.task.add_done_callback(partial(self._ended, runner))

    def _take(self, runner: _Runner) -> Any:
        """Give a runner the next target, of the call whose turn it is. Return None if there is none."""
        calls = self._calls
        while calls:
            call = calls[0]
            try:
                target = None if call.ended.done() else call.targets.take()
            except Exception as error:
                call.fail(error)
                target = None
            if target is not None:
                calls.rotate(-1)
                call.under_way += 1
                runner.call = call
                return target
            calls.popleft()
            call.has_enough = True
            call.end_if_over()
        return None

    async def _run(self, runner: _Runner, target: Any) -> None:
        limit, runners = self._limit, self._runners
        while target is not None and (call := runner.call) is not None:
            goes_on = await call.targets.send(target)
            runner.call = None
            call.sent(goes_on=goes_on)
            if not goes_on or len(runners) > limit():
                return
            target = self._take(runner)
            if self._calls and len(runners) < limit():
                self._fill()

    def _ended(self, runner: _Runner, task: "asyncio.Task[None]") -> None:
        """Forget a runner, which may have been cancelled before it began."""
        del self._runners[runner]
        error = None if task.cancelled() else task.exception()
        call = runner.call
        if call is not None:
            if error is not None:
                call.fail(error)
            call.sent(goes_on=False)
        if any(not call.has_enough for call in self._calls):
            self._fill()
