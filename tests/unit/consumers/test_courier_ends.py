"""Whatever ends the channels' event loop ends the worker; a loop or a batch that hangs is seen from outside."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from consumers.delivery.courier import ChannelCourier
from dispatcher.clock import VirtualClock
from dispatcher.model.errors import FairlaneError
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, Report
from fairlane.worker.process.threads import Threads
from tests.unit.consumers.envelopes import batch, envelope
from tests.unit.consumers.fakes import eventually
from tests.unit.consumers.office import TIMEOUT_S, Channel, Stubborn, office


def started(channel: Channel) -> tuple[ChannelCourier, Threads, threading.Event]:
    over = threading.Event()
    threads = Threads(over)
    courier = ChannelCourier({"x": channel}, VirtualClock())
    courier.start(threads.start)
    return courier, threads, over


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt()])
def test_a_channel_that_asks_the_process_to_end_ends_the_worker_and_is_named(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        raise raised

    courier, threads, over = started(Channel(leave))
    courier.send(batch([envelope(0)]), lambda *_: None)
    assert over.wait(TIMEOUT_S)
    assert threads.failure is raised
    assert f"The channel x raised {type(raised).__name__}" in caplog.text
    courier.stop(TIMEOUT_S)


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
        courier, threads, over = started(Channel(deliver))
        courier.send(batch([envelope(0)]), lambda *_: None)
        assert over.wait(TIMEOUT_S)
        assert isinstance(threads.failure, error)
        courier.stop(TIMEOUT_S)


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

    with pytest.raises(FairlaneError, match=r"The channel x raised SystemExit\(3\) in open"):
        started(Leaves())
    other = Channel()
    courier = ChannelCourier({"x": LeavesLate(), "y": other}, VirtualClock())
    threads = Threads(threading.Event())
    courier.start(threads.start)
    courier.stop(TIMEOUT_S)
    assert "The channel x failed to close" in caplog.text
    assert other.state == "closed"
    assert threads.failure is None


def test_the_loops_sign_changes_until_a_channel_blocks_it() -> None:
    begun, release = threading.Event(), threading.Event()

    def block(envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        begun.set()
        release.wait(TIMEOUT_S)
        return [ALL_SENT] * len(envelopes)

    with office(Channel(block)) as at:
        first = at.courier.probe()
        eventually(lambda: at.courier.probe() != first)
        at.send(batch([envelope(0)]))
        assert begun.wait(TIMEOUT_S)
        blocked = at.courier.probe()
        assert [at.courier.probe() for _ in range(5)] == [blocked] * 5
        release.set()
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
