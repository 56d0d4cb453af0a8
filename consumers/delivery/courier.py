"""Run the channels in an asyncio event loop in its own thread. Implements dispatcher.ports.Courier."""

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from consumers.delivery.calls import ChannelLoad
from consumers.delivery.fleet_gate import FleetGate
from consumers.delivery.flow_figures import FlowTable
from consumers.delivery.flows import ChannelFlows
from consumers.delivery.loop_watch import CHANNEL, LoopWatch
from consumers.delivery.pending import Sent, hand_over
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.ports import AnyChannel, Batch
from dispatcher.wire.outcome import Report

OPEN_WITHIN_S = 30.0
CLOSE_WITHIN_S = 5.0
StartThread = Callable[[str, Callable[[threading.Event], None]], None]
"""Runs the function in a thread of that name. The caller must notice its exceptions."""
_log = logging.getLogger(__name__)


class ClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers follow `clock`, so that a call's timeout passes while the machine sleeps.

    While it waits in its selector, the loop notices a step of that clock only when something wakes it.
    """

    def __init__(self, clock: Clock) -> None:
        self.time = clock.monotonic_s  # type: ignore[method-assign]  # read on each call: no method in between
        super().__init__()


class ChannelCourier:
    """Hands batches to their channels, with bounded concurrency, never after their use-by, and reports each batch once.

    A call ends at the channel's timeout. If its channel does not react to the cancellation, the call still occupies a
    slot, but its late answer is ignored.
    """

    def __init__(
        self,
        channels: Mapping[str, AnyChannel],
        clock: Clock,
        loop: asyncio.AbstractEventLoop | None = None,
        gate: FleetGate | None = None,
        figures: FlowTable | None = None,
    ) -> None:
        """`loop` is the event loop, which the courier closes; the default is a new one of asyncio. `gate`: the default
        knows no pauses of other workers. `figures`: of all flows, shared with the channels that keep them."""
        self._clock = clock
        self._loop = loop or asyncio.new_event_loop()
        gate = gate or FleetGate(clock)
        table = figures or FlowTable()
        self._flows = {
            name: ChannelFlows(channel, self._loop, clock, gate, table) for name, channel in channels.items()
        }
        self._incoming: deque[tuple[Batch, Sent]] = deque()
        self._woken = False
        self._stopping = False
        self._watch = LoopWatch(self._loop)
        self._ended = threading.Event()
        self._ended.set()
        """Set while the thread is not running."""
        self._work_in_loop: Future[None] | None = None
        self._probes = self._answered = 0
        self._missing: set[str] = set()

    # ------------------------------------------------------------- any thread
    def start(self, start_thread: StartThread) -> None:
        """Start the thread and open the channels. Raises the error of the first channel that fails, after closing
        all."""
        self._ended.clear()
        start_thread("channels", self._run)
        try:
            self._do(self._open(), OPEN_WITHIN_S)
            start_thread("channel watch", self._watch.run)
        except BaseException:
            self.stop(0.0)
            raise

    def send(self, batch: Batch, sent: Callable[[Batch, Sequence[Report | None]], None]) -> None:
        """Send a batch. Never blocks. Many batches cost one wake-up of the loop."""
        self._incoming.append((batch, sent))
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._take)

    def batch_limit(self, channel: str) -> int:
        """Return the maximum number of envelopes in one call of the channel.

        A larger batch becomes several calls and is reported when the last one is over.
        """
        flows = self._flows.get(channel)
        return 1 if flows is None else flows.call_limit

    def flow(self, channel: str, app: str) -> str:
        """Return the flow of an app's envelopes in a channel."""
        flows = self._flows.get(channel)
        return channel if flows is None else flows.name(app)

    def batch_counts(self) -> dict[str, int]:
        """Return, by channel, how many batches in progress keep one of its flows busy.

        More would only queue here, where no tier can overtake another.
        """
        return {name: flows.batch_count for name, flows in self._flows.items()}

    def target_counts(self) -> dict[str, int]:
        """Return, by channel, how many targets in progress keep one of its flows busy, where it knows."""
        return {name: flows.target_count for name, flows in self._flows.items() if flows.target_count}

    def in_flight(self, channel: str) -> ChannelLoad:
        """Return the channel's current load. It may be slightly outdated: the courier's thread changes it meanwhile."""
        flows = self._flows.get(channel)
        return ChannelLoad() if flows is None else flows.in_flight

    def targets_per_request(self, channel: str) -> int:
        """Return the maximum number of targets in one request of the channel; 0: all of an envelope."""
        return self._flows[channel].targets_per_request

    @property
    def channels(self) -> frozenset[str]:
        """The names of the channels."""
        return frozenset(self._flows)

    @property
    def longest_timeout_s(self) -> float:
        """The longest timeout of all channels: no call takes longer."""
        return max((flows.timeout_s for flows in self._flows.values()), default=0.0)

    def stop(self, deadline_s: float) -> None:
        """Wait for batches in progress, at most `deadline_s` seconds, then close the channels and end the thread.

        After that time, calls in progress are cancelled and report UNKNOWN; others are reported as not started.
        """
        self._stopping = True
        if not self._ended.is_set():
            try:
                self._do(self._end(deadline_s), 2 * deadline_s + CLOSE_WITHIN_S)
            except FairlaneError as error:
                _log.error("%s The worker continues without it.", error)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._ended.wait(CLOSE_WITHIN_S)
        if not self._loop.is_running():
            self._loop.close()

    # ------------------------------------------------------------- for the watchdog
    def probe(self) -> object | None:
        """Ask the event loop for a sign of life. Return its progress so far, which changes with every probe.

        The progress does not change while the loop is blocked. None while the loop should not run.
        """
        if self._stopping or self._ended.is_set():
            return None
        if self._answered == self._probes:
            self._probes += 1
            with contextlib.suppress(RuntimeError):  # it was closed just now
                self._loop.call_soon_threadsafe(self._answer_probe, self._probes)
        return self._probes, sum(flows.calls_settled for flows in self._flows.values())

    def oldest(self) -> Mapping[str, object | None]:
        """Return, by channel, the batch that has waited longest for its report."""
        return {name: flows.oldest() for name, flows in self._flows.items()}

    @property
    def timeouts_s(self) -> Mapping[str, float]:
        """Return, by channel, how long a call may take."""
        return {name: flows.timeout_s for name, flows in self._flows.items()}

    # ------------------------------------------------------------- the loop's thread
    def _run(self, _: threading.Event) -> None:
        """Run until the courier is stopped. Raise the exception with which a channel ended the loop."""
        asyncio.set_event_loop(self._loop)
        self._watch.thread = threading.get_ident()
        try:
            self._loop.run_forever()
        finally:
            self._watch.thread = None
            for flows in self._flows.values():
                flows.hand_over()
            self._ended.set()
            if self._work_in_loop is not None:
                self._work_in_loop.cancel()
        if not self._stopping:
            raise FairlaneError(
                "A channel stopped the worker's event loop.", "Remove loop.stop() from the channels' code."
            )

    def _answer_probe(self, number: int) -> None:
        self._answered = number

    def _do(self, work: Coroutine[Any, Any, None], within_s: float) -> None:
        """Run the work in the loop. Raise Unreachable if a channel blocks the loop, FairlaneError if one has ended
        it."""
        self._work_in_loop = running = asyncio.run_coroutine_threadsafe(work, self._loop)
        if self._ended.is_set():
            running.cancel()
        try:
            running.result(within_s)
        except TimeoutError as error:
            raise Unreachable("A channel blocks the event loop.", "Its calls must be async.") from error
        except CancelledError as error:
            raise FairlaneError("A channel has ended the event loop.", "See the previous error in the log.") from error
        finally:
            self._work_in_loop = None

    def _take(self) -> None:
        """Take everything sent since the last call."""
        self._woken = False
        while self._incoming:
            batch, sent = self._incoming.popleft()
            flows = self._flows.get(batch.channel)
            if flows is None:
                self._note_missing(batch.channel)
                hand_over(batch, sent, [None] * len(batch.deliveries))  # not started, which costs no attempt
            else:
                flows.put(batch, sent)
        for flows in self._flows.values():
            flows.start()

    def _note_missing(self, channel: str) -> None:
        """Log once that a batch came for a channel that the worker lacks. Normally lanes leave such envelopes to other
        workers."""
        if channel not in self._missing:
            self._missing.add(channel)
            _log.error("This worker has no channel %r; it returns envelopes for this channel unsent.", channel)

    async def _open(self) -> None:
        for name, flows in self._flows.items():
            CHANNEL.set(flows.channel)
            try:
                await flows.channel.open()
            except OSError as error:  # TimeoutError is one
                raise Unreachable(f"The channel {name} cannot be opened: {error}.", "Check its settings.") from error
            except (SystemExit, KeyboardInterrupt) as error:
                raise FairlaneError(f"The channel {name} raised {error!r} in open().", "Check its code.") from error

    async def _end(self, deadline_s: float) -> None:
        self._take()
        until_s = self._clock.monotonic_s() + deadline_s
        for flows in self._flows.values():
            await flows.idle(until_s)
        for name, flows in self._flows.items():
            await flows.abort()
            try:
                await asyncio.wait_for(_close(flows.channel), CLOSE_WITHIN_S / 2)
            except Exception:
                _log.exception("The channel %s failed to close", name)


async def _close(channel: AnyChannel) -> None:
    """Close a channel. A SystemExit becomes an error: it would end the event loop with the other channels open."""
    CHANNEL.set(channel)
    try:
        await channel.close()
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"close() raised {error!r}") from error
