"""The base class of channels whose client blocks."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from consumers.delivery.courier import ClockLoop
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, UNKNOWN, Report
from fairlane.channels import BlockingChannel
from tests.unit.dispatch.consumers.envelopes import batch, envelope
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.dispatch.consumers.office import Channel, Office, office, reasons
from tests.virtual_clock import VirtualClock

ROOT = Path(__file__).parents[4]


class Blocking(BlockingChannel):
    """Waits, in its thread, while the sequence of an envelope is among those held."""

    def __init__(self, *, timeout_s: float = 60.0, concurrency: int = 2) -> None:
        self.name = "x"
        self.timeout_s, self.concurrency, self.batch_limit = timeout_s, concurrency, 1
        self.held: dict[int, threading.Event] = {}
        self.begun: list[int] = []
        self.threads: set[int] = set()
        self.error: Exception | None = None

    async def open(self) -> None: ...

    def hold(self, *sequences: int) -> None:
        self.held |= {sequence: threading.Event() for sequence in sequences}

    def let_go(self) -> None:
        for gate in self.held.values():
            gate.set()

    def deliver_blocking(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        (one,) = envelopes
        self.begun.append(one.sequence)
        self.threads.add(threading.get_ident())
        if one.sequence in self.held:
            self.held[one.sequence].wait()
        if self.error is not None:
            raise self.error
        return [ALL_SENT]


@pytest.fixture
def channel() -> Blocking:
    return Blocking()


def serving(
    channel: Blocking, make_loop: Callable[[VirtualClock], asyncio.AbstractEventLoop] = ClockLoop
) -> AbstractContextManager[Office]:
    """A courier whose timers are due by its virtual clock."""
    return office(channel, make_loop, let_go=channel.let_go, y=Channel())


def time_out(at: Office) -> Sequence[Report | None]:
    """The report of the call under way when its timeout has passed."""
    at.clock.advance(61.0)
    at.loop.call_soon_threadsafe(lambda: None)
    return at.reported()[1]


def sent_one(at: Office, sequence: int) -> Sequence[Report | None]:
    at.send(batch([envelope(sequence)]))
    return at.reported()[1]


def test_calls_run_in_threads_beside_the_event_loop(channel: Blocking) -> None:
    channel.hold(0)
    with serving(channel) as at:
        at.send(batch([envelope(0)]))
        eventually(lambda: channel.begun == [0])
        at.send(batch([envelope(1)], channel="y"))
        assert at.reported()[0].channel == "y"
        channel.held[0].set()
        assert at.reported()[1] == [ALL_SENT]


def test_there_are_no_more_threads_than_calls_at_once_and_they_end_with_the_channel(channel: Blocking) -> None:
    with serving(channel) as at:
        channel.hold(0, 1)
        for n in range(20):
            at.send(batch([envelope(n)]))
        eventually(lambda: sorted(channel.begun) == [0, 1])
        channel.held[0].set()
        channel.held[1].set()
        assert [at.reported()[1] for _ in range(20)] == [[ALL_SENT]] * 20
        assert len(channel.threads) <= 2
    eventually(lambda: not channel.threads & {thread.ident for thread in threading.enumerate()})


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no"), OSError("no")])
def test_an_exception_is_a_retry_with_its_text(channel: Blocking, error: Exception) -> None:
    channel.error = error
    with serving(channel) as at:
        ((code, reason),) = reasons(sent_one(at, 0))
    assert (code, type(error).__name__ in reason) == (UNKNOWN, True)


def test_a_call_past_its_timeout_is_a_retry_and_the_next_gets_another_thread(channel: Blocking) -> None:
    channel.concurrency = 1
    channel.hold(0)
    with serving(channel) as at:
        at.send(batch([envelope(0)]))
        eventually(lambda: channel.begun == [0])
        assert reasons(time_out(at)) == {(UNKNOWN, "no answer within 60 s")}
        assert sent_one(at, 1) == [ALL_SENT]
        channel.held[0].set()  # what it says comes too late and disturbs nobody
        assert sent_one(at, 2) == [ALL_SENT]
    assert channel.begun == [0, 1, 2]


def test_when_as_many_threads_are_late_as_calls_are_allowed_the_next_keep_their_places(channel: Blocking) -> None:
    channel.concurrency = 1
    channel.hold(0, 1)
    with serving(channel) as at:
        for n in range(2):
            at.send(batch([envelope(n)]))
            eventually(lambda: channel.begun[-1:] == [n])  # noqa: B023
            assert reasons(time_out(at)) == {(UNKNOWN, "no answer within 60 s")}
        at.send(batch([envelope(2)]))
        eventually(lambda: at.courier.in_flight("x").waiting == 1)
        assert channel.begun == [0, 1]
        channel.held[1].set()
        assert at.reported()[1] == [ALL_SENT]
    assert len(channel.threads) == 2


def test_stopping_does_not_wait_for_a_stuck_thread(channel: Blocking) -> None:
    channel.concurrency = 1
    channel.hold(0)
    with serving(channel, lambda _: asyncio.new_event_loop()) as at:
        at.send(batch([envelope(0)]))
        eventually(lambda: channel.begun == [0])
        at.courier.stop(0.01)
        assert reasons(at.reported()[1]) == {(UNKNOWN, "the worker stopped during the call")}
        assert not channel.held[0].is_set()


def test_a_process_ends_while_a_thread_is_stuck() -> None:
    code = f"""
import asyncio, time
from {__name__} import Blocking
from tests.unit.dispatch.consumers.envelopes import envelope

async def main():
    channel = Blocking()
    channel.hold(0)
    call = asyncio.create_task(channel.deliver([envelope(0)], "high"))
    while not channel.begun:
        await asyncio.sleep(0.01)
    await channel.close()
    print((await asyncio.gather(call, return_exceptions=True))[0].__class__.__name__)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("CancelledError\n", "", 0)


def test_a_method_for_threads_that_is_async_is_refused() -> None:
    with pytest.raises(TypeError, match=r"deliver_blocking\(\) of Confused is async. Write `def deliver_blocking"):

        class Confused(Blocking):
            async def deliver_blocking(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:  # type: ignore[override]
                return [ALL_SENT]


def test_the_method_must_be_written() -> None:
    class Forgetful(BlockingChannel):
        name, timeout_s, concurrency, batch_limit = "x", 1.0, 1, 1

    with pytest.raises(TypeError, match="deliver_blocking"):
        Forgetful()  # type: ignore[abstract]
