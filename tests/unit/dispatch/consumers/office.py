"""A courier with one channel, for the courier's tests."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from consumers.delivery.courier import ChannelCourier
from consumers.delivery.fleet_gate import FleetGate
from dispatcher.ports import AnyChannel, Batch
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, Report
from fairlane.worker.process.threads import Threads
from tests.unit.dispatch.consumers.envelopes import batch, envelope
from tests.virtual_clock import VirtualClock

Deliver = Callable[[Sequence[Envelope], str], Sequence[Report]]
TIMEOUT_S = 5.0


class Channel:
    """Does what the test says. With its `gate` shut, calls stay under way."""

    name = "x"

    def __init__(
        self,
        deliver: Deliver | None = None,
        *,
        timeout_s: float = 60.0,
        concurrency: int = 4,
        batch_limit: int = 10,
        shut: bool = False,
    ) -> None:
        self._deliver = deliver or (lambda envelopes, tier: [ALL_SENT] * len(envelopes))
        self.timeout_s, self.concurrency, self.batch_limit = timeout_s, concurrency, batch_limit
        self.gate = threading.Event()
        if not shut:
            self.gate.set()
        self.calls: list[tuple[list[int], str]] = []
        self.running = self.most_running = 0
        self.state = "new"

    async def open(self) -> None:
        self.state = "open"

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        self.calls.append(([one.sequence for one in envelopes], tier))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            while not self.gate.is_set():  # noqa: ASYNC110  # it is opened from another thread
                await asyncio.sleep(0.002)
            return self._deliver(envelopes, tier)
        finally:
            self.running -= 1

    async def close(self) -> None:
        self.state = "closed"


class Blocks(Channel):
    """Its calls block the loop until they are let go: in a task that each makes, as `gather` does."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked, self.go_on = threading.Event(), threading.Event()

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        return await asyncio.gather(*(self.push() for _ in envelopes))

    async def push(self) -> Report:
        await asyncio.sleep(0)
        self.block()
        return ALL_SENT

    def block(self) -> None:
        self.blocked.set()
        self.go_on.wait(TIMEOUT_S)
        self.blocked.clear()
        self.go_on.clear()

    def let_go(self) -> None:
        self.blocked.wait(TIMEOUT_S)
        self.go_on.set()


class Stubborn(Channel):
    """Takes no notice of being cancelled."""

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        while not self.gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.002)
        return [ALL_SENT] * len(envelopes)


class Office:
    """A courier, its clock, its threads and what it reported."""

    def __init__(self, courier: ChannelCourier, clock: VirtualClock, loop: asyncio.AbstractEventLoop) -> None:
        self.courier = courier
        self.clock = clock
        self.loop = loop
        self.over = threading.Event()
        """Set when the worker would end."""
        self.threads = Threads(self.over)
        self.reports: queue.Queue[tuple[Batch, Sequence[Report | None]]] = queue.Queue()

    def send(self, one: Batch) -> None:
        self.courier.send(one, lambda sent, reports: self.reports.put((sent, reports)))

    def send_together(self, *batches: Batch, before: Callable[[], None] = lambda: None) -> None:
        """The courier's event loop finds them all at once, after `before`."""
        hold = threading.Event()
        self.loop.call_soon_threadsafe(hold.wait, TIMEOUT_S)
        for one in batches:
            self.send(one)
        before()
        hold.set()

    def reported(self) -> tuple[Batch, Sequence[Report | None]]:
        return self.reports.get(timeout=TIMEOUT_S)


@contextmanager
def office(
    channel: AnyChannel,
    make_loop: Callable[[VirtualClock], asyncio.AbstractEventLoop] = lambda _: asyncio.new_event_loop(),
    clock: VirtualClock | None = None,
    let_go: Callable[[], None] = lambda: None,
    gate: FleetGate | None = None,
    **beside: AnyChannel,
) -> Iterator[Office]:
    """A courier with this channel, x, and others. let_go: ends the calls under way."""
    clock = clock or VirtualClock()
    loop = make_loop(clock)
    courier = ChannelCourier({"x": channel, **beside}, clock, loop, gate)
    made = Office(courier, clock, loop)
    courier.start(made.threads.start)
    try:
        yield made
    finally:
        if isinstance(channel, Channel):
            channel.gate.set()
        let_go()
        courier.stop(TIMEOUT_S)


def reasons(reports: Sequence[Report | None]) -> set[tuple[int, str]]:
    assert all(report is not None for report in reports)
    return {(report.verdict.code, report.verdict.reason) for report in reports if report is not None}


def calls_for(channel: Channel, *batches: Batch) -> list[tuple[list[int], str]]:
    """The channel's calls for batches that come all at once, after a first one."""
    with office(channel) as at:
        at.send(batch([envelope(99)], tier="high"))
        at.reported()
        at.send_together(*batches)
        for _ in batches:
            at.reported()
    return channel.calls[1:]
