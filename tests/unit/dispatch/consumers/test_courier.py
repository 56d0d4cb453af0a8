"""The courier: every batch is reported once, in time, whatever its channel does."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from consumers.delivery.calls import ChannelQueue
from consumers.delivery.fleet_gate import FleetGate
from dispatcher.channels.guards.trouble import Trouble
from dispatcher.model.flow_pause import PauseKind
from dispatcher.ports import Batch
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, UNKNOWN, UNSENT, Report, Verdict
from tests.unit.dispatch.consumers.envelopes import batch, envelope
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.dispatch.consumers.office import TIMEOUT_S, Channel, Stubborn, calls_for, office, reasons
from tests.virtual_clock import VirtualClock


def test_a_batch_comes_back_with_the_channels_reports_in_order() -> None:
    def deliver(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        return [Report() if one.sequence else Report(exceptions={0: Verdict(1)}) for one in envelopes]

    with office(Channel(deliver)) as at:
        sent = batch([envelope(0), envelope(1), envelope(2)], tier="low")
        at.send(sent)
        back, reports = at.reported()
    assert back is sent
    assert [None if report is None else report.exceptions for report in reports] == [{0: Verdict(1)}, None, None]


def test_the_channel_is_told_the_tier_and_a_large_batch_is_cut_into_calls() -> None:
    channel = Channel(batch_limit=2)
    with office(channel) as at:
        at.send(batch([envelope(n) for n in range(5)], tier="medium"))
        assert at.reported()[1] == [ALL_SENT] * 5
        assert at.courier.batch_limit("x") == 2
    assert channel.calls == [([0, 1], "medium"), ([2, 3], "medium"), ([4], "medium")]


def test_no_more_calls_than_the_channel_wants_are_under_way() -> None:
    channel = Channel(concurrency=3, batch_limit=1, shut=True)
    with office(channel) as at:
        for n in range(10):
            at.send(batch([envelope(n)]))
        eventually(lambda: at.courier.in_flight("x") == (3, 7, 10) and channel.running == 3)
        channel.gate.set()
        assert [at.reported()[1] for _ in range(10)] == [[ALL_SENT]] * 10
        eventually(lambda: at.courier.in_flight("x") == (0, 0, 0))
    assert channel.most_running == 3


def paused(*apps: str) -> FleetGate:
    """A gate that is closed for these apps on x."""
    gate = FleetGate(VirtualClock())
    for app in apps:
        gate.report(Trouble(channel="x", app=app, kind=PauseKind.HAND, for_s=60.0, reason="by hand"))
    return gate


PUT_OFF = Report(Verdict(UNSENT, "hand: by hand", 60.0, paused=True))


def test_envelopes_of_a_paused_app_are_put_off_and_those_of_others_are_sent() -> None:
    channel = Channel(batch_limit=10)
    apps = ["shop", "bank", "bank", "shop", "news", "bank"]
    with office(channel, gate=paused("bank", "games")) as at:
        at.send(batch([envelope(number, app=app) for number, app in enumerate(apps)]))
        assert at.reported()[1] == [ALL_SENT, PUT_OFF, PUT_OFF, ALL_SENT, ALL_SENT, PUT_OFF]
        eventually(lambda: at.courier.in_flight("x") == (0, 0, 0))
    assert [call for call, _ in channel.calls] == [[0, 3, 4]]


def test_a_batch_of_a_paused_app_is_put_off_without_a_call() -> None:
    channel = Channel(batch_limit=2)
    with office(channel, gate=paused("shop")) as at:
        at.send(batch([envelope(number) for number in range(5)]))
        assert at.reported()[1] == [PUT_OFF] * 5
        at.send(batch([envelope(9, app="bank")]))
        assert at.reported()[1] == [ALL_SENT]
        eventually(lambda: at.courier.in_flight("x") == (0, 0, 0))
    assert [call for call, _ in channel.calls] == [[9]]


async def test_a_call_that_was_made_up_in_time_and_begins_after_its_use_by_is_not_made() -> None:
    """The worker may stall between the two; its lease is over when it continues."""
    channel, clock = Channel(), VirtualClock()
    reported: list[Sequence[Report | None]] = []
    calls = ChannelQueue(channel, asyncio.get_running_loop(), clock, FleetGate(clock))
    calls.put(batch([envelope(0), envelope(1)], use_by_s=2.0), lambda _batch, reports: reported.append(reports))
    assert calls.in_flight.calls == 1
    clock.advance(2.0)
    assert await calls.idle(TIMEOUT_S)
    assert reported == [[None, None]]
    assert channel.calls == []


class Stalling(VirtualClock):
    """Stops for two seconds, once, as soon as `stalls` returns True."""

    def __init__(self) -> None:
        super().__init__()
        self.stalls: Callable[[], bool] | None = None

    def monotonic_s(self) -> float:
        if self.stalls is not None and self.stalls():
            self.stalls = None
            self.advance(2.0)
        return super().monotonic_s()


async def test_a_call_of_several_batches_begins_before_the_use_by_of_each() -> None:
    channel, clock = Channel(concurrency=1), Stalling()
    reported: list[Sequence[Report | None]] = []
    calls = ChannelQueue(channel, asyncio.get_running_loop(), clock, FleetGate(clock))
    channel.gate.clear()
    for number, use_by_s in enumerate((60.0, 2.0, 60.0)):
        calls.put(batch([envelope(number)], use_by_s=use_by_s), lambda _batch, reports: reported.append(reports))
    await asyncio.sleep(0)
    assert channel.running == 1

    clock.stalls = lambda: not calls.in_flight.waiting
    channel.gate.set()
    assert await calls.idle(TIMEOUT_S)
    assert channel.calls == [([0], "high")]
    assert reported == [[ALL_SENT], [None], [None]]


def test_waiting_batches_of_a_tier_share_a_call_and_each_gets_its_own_reports() -> None:
    def deliver(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        return [Report(Verdict(one.sequence)) for one in envelopes]

    channel = Channel(deliver, concurrency=1, batch_limit=4, shut=True)
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
        reported = {id(sent): reports for sent, reports in (at.reported() for _ in range(6))}
    assert channel.calls == [([0], "high"), ([1, 3, 4], "high"), ([0, 1], "high"), ([2], "low")]
    codes = [[None if r is None else r.verdict.code for r in reported[id(one)]] for one in waiting]
    assert codes == [[1], [None], [3, 4], [0, 1], [2]]


def test_a_call_that_will_not_be_cancelled_is_reported_once_and_keeps_its_place() -> None:
    channel = Stubborn(timeout_s=0.05, concurrency=1, shut=True)
    with office(channel) as at:
        at.send(batch([envelope(0)]))
        assert reasons(at.reported()[1]) == {(UNKNOWN, "no answer within 0.05 s")}
        at.send(batch([envelope(1)]))
        eventually(lambda: at.courier.in_flight("x") == (1, 1, 1))
        channel.gate.set()
        assert at.reported()[1] == [ALL_SENT]
        assert at.reports.empty()


class SecondHangs(Channel):
    """Answers the first call after a turn of the event loop, and the second never."""

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        await asyncio.sleep(0)
        return await super().deliver(envelopes, tier) if envelopes[0].sequence != 1 else await asyncio.Future()


def test_calls_that_follow_each_other_in_a_slot_have_a_time_limit_each() -> None:
    with office(SecondHangs(timeout_s=0.05, concurrency=1, batch_limit=1)) as at:
        at.send(batch([envelope(0), envelope(1), envelope(2)]))
        first, second, third = at.reported()[1]
        assert first == third == ALL_SENT
        assert reasons([second]) == {(UNKNOWN, "no answer within 0.05 s")}


def test_a_channel_that_the_worker_lacks_costs_no_attempt_and_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with office(Channel()) as at:
        for number in range(3):
            at.send(batch([envelope(number)], channel="pigeon"))
            assert at.reported()[1] == [None]
    assert [record.args for record in caplog.records] == [("pigeon",)]


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


def test_calls_that_keep_the_event_loop_let_others_have_a_turn_in_between() -> None:
    tasks: list[asyncio.Task[object] | None] = []

    class Busy(Channel):
        async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
            at.clock.advance(0.002)
            tasks.append(asyncio.current_task())
            return await super().deliver(envelopes, tier)

    with office(Busy(batch_limit=1)) as at:
        at.send(batch([envelope(99)]))
        at.reported()
        at.send_together(*(batch([envelope(n)]) for n in range(7)))
        for _ in range(7):
            at.reported()
    assert [tasks.count(task) for task in dict.fromkeys(tasks)] == [1, 3, 3, 1]


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
        wake = at.loop.call_soon_threadsafe

        def counted(*given: Any, **named: Any) -> asyncio.Handle:
            wakes.append(1)
            return wake(*given, **named)

        at.loop.call_soon_threadsafe = counted  # type: ignore[method-assign,assignment]
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
