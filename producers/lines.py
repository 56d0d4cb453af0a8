"""Read the lines of a file or pipe in bursts: those that are there, before more are waited for."""

import io
import select
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, Final

_READ: Final = 1 << 16
_BOM: Final = b"\xef\xbb\xbf"


class Lines:
    """Lines with their ends, decoded from UTF-8. Bytes that are no UTF-8 become characters that cannot be printed.

    Iterate over it for all lines. `taken` is the number of lines handed out in lists so far.
    """

    def __init__(self, file: BinaryIO, watched: BinaryIO) -> None:
        """watched: what the system reads for `file`; its descriptor tells whether something is there."""
        self.taken = 0
        self._file = file
        self._poll = _poll_of(watched)
        self._read: list[bytes] = []
        self._ready: list[str] = []
        self._begun = self._ended = False

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(iter(self.take, []))

    def bursts(self) -> Iterator[Iterator[str]]:
        """Yield the lines that are there at once, and after each burst wait for the next."""
        while self.first():
            yield chain.from_iterable(self._present())

    def first(self) -> str:
        """Wait for a line. Return it without taking it; empty at the end."""
        while not self._ready and not self._ended:
            self._read_on()
        return self._ready[0] if self._ready else ""

    def take(self) -> list[str]:
        """Wait for lines, and take those that are there; none at the end."""
        self.first()
        lines, self._ready = self._ready, []
        self.taken += len(lines)
        return lines

    def present(self) -> bool:
        """Return whether a line can be had without waiting."""
        while not self._ready and not self._ended and (self._poll is None or self._poll.poll(0)):
            self._read_on()
        return bool(self._ready)

    def _present(self) -> Iterator[list[str]]:
        while self.present():
            yield self.take()

    def _read_on(self) -> None:
        """One read of the system's; keeps what is behind the last end of a line."""
        data = self._file.read1(_READ)  # type: ignore[attr-defined]  # as all buffered readers have
        self._ended = not data
        end = data.rfind(b"\n") + 1 if data else len(data)
        if not data or end:
            whole = b"".join((*self._read, data[:end]))
            self._read = []
            if whole and not self._begun:
                self._begun, whole = True, whole.removeprefix(_BOM)
            self._ready = io.StringIO(whole.decode(errors="surrogateescape"), newline="").readlines()
        if data[end:]:
            self._read.append(data[end:])


def _poll_of(file: BinaryIO) -> "select.poll | None":
    """None: it has no descriptor, and never makes one wait."""
    try:
        descriptor = file.fileno()
    except (OSError, ValueError, AttributeError):
        return None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return poll
