"""The courier opens its channels and closes them; stopped, it reports every batch and waits for what is under way."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from consumers.delivery import courier as courier_module
from consumers.delivery.courier import ChannelCourier
from dispatcher.clock import VirtualClock
from dispatcher.model.errors import Unreachable
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, UNKNOWN, Report
from fairlane.worker.process.threads import Threads
from tests.unit.consumers.envelopes import batch, envelope
from tests.unit.consumers.fakes import eventually
from tests.unit.consumers.office import TIMEOUT_S, Channel, office, reasons


def test_stopping_waits_for_calls_under_way() -> None:
    channel = Channel(shut=True)
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

    courier = ChannelCourier({"x": Shut()}, VirtualClock())
    with pytest.raises(Unreachable, match="The channel x cannot be opened: not yours"):
        courier.start(Threads(threading.Event()).start)


def test_a_channel_that_does_not_close_well_keeps_no_other_from_being_closed() -> None:
    class Sulky(Channel):
        async def close(self) -> None:
            raise RuntimeError("no")

    other = Channel()
    courier = ChannelCourier({"x": Sulky(), "y": other}, VirtualClock())
    courier.start(Threads(threading.Event()).start)
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

    loop = asyncio.new_event_loop()
    courier = ChannelCourier({"x": Channel(keep)}, VirtualClock(), loop)
    threads = Threads(threading.Event())
    courier.start(threads.start)
    courier.send(batch([envelope(0)]), lambda *_: None)
    assert begun.wait(TIMEOUT_S)
    courier.stop(0.01)
    assert "blocks the event loop" in caplog.text
    release.set()
    assert threads.join(TIMEOUT_S) == []
    loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(loop)))
    courier.stop(0.01)
