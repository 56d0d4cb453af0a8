"""Standard input ends with what is piped into it, or with an interrupt, wherever that was noticed."""

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from producers.files.standard_input import standard_input
from producers.files.targets_file import Format, TargetsFile
from producers.submit.report import Watchers
from producers.submit.submit import submit
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.dispatch.producers.fake_service import LANE, FakeService
from tests.unit.dispatch.producers.test_streams import has
from tests.unit.dispatch.producers.test_submit import push, sent


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Are Python's own, whatever ran in this process before (Spark takes them over)."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[IO[bytes]]:
    """The other end of standard input."""
    source, end = os.pipe()
    with os.fdopen(source) as read, os.fdopen(end, "wb", buffering=0) as write:
        monkeypatch.setattr("sys.stdin", read)
        yield write


def test_lines_are_read_as_they_come_and_to_the_end(pipe: IO[bytes]) -> None:
    pipe.write(b"one\n")
    with standard_input() as file:
        assert file.readline() == b"one\n"
        pipe.write(b"two\nthr")
        assert file.readline() == b"two\n"
        pipe.write(b"ee")
        pipe.close()
        assert file.read() == b"three"


def test_an_interrupt_that_was_swallowed_ends_the_wait(pipe: IO[bytes]) -> None:
    """As in a destructor, or between Python's last look and the system's read."""
    pipe.write(b"one\n")
    with standard_input() as file:
        assert file.readline() == b"one\n"
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            file.readline()


def test_other_signals_do_not_end_it(pipe: IO[bytes]) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: seen.append(number))
    try:
        with standard_input() as file:
            signal.raise_signal(signal.SIGUSR1)
            pipe.write(b"one\n")
            assert file.readline() == b"one\n"
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [signal.SIGUSR1]


def test_who_looks_at_signals_otherwise_is_left_alone(pipe: IO[bytes]) -> None:
    pipe.write(b"one\n")
    pipe.close()
    read: list[object] = []
    thread = threading.Thread(target=lambda: read.extend(TargetsFile("-")))
    thread.start()
    thread.join()
    assert read == ["one"]


def test_what_watches_signals_is_put_back(pipe: IO[bytes]) -> None:
    with standard_input():
        pass
    assert signal.set_wakeup_fd(-1) == -1


def has_in_time(world: FakeService, targets: list[str]) -> bool:
    """Time passes with each look: how much of the parts one read brings is left to the system, and what does not fill
    an envelope waits for a second."""
    world.clock.advance(2)
    return has(world, LANE, targets)


@pytest.mark.parametrize(
    ("format_", "lines"),
    [
        ("lines", ["\n\n", "a\nb\nc\n", "d\n"]),
        ("auto", ["a\nb\nc\n", "d\n"]),
        ("csv", ["token,n\na,1\n", "b,2\nc,3\nd", ",5\n"]),
        ("csv", ["token,n\n", 'a,1\nb,2\nc,"3\n', '4"\n', 'd,5\n']),
        ("jsonl", ['"a"\n"b"\n{"token"', ': "c"}\n', '"d"\n']),
        ("lines", ["a\nb\nc\r\nd", "\n"]),
    ],
)  # fmt: skip
def test_what_a_slow_pipe_brought_is_sent_before_more_comes(pipe: IO[bytes], format_: Format, lines: list[str]) -> None:
    world = FakeService()

    def write() -> None:
        with pipe:
            for part in lines[:-1]:
                pipe.write(part.encode())
            eventually(lambda: has_in_time(world, ["a", "b", "c"]))
            pipe.write(lines[-1].encode())

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        accepted = submit(world.services(), push(), TargetsFile("-", format_), Watchers()).accepted
        writing.result()
    assert (accepted, sent(world)) == (4, ["a", "b", "c", "d"])


def test_a_pipe_is_not_looked_at_before_it_is_submitted(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        source = TargetsFile(tmp_path / "pipe")
        source.check()
        pool.submit((tmp_path / "pipe").write_bytes, b"one\ntwo\n")
        assert list(source) == ["one", "two"]


@pytest.mark.parametrize(
    ("parts", "targets"),
    [(["[\n", "]"], []), (["[\n", '"a"', ",", '"b"', "]", "\n"], ["a", "b"]), (["\n", "\n", "a\n"], ["a"])],
)
def test_an_audience_may_come_in_any_parts(pipe: IO[bytes], parts: list[str], targets: list[str]) -> None:
    """Each part is read before the next one is written."""
    unread = select.poll()
    unread.register(sys.stdin.fileno(), select.POLLIN)

    def write() -> None:
        with pipe:
            for part in parts:
                pipe.write(part.encode())
                eventually(lambda: not unread.poll(0))

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        assert list(TargetsFile("-")) == targets
        writing.result()
