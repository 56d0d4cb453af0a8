"""Read the lines of a file or pipe in bursts: those that are available, before waiting for more."""

import codecs
import io
import re
import select
from collections.abc import Iterator
from itertools import chain, islice
from typing import BinaryIO, Final, Protocol, runtime_checkable

from backends.files import BOM

_READ: Final = 1 << 16
_COUNTED: Final = 1 << 26
"""The number of bytes in which lines are counted."""
_BURST_BYTES: Final = 1 << 22
_LONG_BYTES: Final = 1 << 10
"""A burst has at most about _BURST_BYTES in reads whose lines are longer than this on average, because all lines of a
burst may be in memory."""
MAX_LINE_BYTES: Final = 1 << 20
LONG_LINE: Final = "\0" * (1 << 18)
"""Replaces a line that is longer than MAX_LINE_BYTES. No format accepts it: it is too long for a target and a field of
CSV, and is no JSON."""
_LONG: Final = LONG_LINE.encode()
_INVALID: Final = re.compile("[\udc80-\udcff]").search  # what surrogateescape makes of such bytes
_LINE_END: Final = re.compile(rb"[\r\n]")


class Poll(Protocol):
    """Input of which one can ask whether there is some."""

    def poll(self, timeout_ms: float, /) -> object:
        """Return something true if input can be read without waiting for longer."""


@runtime_checkable
class Feed(Poll, Protocol):
    """Input that another thread provides, and that can be read once."""

    def read1(self, size: int, /) -> bytes:
        """Wait for some bytes; none at the end."""


class Lines:
    """Lines with their line ends, decoded from UTF-8. Invalid bytes become unprintable characters, and a line of more
    than `max_bytes` becomes LONG_LINE, unless it came with its line end in one read.

    Iterate over it for all lines. `taken` is the number of lines handed out in lists so far.
    """

    def __init__(self, file: BinaryIO | Feed, watched: BinaryIO | Feed, max_bytes: int = MAX_LINE_BYTES) -> None:
        """watched: the system's file behind `file`, whose descriptor shows whether input is available."""
        self.taken = 0
        self._max_bytes = max_bytes
        self._bytes = 0
        """The number of bytes read so far."""
        self._file = file
        self._poll = _poll_of(watched)
        self._read: list[bytes] = []
        self._ready: list[str] = []
        self._begun = self._ended = self._is_long = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        """Decodes text that may end within a character."""

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(iter(self.take, []))

    def bursts(self) -> Iterator[Iterator[str]]:
        """Yield the lines that are available at once, and wait for the next after each burst."""
        while self.first():
            yield chain.from_iterable(self._present())

    def first(self) -> str:
        """Wait for a line. Return it without taking it; empty at the end."""
        while not self._ready and not self._ended:
            self._read_on()
        return self._ready[0] if self._ready else ""

    def beginning(self, number: int = 1) -> str:
        """Wait for the first (or second, …) line that is not blank. Return it, or the first part of a long one, without
        taking it.

        Return an empty text if there is none in the first 64 KiB.
        """
        while True:
            lines = list(islice(filter(str.strip, self._ready), number))
            if len(lines) == number:
                return lines[-1]
            if self._ended or sum(map(len, chain(self._ready, self._read))) >= _READ:
                part = b"".join(self._read).decode(errors="replace").removeprefix("\ufeff")
                return part if len(lines) == number - 1 else ""
            self._read_on()

    def not_utf_8(self) -> tuple[int, int]:
        """Return the number of lines read so far that are not UTF-8, and of all of these."""
        return sum(bool(_INVALID(line)) for line in self._ready), len(self._ready)

    def text(self) -> str:
        """Wait for text, and take the available text, whole lines or not; empty at the end.

        Lines cannot be read after this call.
        """
        text = "".join(self._ready) + self._decoder.decode(b"".join(self._read), self._ended)
        self._ready, self._read = [], []
        while not text and not self._ended:
            data = self._read1()
            self._ended = not data
            text = self._decoder.decode(data, self._ended)
        if text and not self._begun:
            self._begun, text = True, text.removeprefix("\ufeff")
        return text

    def text_present(self) -> bool:
        """Return whether text can be read without waiting."""
        return bool(self._ready or self._read) or self._poll is None or bool(self._poll.poll(0))

    def take(self) -> list[str]:
        """Wait for lines, and take the available ones; none at the end."""
        self.first()
        lines, self._ready = self._ready, []
        self.taken += len(lines)
        return lines

    def present(self) -> bool:
        """Return whether a line can be read without waiting."""
        while not self._ready and not self._ended and (self._poll is None or self._poll.poll(0)):
            self._read_on()
        return bool(self._ready)

    def _present(self) -> Iterator[list[str]]:
        long_bytes, bytes_before = 0, self._bytes
        while long_bytes < _BURST_BYTES and self.present():
            lines = self.take()
            size, bytes_before = self._bytes - bytes_before, self._bytes
            long_bytes += size if size > _LONG_BYTES * len(lines) else 0
            yield lines

    def _read1(self) -> bytes:
        data: bytes = self._file.read1(_READ)  # type: ignore[union-attr]  # all buffered readers have it
        self._bytes += len(data)
        return data

    def _read_on(self) -> None:
        """Read once from the system; keep the text behind the last line end."""
        data = self._read1()
        self._ended = not data
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1  # a last \r may be the first half of a line end
        if not data or end:
            lines_read = b"".join((*self._read, data[:end]))
            if self._is_long:
                self._is_long, lines_read = False, _LONG + _from_line_end(lines_read)
            self._read = []
            if lines_read and not self._begun:
                self._begun, lines_read = True, lines_read.removeprefix(BOM)
            self._ready += io.StringIO(lines_read.decode(errors="surrogateescape"), newline="").readlines()
        if data[end:]:
            self._read.append(data[end:])
            if sum(map(len, self._read)) > self._max_bytes:
                self._is_long, self._read = True, [data[-1:]]


def _from_line_end(data: bytes) -> bytes:
    """Return what begins with the first line end."""
    match = _LINE_END.search(data)
    return data[match.start() :] if match else b""


def count_lines(file: BinaryIO) -> int:
    """Count the lines of a file up to the last that is not blank: 40 ms for two million.

    Lines behind the first 64 MiB are estimated from those before.
    """
    file.seek(0)
    lines, read, last = 0, 0, b""
    while read < _COUNTED and (data := file.read(_READ)):
        lines, read, last = lines + _ends_of_lines(data), read + len(data), data
    text = last.rstrip()
    lines += bool(text) - _ends_of_lines(last[len(text) :])
    return lines * file.seek(0, io.SEEK_END) // max(1, read)


def _ends_of_lines(data: bytes) -> int:
    return data.count(b"\n") or data.count(b"\r")


def _poll_of(file: BinaryIO | Feed) -> Poll | None:
    """Return a poll for the file's descriptor; None if it has no descriptor and so never makes a reader wait."""
    if isinstance(file, Feed):
        return file
    try:
        descriptor = file.fileno()
    except (OSError, ValueError, AttributeError):
        return None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return poll
