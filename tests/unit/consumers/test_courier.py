"""The courier: every batch is reported once, in time, whatever its channel does."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from consumers import courier as courier_module
from consumers.courier import ChannelCourier
from dispatcher.clock import VirtualClock
from dispatcher.envelope import Envelope
from dispatcher.errors import Unreachable
from dispatcher.outcome import ALL_SENT, RETRY, Report, Verdict
from dispatcher.ports import Batch
from tests.unit.consumers.envelopes import batch, envelope
from tests.unit.consumers.fakes import eventually

Deliver = Callable[[Sequence[Envelope], str], Sequence[Report]]
TIMEOUT_S = 5.0


class Channel:
    """Does what the test says; `gate` closed, calls stay under way."""

    name = "x"

    def __init__(
        self, deliver: Deliver | None = None, *, timeout_s: float = 60.0, concurrency: int = 4, batch_limit: int = 10
    ) -> None:
        self._deliver = deliver or (lambda envelopes, tier: [ALL_SENT] * len(envelopes))
        self.timeout_s, self.concurrency, self.batch_limit = timeout_s, concurrency, batch_limit
        self.gate = threading.Event()
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


class Stubborn(Channel):
    """Takes no notice of being cancelled."""

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        while not self.gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.002)
        return [ALL_SENT] * len(envelopes)


class Office:
    """A courier, its clock and what it reported."""

    def __init__(self, courier: ChannelCourier, clock: VirtualClock) -> None:
        self.courier = courier
        self.clock = clock
        self.reports: queue.SimpleQueue[tuple[Batch, Sequence[Report | None]]] = queue.SimpleQueue()

    def send(self, one: Batch) -> None:
        self.courier.send(one, lambda sent, reports: self.reports.put((sent, reports)))

    def reported(self) -> tuple[Batch, Sequence[Report | None]]:
        return self.reports.get(timeout=TIMEOUT_S)


@contextmanager
def office(channel: Channel) -> Iterator[Office]:
    clock = VirtualClock()
    courier = ChannelCourier({"x": channel}, clock)
    courier.start()
    try:
        yield Office(courier, clock)
    finally:
        channel.gate.set()
        courier.stop(TIMEOUT_S)


def reasons(reports: Sequence[Report | None]) -> set[tuple[int, str]]:
    assert all(report is not None for report in reports)
    return {(report.verdict.code, report.verdict.reason) for report in reports if report is not None}


def test_a_batch_comes_back_with_the_channels_reports_in_order() -> None:
    def deliver(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        return [Report() if one.sequence else Report(exceptions={}) for one in envelopes]

    with office(Channel(deliver)) as at:
        sent = batch([envelope(0), envelope(1), envelope(2)], tier="low")
        at.send(sent)
        back, reports = at.reported()
    assert back is sent
    assert [None if report is None else report.exceptions for report in reports] == [{}, None, None]


def test_the_channel_is_told_the_tier_and_a_large_batch_is_cut_into_calls() -> None:
    channel = Channel(batch_limit=2)
    with office(channel) as at:
        at.send(batch([envelope(n) for n in range(5)], tier="medium"))
        assert at.reported()[1] == [ALL_SENT] * 5
        assert at.courier.batch_limit("x") == 2
    assert channel.calls == [([0, 1], "medium"), ([2, 3], "medium"), ([4], "medium")]


def test_no_more_calls_than_the_channel_wants_are_under_way() -> None:
    channel = Channel(concurrency=3, batch_limit=1)
    channel.gate.clear()
    with office(channel) as at:
        for n in range(10):
            at.send(batch([envelope(n)]))
        eventually(lambda: at.courier.in_flight("x") == (3, 7, 10))
        channel.gate.set()
        assert [at.reported()[1] for _ in range(10)] == [[ALL_SENT]] * 10
        eventually(lambda: at.courier.in_flight("x") == (0, 0, 0))
    assert channel.most_running == 3


def test_a_call_whose_turn_comes_after_its_use_by_is_not_made() -> None:
    channel = Channel(concurrency=1, batch_limit=1)
    channel.gate.clear()
    with office(channel) as at:
        at.send(batch([envelope(0)], use_by_s=2.0))
        eventually(lambda: channel.running == 1)
        late = batch([envelope(1), envelope(2)], use_by_s=2.0)
        at.send(late)
        at.clock.advance(2.0)
        channel.gate.set()
        assert at.reported()[1] == [ALL_SENT]
        assert at.reported() == (late, [None, None])
    assert channel.calls == [([0], "high")]


def test_a_batch_may_be_partly_late() -> None:
    channel = Channel(concurrency=1, batch_limit=1)
    channel.gate.clear()
    with office(channel) as at:
        at.send(batch([envelope(0), envelope(1)], use_by_s=2.0))
        eventually(lambda: channel.running == 1)
        at.clock.advance(2.0)
        channel.gate.set()
        assert at.reported()[1] == [ALL_SENT, None]


def test_waiting_batches_of_a_tier_share_a_call_and_each_gets_its_own_reports() -> None:
    def deliver(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        return [Report(Verdict(one.sequence)) for one in envelopes]

    channel = Channel(deliver, concurrency=1, batch_limit=4)
    channel.gate.clear()
    with office(channel) as at:
        at.send(batch([envelope(0)], tier="high"))
        eventually(lambda: len(channel.calls) == 1)
        waiting = [
            batch([envelope(1)], tier="high"),
            batch([envelope(2)], tier="high", use_by_s=1.0),
            batch([envelope(3), envelope(4)], tier="high"),
            batch([envelope(0), envelope(1)], tier="high"),
            batch([envelope(2)], tier="low"),
        ]
        for one in waiting:
            at.send(one)
        eventually(lambda: at.courier.in_flight("x").waiting == len(waiting))
        at.clock.advance(2.0)
        channel.gate.set()
        told = {id(sent): reports for sent, reports in (at.reported() for _ in range(6))}
    assert channel.calls == [([0], "high"), ([1, 3, 4], "high"), ([0, 1], "high"), ([2], "low")]
    codes = [[None if r is None else r.verdict.code for r in told[id(one)]] for one in waiting]
    assert codes == [[1], [None], [3, 4], [0, 1], [2]]


def test_an_exception_means_retry_with_its_text() -> None:
    def deliver(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        raise ValueError("no such certificate")

    with office(Channel(deliver)) as at:
        at.send(batch([envelope(0), envelope(1)]))
        assert reasons(at.reported()[1]) == {(RETRY, "ValueError: no such certificate")}


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ([ALL_SENT], "1 reports for 2 envelopes"),
        ([ALL_SENT] * 3, "3 reports for 2 envelopes"),
        (None, "a NoneType, not a list"),
        ([ALL_SENT, True], "a bool among its reports"),
    ],
)
def test_reports_that_make_no_sense_mean_retry_for_all(answer: list[Report], complaint: str) -> None:
    with office(Channel(lambda envelopes, tier: answer)) as at:
        at.send(batch([envelope(0), envelope(1)]))
        ((code, reason),) = reasons(at.reported()[1])
    assert code == RETRY
    assert complaint in reason


def test_a_call_never_outlasts_the_timeout() -> None:
    channel = Channel(timeout_s=0.05, concurrency=1)
    channel.gate.clear()
    with office(channel) as at:
        at.send(batch([envelope(0), envelope(1)]))
        assert reasons(at.reported()[1]) == {(RETRY, "no answer within 0.05 s")}
        eventually(lambda: channel.running == 0)


def test_a_call_that_will_not_be_cancelled_is_reported_once_and_keeps_its_place() -> None:
    channel = Stubborn(timeout_s=0.05, concurrency=1)
    channel.gate.clear()
    with office(channel) as at:
        at.send(batch([envelope(0)]))
        assert reasons(at.reported()[1]) == {(RETRY, "no answer within 0.05 s")}
        at.send(batch([envelope(1)]))
        eventually(lambda: at.courier.in_flight("x") == (1, 1, 1))
        channel.gate.set()
        assert at.reported()[1] == [ALL_SENT]
        assert at.reports.empty()


def test_a_channel_this_worker_does_not_have_means_retry() -> None:
    with office(Channel()) as at:
        at.send(batch([envelope(0)], channel="pigeon"))
        ((code, reason),) = reasons(at.reported()[1])
    assert code == RETRY
    assert "no channel named 'pigeon'" in reason


def calls_for(channel: Channel, *batches: Batch) -> list[tuple[list[int], str]]:
    """The channel's calls for batches that come all at once, after a first one."""
    with office(channel) as at:
        at.send(batch([envelope(99)], tier="high"))
        at.reported()
        hold = threading.Event()
        at.courier._loop.call_soon_threadsafe(hold.wait, TIMEOUT_S)
        for one in batches:
            at.send(one)
        hold.set()
        for _ in batches:
            at.reported()
    return channel.calls[1:]


def test_a_channel_that_is_through_at_once_gets_what_came_together_in_order() -> None:
    tiers = ["high", "low", "high", "high", "low"]
    calls = calls_for(Channel(batch_limit=10), *(batch([envelope(n)], tier=tier) for n, tier in enumerate(tiers)))
    assert calls == [([0], "high"), ([1], "low"), ([2, 3], "high"), ([4], "low")]


def test_calls_that_are_over_at_once_share_a_task_until_one_has_to_wait() -> None:
    tasks: dict[int, asyncio.Task[object] | None] = {}

    class Moody(Channel):
        async def open(self) -> None:
            self.meeting = asyncio.Barrier(2)

        async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
            tasks[envelopes[0].sequence] = asyncio.current_task()
            if envelopes[0].sequence in {3, 4}:
                await self.meeting.wait()
            return await super().deliver(envelopes, tier)

    calls = calls_for(Moody(batch_limit=1, concurrency=2), *(batch([envelope(n)]) for n in range(6)))
    assert sorted(calls) == [([n], "high") for n in range(6)]
    assert tasks[0] is tasks[1] is tasks[2] is tasks[3]
    assert tasks[4] is not tasks[3]


def test_a_channel_that_takes_its_time_gets_its_calls_side_by_side() -> None:
    class Slow(Channel):
        async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
            await asyncio.sleep(0.001)
            return await super().deliver(envelopes, tier)

    calls = calls_for(Slow(concurrency=4), *(batch([envelope(n)], tier="high") for n in range(4)))
    assert sorted(calls) == [([n], "high") for n in range(4)]


def test_many_batches_cost_few_wake_ups() -> None:
    with office(Channel()) as at:
        wakes: list[int] = []
        hold = threading.Event()
        loop = at.courier._loop
        wake = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *given, **named: (wakes.append(1), wake(*given, **named))[1]  # type: ignore[method-assign]
        wake(hold.wait, TIMEOUT_S)
        for n in range(100):
            at.send(batch([envelope(n)]))
        assert len(wakes) == 1
        hold.set()
        assert [at.reported()[0].deliveries[0].envelope.sequence for _ in range(100)] == list(range(100))


def test_a_report_that_is_not_taken_does_not_stop_the_courier() -> None:
    def refuse(_batch: Batch, _reports: Sequence[Report | None]) -> None:
        raise RuntimeError

    with office(Channel()) as at:
        at.courier.send(batch([envelope(0)]), refuse)
        at.send(batch([envelope(1)]))
        assert at.reported()[1] == [ALL_SENT]


def test_stopping_waits_for_calls_under_way() -> None:
    channel = Channel()
    channel.gate.clear()
    with office(channel) as at:
        at.send(batch([envelope(0)]))
        eventually(lambda: channel.running == 1)
        threading.Timer(0.05, channel.gate.set).start()
        at.courier.stop(TIMEOUT_S)
        assert at.reported()[1] == [ALL_SENT]
    assert channel.state == "closed"


def test_stopping_waits_for_a_call_that_came_together_with_a_late_one() -> None:
    channel = Channel(batch_limit=10)
    with office(channel) as at:
        at.send(batch([envelope(99)]))
        at.reported()
        at.clock.advance(2.0)
        hold = threading.Event()
        at.courier._loop.call_soon_threadsafe(hold.wait, TIMEOUT_S)
        at.send(batch([envelope(0)]))
        at.send(batch([envelope(1)], use_by_s=1.0))
        channel.gate.clear()
        hold.set()
        threading.Timer(0.05, channel.gate.set).start()
        at.courier.stop(TIMEOUT_S)
        said = {one.deliveries[0].envelope.sequence: reports for one, reports in (at.reported(), at.reported())}
    assert said == {0: [ALL_SENT], 1: [None]}


def test_at_the_deadline_of_stopping_every_batch_is_reported() -> None:
    channel = Channel(concurrency=1)
    channel.gate.clear()
    with office(channel) as at:
        at.send(batch([envelope(0)]))
        at.send(batch([envelope(1)]))
        eventually(lambda: channel.running == 1)
        at.courier.stop(0.05)
        said = {one.deliveries[0].envelope.sequence: reports for one, reports in (at.reported(), at.reported())}
    assert reasons(said[0]) == {(RETRY, "the worker stopped during the call")}
    assert said[1] == [None]
    assert channel.state == "closed"


def test_a_channel_that_cannot_be_opened_is_named() -> None:
    class Shut(Channel):
        async def open(self) -> None:
            raise PermissionError("not yours")

    courier = ChannelCourier({"x": Shut()}, VirtualClock())
    with pytest.raises(Unreachable, match="The channel x cannot be opened: not yours"):
        courier.start()


def test_a_channel_that_does_not_close_well_keeps_no_other_from_being_closed() -> None:
    class Sulky(Channel):
        async def close(self) -> None:
            raise RuntimeError("no")

    other = Channel()
    courier = ChannelCourier({"x": Sulky(), "y": other}, VirtualClock())
    courier.start()
    courier.stop(TIMEOUT_S)
    assert other.state == "closed"


def test_a_channel_that_keeps_the_event_loop_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(courier_module, "CLOSE_WITHIN_S", 0.05)
    begun, release = threading.Event(), threading.Event()

    def keep(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        begun.set()
        release.wait(TIMEOUT_S)
        return [ALL_SENT] * len(envelopes)

    courier = ChannelCourier({"x": Channel(keep)}, VirtualClock())
    courier.start()
    courier.send(batch([envelope(0)]), lambda *_: None)
    assert begun.wait(TIMEOUT_S)
    courier.stop(0.01)
    assert "does not give the event loop back" in caplog.text
    release.set()
    courier._thread.join(TIMEOUT_S)
    assert not courier._thread.is_alive()
    courier._loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(courier._loop)))
    courier.stop(0.01)
