"""Standard input whose wait an interrupt (Ctrl-C) always ends.

Python raises KeyboardInterrupt wherever its main thread is. If that is in a destructor or another callback of the
interpreter, the exception is printed and lost. If it is just before the system's `read`, the read does not notice it
and waits for a line that may never come. So this module waits for input or for a signal's byte, which stays until it is
read.
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
    """Yield the bytes of standard input as they come. Bytes read ahead and not used are lost."""
    if not _may_watch():
        yield sys.stdin.buffer
        return
    woken, waker = socket.socketpair()
    with woken, waker:
        waker.settimeout(0)
        before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            yield io.BufferedReader(_Interruptible(sys.stdin.fileno(), woken))
        finally:
            signal.set_wakeup_fd(before)


def _may_watch() -> bool:
    """Return whether this process may watch signals, and the input is a file of the system."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    try:
        return sys.stdin.fileno() >= 0
    except (OSError, ValueError, AttributeError):
        return False


class _Interruptible(io.RawIOBase):
    """A raw input whose wait a signal ends. woken: receives one byte for each signal, its number."""

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
