"""Channels that do not ask the gate themselves keep to caps at the provider's door, too: their calls wait for it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from consumers.delivery.calls import ChannelLoad, ChannelQueue
from consumers.delivery.courier import ClockLoop
from consumers.delivery.fleet_gate import FleetGate
from consumers.delivery.flow_figures import FlowFigures
from dispatcher.channels.guards.adaptive_limit import MIN_ANSWERS
from dispatcher.channels.guards.trouble import Trouble
from dispatcher.model.flow_pause import PauseKind
from dispatcher.ports import Batch
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.lease import Pace
from dispatcher.wire.outcome import ALL_SENT, UNSENT, Report
from tests.unit.dispatch.consumers.envelopes import batch, envelope
from tests.virtual_clock import VirtualClock

STEP_S = 0.001
FLOW = "x/shop"


class Posts:
    """Sends one envelope a call, and takes `takes_s` for it, longer if it is stopped."""

    name, timeout_s, batch_limit = "x", 10.0, 1

    def __init__(self, clock: VirtualClock, concurrency: int = 64, takes_s: float = 0.02) -> None:
        self.clock = clock
        self.concurrency = concurrency
        self.takes_s = takes_s
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.left: list[tuple[float, str, int]] = []
        """Time, app and targets of each call."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        self.left += [(self.clock.monotonic_s(), one.app, len(one.targets)) for one in envelopes]
        await asyncio.sleep(self.takes_s)
        await self.goes_on.wait()
        return [ALL_SENT] * len(envelopes)

    def count(self, from_s: float, to_s: float, app: str = "shop") -> int:
        return sum(targets for at_s, name, targets in self.left if from_s <= at_s < to_s and name == app)


class GatedQueue:
    """A queue with the gate of a worker, under a clock of its own."""

    def __init__(self, clock: VirtualClock, **channel: Any) -> None:
        self.clock = clock
        self.gate = FleetGate(clock)
        self.channel = Posts(clock, **channel)
        self.figures = FlowFigures("x", "", self.channel.concurrency)
        self.queue = ChannelQueue(self.channel, asyncio.get_running_loop(), clock, self.gate, self.figures)
        self.reports: list[Report | None] = []
        self.sequence = 0

    def grant(self, count: int, *, cap: int, pool: str = "app_channel/shop/x", by_request: bool = False) -> None:
        self.gate.allot([Pace(pool, FLOW, count, 0, cap, by_request)], {FLOW}, self.clock.monotonic_s())

    def put(self, envelopes: int, *, targets: int = 1, app: str = "shop", use_by_s: float = 1e9) -> None:
        for _ in range(envelopes):
            self.sequence += 1
            one = envelope(self.sequence, [f"t{number}" for number in range(targets)], app=app)
            self.queue.put(batch([one], use_by_s=use_by_s), self._sent)
        self.queue.start()

    def _sent(self, _: Batch, reports: Sequence[Report | None]) -> None:
        self.reports += reports

    async def pass_s(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.clock.advance(STEP_S)
            for _ in range(3):
                await asyncio.sleep(0)


@asynccontextmanager
async def scene_of(clock: VirtualClock, channel: dict[str, Any]) -> AsyncIterator[GatedQueue]:
    gated = GatedQueue(clock, **channel)
    try:
        yield gated
    finally:
        await gated.queue.abort()


@pytest.fixture
def clock() -> VirtualClock:
    clock = VirtualClock()
    clock.advance(100.0)
    return clock


@pytest.fixture(autouse=True)
def loop_factory(clock: VirtualClock) -> Callable[[], ClockLoop]:
    return lambda: ClockLoop(clock)


@pytest.fixture
def gated(request: pytest.FixtureRequest, clock: VirtualClock) -> AbstractAsyncContextManager[GatedQueue]:
    """Set the gated, with a channel as the mark `channel` says."""
    return scene_of(clock, getattr(request, "param", {}))


def channel(**settings: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("gated", [settings], indirect=True, ids=[""])


async def test_the_calls_of_a_capped_app_leave_evenly_and_those_of_another_at_once(gated: GatedQueue) -> None:
    gated.grant(100, cap=100)
    gated.put(100)
    gated.put(20, app="news")
    await gated.pass_s(0.5)
    assert gated.channel.count(0, 1e9) == pytest.approx(50, abs=4)
    assert gated.channel.count(0, 100.05, "news") == 20
    assert gated.queue.in_flight.waiting == pytest.approx(50, abs=4)
    await gated.pass_s(0.6)
    assert len(gated.reports) == 120
    assert gated.queue.in_flight == ChannelLoad()


async def test_app_whose_cap_was_removed_sends_at_once_what_it_is_granted_then(gated: GatedQueue) -> None:
    gated.grant(20, cap=20)
    for _ in range(30):  # more than the cap waits at all times
        gated.put(5, use_by_s=gated.clock.monotonic_s() + 1.0)
        await gated.pass_s(0.1)
    assert gated.channel.count(0, 1e9) == pytest.approx(20, abs=2)
    gated.gate.allot([], {FLOW}, gated.clock.monotonic_s())
    gated.put(500, use_by_s=gated.clock.monotonic_s() + 1.0)
    await gated.pass_s(0.3)
    assert gated.channel.count(103.0, 1e9) >= 500


@channel(concurrency=1)
async def test_a_capped_app_with_much_to_send_and_others_take_turns(gated: GatedQueue) -> None:
    gated.grant(1_000, cap=1_000)
    gated.put(60)
    gated.put(30, app="news")
    await gated.pass_s(1.0)
    assert gated.channel.count(0, 1e9, "news") >= 20
    assert gated.channel.count(0, 1e9) >= 20


@pytest.mark.parametrize("by_request", [False, True])
async def test_an_envelope_counts_its_targets_or_as_one_request(gated: GatedQueue, by_request: bool) -> None:
    gated.grant(10 if by_request else 200, cap=10 if by_request else 200, by_request=by_request)
    gated.put(10, targets=20)
    for second in (0.2, 0.4, 0.6, 0.8):
        await gated.pass_s(0.2)
        assert gated.channel.count(0, 1e9) == pytest.approx(200 * second, abs=20)
    await gated.pass_s(0.3)
    assert gated.channel.count(0, 1e9) == 200


async def test_what_is_not_let_through_before_its_use_by_is_given_back(gated: GatedQueue) -> None:
    gated.grant(10, cap=10)
    gated.put(10, use_by_s=gated.clock.monotonic_s() + 0.5)
    await gated.pass_s(0.6)
    assert gated.reports.count(None) == 10 - gated.channel.count(0, 1e9)
    assert gated.channel.count(0, 1e9) == pytest.approx(5, abs=1)
    assert gated.queue.in_flight == ChannelLoad()


async def test_a_batch_of_several_envelopes_is_reported_when_its_last_has_left(gated: GatedQueue) -> None:
    """Envelopes of a capped app and of another, in one batch of a channel that takes several in a call."""

    gated.queue.call_limit = 10
    gated.grant(20, cap=100)
    envelopes = [envelope(number, app="shop" if number < 20 else "news") for number in range(40)]
    gated.queue.put(batch(envelopes), lambda _, reports: gated.reports.extend(reports))
    await gated.pass_s(0.1)
    assert gated.channel.count(0, 1e9, "news") == 20
    assert gated.channel.count(0, 1e9) < 20
    assert gated.reports == []
    await gated.pass_s(0.3)
    assert gated.channel.count(0, 1e9) == 20
    assert gated.reports == [ALL_SENT] * 40


async def test_an_app_that_is_paused_while_it_waits_for_the_door_sends_nothing(gated: GatedQueue) -> None:
    gated.grant(100, cap=100)
    gated.put(100)
    await gated.pass_s(0.2)
    gated.gate.report(Trouble(channel="x", app="shop", kind=PauseKind.HAND, for_s=60.0, reason="stop"))
    before = gated.channel.count(0, 1e9)
    await gated.pass_s(1.0)
    assert gated.channel.count(0, 1e9) == before
    put_off = [one for one in gated.reports if one is not None and one.verdict.code == UNSENT]
    assert len(put_off) == 100 - before


async def test_a_worker_that_ends_gives_back_what_waits_for_the_door(gated: GatedQueue) -> None:
    gated.grant(100, cap=10)
    gated.put(10)
    await gated.pass_s(0.01)
    await gated.queue.abort()
    assert len(gated.reports) == 10
    left = len(gated.channel.left)
    await gated.pass_s(0.5)
    assert len(gated.channel.left) == left


@channel(concurrency=1_000)
async def test_what_left_while_the_provider_was_stopped_counts_when_it_goes_on(gated: GatedQueue) -> None:
    for _ in range(16):
        gated.grant(50, cap=200)
        gated.put(50)
        if len(gated.channel.left) > 190 and gated.channel.goes_on.is_set():
            gated.channel.goes_on.clear()
            stopped_s = gated.clock.monotonic_s()
        elif not gated.channel.goes_on.is_set() and gated.clock.monotonic_s() > stopped_s + 1.0:
            gated.channel.goes_on.set()
            went_on_s = gated.clock.monotonic_s()
            break
        await gated.pass_s(0.25)
    arrived = gated.channel.count(stopped_s, went_on_s)
    for _ in range(4):
        gated.grant(50, cap=200)
        gated.put(50)
        await gated.pass_s(0.25)
    assert arrived > 150
    assert arrived + gated.channel.count(went_on_s, went_on_s + 1.0) <= 1.05 * 200 * 1.25


@channel(concurrency=32, takes_s=0.05)
async def test_fewer_calls_are_made_at_once_while_the_provider_answers_slowly(gated: GatedQueue) -> None:
    for takes_s, slots in ((0.05, {32}), (0.5, set(range(1, 24)))):
        gated.channel.takes_s = takes_s
        for _ in range(4):
            gated.put(32 * MIN_ANSWERS)
            await gated.pass_s(1.3)
        assert gated.queue.in_flight.calls in slots | {0}
        assert gated.figures.limit.limit in slots


async def test_figures_say_how_many_requests_were_made_and_answered_how(gated: GatedQueue) -> None:
    gated.put(5)
    await gated.pass_s(0.05)
    figures = gated.figures
    assert (figures.requests, figures.under_way, dict(figures.answers)) == (5, 0, {"sent": 5})
    assert figures.times.sum == pytest.approx(5 * 0.02, abs=0.02)
