"""Whatever ends the channels' event loop ends the worker; a loop or a batch that hangs is seen from outside."""

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from consumers.delivery import courier as courier_module
from consumers.delivery.courier import ClockLoop
from dispatcher.model.errors import FairlaneError, Unreachable
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, UNKNOWN, Report
from tests.unit.dispatch.consumers.envelopes import batch, envelope
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.dispatch.consumers.office import TIMEOUT_S, Blocks, Channel, Stubborn, office, reasons
from tests.virtual_clock import VirtualClock


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt()])
def test_a_channel_that_asks_the_process_to_end_ends_the_worker_and_is_named(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        raise raised

    with office(Channel(leave)) as at:
        at.send(batch([envelope(0)]))
        assert at.over.wait(TIMEOUT_S)
    assert at.threads.failure is raised
    assert f"The channel x raised {type(raised).__name__}" in caplog.text


def test_a_channel_that_ends_the_loop_from_a_callback_or_stops_it_ends_the_worker() -> None:
    def leave() -> None:
        raise SystemExit(3)

    def exits(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        asyncio.get_running_loop().call_soon(leave)
        return [ALL_SENT] * len(envelopes)

    def stops(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        asyncio.get_running_loop().stop()
        return [ALL_SENT] * len(envelopes)

    for deliver, error in ((exits, SystemExit), (stops, FairlaneError)):
        with office(Channel(deliver)) as at:
            at.send(batch([envelope(0)]))
            assert at.over.wait(TIMEOUT_S)
        assert isinstance(at.threads.failure, error)


def test_what_was_sent_before_the_loop_ended_is_reported() -> None:
    def leave(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        if tier == "low":
            raise SystemExit(3)
        return [ALL_SENT] * len(envelopes)

    with office(Channel(leave)) as at:
        for tier in ("high", "low"):
            at.send(batch([envelope(0)], tier=tier))
        assert at.over.wait(TIMEOUT_S)
        assert at.reported()[1] == [ALL_SENT]


@pytest.mark.parametrize("raised", [asyncio.CancelledError(), GeneratorExit()])
def test_a_call_that_cancels_itself_is_tried_again_and_ends_nothing(raised: BaseException) -> None:
    def cancel(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        raise raised

    with office(Channel(cancel)) as at:
        at.send(batch([envelope(0)]))
        (report,) = at.reported()[1]
        assert report is not None
        assert report.verdict.reason == "the call was cancelled"
        assert at.courier.probe() is not None


def test_a_channel_that_exits_when_it_is_opened_or_closed_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Leaves(Channel):
        async def open(self) -> None:
            raise SystemExit(3)

    class LeavesLate(Channel):
        async def close(self) -> None:
            raise SystemExit(3)

    with pytest.raises(FairlaneError, match=r"The channel x raised SystemExit\(3\) in open"), office(Leaves()):
        pass
    other = Channel()
    with office(LeavesLate(), y=other) as at:
        pass
    assert "The channel x failed to close" in caplog.text
    assert other.state == "closed"
    assert at.threads.failure is None


def test_the_loops_sign_changes_until_a_channel_blocks_it() -> None:
    channel = Blocks()
    with office(channel) as at:
        first = at.courier.probe()
        eventually(lambda: at.courier.probe() != first)
        at.send(batch([envelope(0)]))
        assert channel.blocked.wait(TIMEOUT_S)
        blocked = at.courier.probe()
        assert [at.courier.probe() for _ in range(5)] == [blocked] * 5
        channel.let_go()
        eventually(lambda: at.courier.probe() != blocked)
    assert at.courier.probe() is None


def test_calls_that_each_block_the_loop_for_a_moment_change_its_sign() -> None:
    """A loop that runs many short blocking calls answers no probe between them, and gets on all the same."""
    gates = [threading.Semaphore(0) for _ in range(2)]

    def block(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        gates[0].release()
        gates[1].acquire(timeout=TIMEOUT_S)
        return [ALL_SENT] * len(envelopes)

    with office(Channel(block, batch_limit=1, concurrency=2)) as at:
        at.send_together(batch([envelope(0)]), batch([envelope(1)], tier="low"))
        gates[0].acquire(timeout=TIMEOUT_S)
        at.courier.probe()
        first = at.courier.probe()
        gates[1].release()
        gates[0].acquire(timeout=TIMEOUT_S)
        assert at.courier.probe() != first
        gates[1].release()


def test_the_oldest_batch_is_the_same_one_as_long_as_it_is_not_reported() -> None:
    channel = Stubborn(concurrency=1, batch_limit=1, shut=True)
    with office(channel) as at:
        assert at.courier.oldest() == {"x": None}
        at.send(batch([envelope(0)]))
        eventually(lambda: at.courier.oldest()["x"] is not None)
        oldest = at.courier.oldest()
        at.send(batch([envelope(1)]))
        assert at.courier.oldest() == oldest
        channel.gate.set()
        at.reported()
        at.reported()
        assert at.courier.oldest() == {"x": None}


# ---- the courier opens its channels and closes them; stopped, it reports every batch and waits for what is under way
def test_stopping_waits_for_a_call_that_came_together_with_a_late_one() -> None:
    channel = Channel(batch_limit=10)
    with office(channel) as at:
        at.send(batch([envelope(99)]))
        at.reported()
        at.clock.advance(2.0)
        late = batch([envelope(1)], use_by_s=1.0)
        at.send_together(batch([envelope(0)]), late, before=channel.gate.clear)
        threading.Timer(0.05, channel.gate.set).start()
        at.courier.stop(TIMEOUT_S)
        by_sequence = {one.deliveries[0].envelope.sequence: reports for one, reports in (at.reported(), at.reported())}
    assert by_sequence == {0: [ALL_SENT], 1: [None]}


def test_at_the_deadline_of_stopping_every_batch_is_reported() -> None:
    channel = Channel(concurrency=1, shut=True)
    with office(channel) as at:
        at.send(batch([envelope(0)]))
        at.send(batch([envelope(1)]))
        eventually(lambda: channel.running == 1)
        at.courier.stop(0.05)
        by_sequence = {one.deliveries[0].envelope.sequence: reports for one, reports in (at.reported(), at.reported())}
    assert reasons(by_sequence[0]) == {(UNKNOWN, "the worker stopped during the call")}
    assert by_sequence[1] == [None]
    assert channel.state == "closed"


def test_a_channel_that_cannot_be_opened_is_named() -> None:
    class Shut(Channel):
        async def open(self) -> None:
            raise PermissionError("not yours")

    with pytest.raises(Unreachable, match="The channel x cannot be opened: not yours"), office(Shut()):
        pass


def test_a_channel_that_keeps_the_event_loop_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(courier_module, "CLOSE_WITHIN_S", 0.05)
    channel = Blocks()
    with office(channel) as at:
        at.send(batch([envelope(0)]))
        assert channel.blocked.wait(TIMEOUT_S)
        at.courier.stop(0.01)
        assert "blocks the event loop" in caplog.text
        channel.let_go()
        assert at.threads.join(TIMEOUT_S) == []
        at.loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(at.loop)))


class _RunningClock(VirtualClock):
    """Goes on by itself; `advance` is a sleep of the machine."""

    def monotonic_s(self) -> float:
        return super().monotonic_s() + time.monotonic()


def test_a_call_times_out_by_the_time_that_passed_while_the_machine_slept() -> None:
    clock, channel = _RunningClock(), Channel(timeout_s=3_600.0, shut=True)
    with office(channel, ClockLoop, clock) as at:
        at.send(batch([envelope(0)], use_by_s=clock.monotonic_s() + 60))
        eventually(lambda: bool(channel.running))
        timed = threading.Event()
        at.loop.call_soon_threadsafe(timed.set)  # its turn comes after that of the call's timer
        assert timed.wait(TIMEOUT_S)
        clock.advance(3_601.0)
        assert reasons(at.reported()[1]) == {(UNKNOWN, "no answer within 3600 s")}
