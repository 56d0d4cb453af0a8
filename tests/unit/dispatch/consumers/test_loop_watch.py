"""A channel whose code blocks the event loop is named, with the line and the seconds."""

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from contextvars import copy_context
from functools import partial
from unittest.mock import Mock

import pytest

from consumers.delivery import courier as courier_module
from consumers.delivery.calls import ChannelQueue
from consumers.delivery.fleet_gate import FleetGate
from consumers.delivery.loop_watch import CHANNEL, LoopWatch
from fairlane.worker.process.threads import Threads
from tests.unit.dispatch.consumers.envelopes import batch, envelope
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.dispatch.consumers.office import TIMEOUT_S, Blocks, Channel, office
from tests.virtual_clock import VirtualClock

LOOKS_A_SECOND = 10


class Watched:
    """An event loop in its thread, with two channels, and a watch that looks when the test says so."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.now_s = 0.0
        self.watch = LoopWatch(self.loop, lambda: self.now_s)
        self.waits, self.blocks = Channel(), Blocks()
        self.blocks.name = "sms"
        clock = VirtualClock()
        self.queues = [
            ChannelQueue(channel, self.loop, clock, FleetGate(clock)) for channel in (self.waits, self.blocks)
        ]
        self.reported = threading.Semaphore(0)

    def send(self, queue: int) -> None:
        def put() -> None:
            self.queues[queue].put(batch([envelope(0)]), lambda *_: self.reported.release())

        self.loop.call_soon_threadsafe(put)

    def sample(self, seconds: float) -> None:
        for _ in range(round(seconds * LOOKS_A_SECOND)):
            self.now_s += 1 / LOOKS_A_SECOND
            self.watch.sample()

    def block_for(self, seconds: float) -> None:
        """One call of the channel blocks, and is over."""
        self.send(1)
        assert self.blocks.blocked.wait(TIMEOUT_S)
        self.watch.sample()
        self.sample(seconds)
        self.blocks.let_go()
        assert self.reported.acquire(timeout=TIMEOUT_S)
        self.watch.sample()

    def turn(self) -> threading.Event:
        """Return an event that is set when the loop comes round."""
        turned = threading.Event()
        self.loop.call_soon_threadsafe(turned.set)
        return turned

    def run(self) -> None:
        self.watch.thread = threading.get_ident()
        self.loop.run_forever()


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.waits.gate.set()
    made.loop.call_soon_threadsafe(made.loop.stop)
    thread.join(TIMEOUT_S)
    made.loop.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_the_channel_whose_step_blocks_is_named_though_another_has_a_call_under_way(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.waits.gate.clear()
    watched.send(0)
    eventually(lambda: watched.waits.running == 1)
    watched.block_for(8.0)
    (line,) = warnings(caplog)
    assert line.startswith("The channel sms blocked the event loop for 8.0 s, at ")
    assert "office.py:" in line
    assert " in block: meanwhile no channel was served" in line
    assert "fairlane.channels.BlockingChannel" in line


def test_a_block_of_less_than_a_second_is_nothing(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.block_for(0.8)
    watched.block_for(0.8)
    assert warnings(caplog) == []


def test_a_channel_is_warned_of_once_a_minute(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(4):
        watched.block_for(2.0)
    assert len(warnings(caplog)) == 1
    watched.sample(60.0)
    watched.block_for(2.0)
    assert warnings(caplog)[1].endswith(" (3 more since the last warning.)")


def test_a_process_that_was_stopped_is_nobodys_fault(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.send(1)
    assert watched.blocks.blocked.wait(TIMEOUT_S)
    watched.watch.sample()
    watched.now_s += 600.0
    watched.watch.sample()
    watched.blocks.let_go()
    assert watched.reported.acquire(timeout=TIMEOUT_S)
    watched.watch.sample()
    assert warnings(caplog) == []


def test_a_socket_whose_callback_runs_again_and_again_does_not_block(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """One handle serves all of them."""
    read, write = os.pipe()
    os.write(write, b"x")

    context = copy_context()
    context.run(CHANNEL.set, watched.blocks)
    listen = partial(context.run, watched.loop.add_reader, read, watched.blocks.block)
    watched.loop.call_soon_threadsafe(listen)
    for _ in range(4):
        assert watched.blocks.blocked.wait(TIMEOUT_S)
        watched.sample(0.6)
        turned = watched.turn()
        watched.blocks.let_go()
        assert turned.wait(TIMEOUT_S)
    assert watched.blocks.blocked.wait(TIMEOUT_S)
    watched.loop.call_soon_threadsafe(watched.loop.remove_reader, read)
    turned = watched.turn()
    watched.blocks.let_go()
    assert turned.wait(TIMEOUT_S)
    watched.watch.sample()
    assert warnings(caplog) == []


def test_a_channel_without_a_name_that_can_be_read_does_not_end_the_worker(
    watched: Watched, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched.watch, "sample", Mock(side_effect=RuntimeError("no name")))
    threads = Threads(threading.Event())
    threads.start("channel watch", watched.watch.run)
    eventually(lambda: "no longer watched; the worker continues" in caplog.text)
    assert threads.failure is None


def test_a_task_that_open_made_is_watched_by_the_courier_and_the_watch_ends_with_the_loop(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Opens(Blocks):
        async def open(self) -> None:
            self.task = asyncio.create_task(self.later())

        async def later(self) -> None:
            await self.push()

    made: list[LoopWatch] = []

    def watch_of(loop: asyncio.AbstractEventLoop) -> LoopWatch:
        made.append(LoopWatch(loop))
        return made[-1]

    monkeypatch.setattr(courier_module, "LoopWatch", watch_of)
    channel = Opens()
    with office(channel, let_go=channel.go_on.set):
        assert channel.blocked.wait(TIMEOUT_S)
        eventually(lambda: made[0].blocked_s > 1.0)
        channel.let_go()
        eventually(lambda: made[0].blocked_s == 0.0)
    assert "The channel x blocked the event loop for" in warnings(caplog)[0]
    eventually(lambda: "channel watch" not in {thread.name for thread in threading.enumerate()})
