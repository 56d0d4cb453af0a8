"""The base class of channels whose client blocks: it runs their calls in threads."""

import asyncio
import inspect
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Queue

from dispatcher.ports import BatchChannel
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import Report


class BlockingChannel(BatchChannel):
    """Delivers to a provider through a client that blocks, such as `requests`.

    Write `deliver_blocking`; it runs in threads, `concurrency` calls at once. Give your client a timeout below
    `timeout_s`: Python cannot end a thread. After `timeout_s` a call counts as UNKNOWN, and the worker continues in
    another thread. Up to `concurrency` late threads may run besides those of the calls in progress; beyond that, calls
    wait until one of them ends. If none ends within another 12 s, the worker ends, as with any channel that hangs.
    """

    _threads: "_Threads | None" = None
    """Created by the first call, so that a subclass need not call this class' `__init__`."""

    def __init_subclass__(cls) -> None:
        """Refuse an async `deliver_blocking`: a thread would run nothing of it."""
        super().__init_subclass__()
        if inspect.iscoroutinefunction(cls.deliver_blocking):
            raise TypeError(
                f"deliver_blocking() of {cls.__name__} is async. Write `def deliver_blocking(self, envelopes, tier)`, "
                "or derive the class from BatchChannel and write `async def deliver(self, envelopes, tier)`"
            )

    @abstractmethod
    def deliver_blocking(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        """Send the envelopes. Return a report for each, in order. May be called by several threads at once.

        Raising means UNKNOWN for all of them, with the exception as reason.
        """

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        """Run `deliver_blocking` in a thread."""
        if self._threads is None:
            self._threads = _Threads(f"channel {self.name}", self.concurrency)
        return await self._threads.run(lambda: self.deliver_blocking(envelopes, tier))

    async def close(self) -> None:
        """Release the threads. Stuck ones end with the process. A subclass with its own `close` must call this."""
        if self._threads is not None:
            self._threads.close()


class _Threads:
    """Daemon threads, as many as the highest number of concurrent calls. Used from the event loop.

    A ThreadPoolExecutor does not fit: the process would wait for its threads at exit, including stuck ones.
    """

    def __init__(self, name: str, max_late: int) -> None:
        self._name = name
        self._max_late = max_late
        self._jobs: Queue[_Job | None] = Queue()
        self._busy = self._late = self._started = 0
        self._calls: set[asyncio.Future[Sequence[Report]]] = set()

    async def run(self, work: Callable[[], Sequence[Report]]) -> Sequence[Report]:
        """Return the result of `work`. When cancelled, leave its thread running.

        If too many threads are late already, wait for the thread, so that the call still counts against the channel's
        `concurrency`.
        """
        call = self._start(work)
        late = False
        while not call.done():
            try:
                await asyncio.wait((call,))
            except asyncio.CancelledError:
                late = True
                if self._late < self._max_late:
                    self._late += 1
                    call.add_done_callback(self._late_one_is_over)
                    raise
        if late:
            raise asyncio.CancelledError
        return call.result()

    def close(self) -> None:
        """End idle threads now, and others when their call is over. Calls in progress are cancelled."""
        for call in list(self._calls):
            call.cancel()
        for _ in range(self._started):
            self._jobs.put(None)

    def _start(self, work: Callable[[], Sequence[Report]]) -> "asyncio.Future[Sequence[Report]]":
        if self._busy == self._started:
            name = f"{self._name} {self._started + 1}"
            threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True).start()
            self._started += 1
        result: Future[Sequence[Report]] = Future()
        self._jobs.put((work, result))
        self._busy += 1
        call = asyncio.wrap_future(result)
        self._calls.add(call)
        call.add_done_callback(self._over)
        return call

    def _over(self, call: "asyncio.Future[Sequence[Report]]") -> None:
        self._busy -= 1
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # nobody else reads that of a late call, and asyncio would log it

    def _late_one_is_over(self, _: object) -> None:
        self._late -= 1


_Job = tuple[Callable[[], Sequence[Report]], "Future[Sequence[Report]]"]


def _work(jobs: "Queue[_Job | None]") -> None:
    """Run jobs until a None comes."""
    while (job := jobs.get()) is not None:
        work, result = job
        if not result.set_running_or_notify_cancel():
            continue
        try:
            result.set_result(work())
        except StopIteration as error:
            result.set_exception(RuntimeError(f"deliver_blocking raised {error!r}"))  # a future refuses StopIteration
        except BaseException as error:
            result.set_exception(error)
        del job, work, result  # a waiting thread must not keep envelopes alive
