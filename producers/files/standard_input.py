"""Standard input that an interrupt (Ctrl-C) always ends the wait for.

Python raises KeyboardInterrupt wherever its main thread is. Where that is in a destructor or another callback of the
interpreter's, it is printed and forgotten; where it is just before the system's `read`, that is not told and waits for
a line that may never come. So what is waited for is input or a signal's byte, which stays until it is looked at.
"""

import io
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


@contextmanager
def standard_input() -> Iterator[BinaryIO]:
    """The bytes of standard input, as they come. What is read ahead and not used is gone."""
    if not _may_watch():
        yield sys.stdin.buffer
        return
    woken, waker = socket.socketpair()
    with woken, waker:
        waker.setblocking(False)
        before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            yield io.BufferedReader(_Interruptible(sys.stdin.fileno(), woken))
        finally:
            signal.set_wakeup_fd(before)


def _may_watch() -> bool:
    """Whether signals are ours to look at, and the input is a file of the system's."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    try:
        return sys.stdin.fileno() >= 0
    except (OSError, ValueError, AttributeError):
        return False


class _Interruptible(io.RawIOBase):
    """woken: gets a byte for each signal, its number."""

    def __init__(self, source: int, woken: socket.socket) -> None:
        self._source = source
        self._woken = woken
        self._poll = select.poll()
        for each in (source, woken.fileno()):
            self._poll.register(each, select.POLLIN)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._source

    def readinto(self, buffer: "WriteableBuffer") -> int:
        while True:
            ready = [file for file, _ in self._poll.poll()]
            if self._woken.fileno() in ready and signal.SIGINT in self._woken.recv(1024):
                raise KeyboardInterrupt
            if self._source in ready:
                return os.readv(self._source, [buffer])
