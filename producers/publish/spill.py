"""A bounded file for messages that no partition takes: first in, first out."""

import os
from array import array
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

from dispatcher.model.errors import Refused


class _Place(NamedTuple):
    first: int
    offset: int
    lengths: "array[int]"


class Spill:
    """A queue of pieces of messages in a file used as a ring.

    The file has no name and disappears with the process: it is no second source of truth. A submission that died
    continues from its checkpoint, and spilled messages were not confirmed. One thread may put while another takes.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        """limit_bytes: the maximum size of the file. Raises Refused if the folder cannot be written to."""
        self._limit = limit_bytes
        self._places: deque[_Place] = deque()
        self._tail = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  # open as long as the spill exists
        except OSError as error:
            raise Refused(
                f"The spill folder {folder} cannot be written to: {error.strerror}.",
                "Set `producer.spill_folder` to another one, or `producer.when_full` to wait.",
            ) from error

    def put(self, first: int, bodies: Sequence[bytes]) -> bool:
        """Append a piece; return False if there is no room for it.

        first: the number of the piece's first message. Raises Refused if the disk is full.
        """
        lengths = array("L", map(len, bodies))
        offset = self._room_for(sum(lengths))
        if offset is None:
            return False
        try:
            _write(self._file.fileno(), b"".join(bodies), offset)
        except OSError as error:
            raise Refused(f"The spill file cannot be written: {error.strerror}.", "Free some disk space.") from error
        self._tail = offset + sum(lengths)
        self._places.append(_Place(first, offset, lengths))
        return True

    def take(self) -> tuple[int, list[bytes]]:
        """Return the number of the oldest piece's first message, and its messages. The piece stays until `drop`."""
        first, offset, lengths = self._places[0]
        text = os.pread(self._file.fileno(), sum(lengths), offset)
        return first, [text[start:end] for start, end in pairwise([0, *accumulate(lengths)])]

    def drop(self) -> None:
        """Remove the oldest piece."""
        self._places.popleft()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def messages(self) -> int:
        return sum(len(piece.lengths) for piece in list(self._places))

    @property
    def size_on_disk(self) -> int:
        """Return the size of the file in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        self._file.close()

    def _room_for(self, size: int) -> int | None:
        """Return the offset for a piece of this size: behind the last one, or again at the beginning."""
        try:
            head, tail = self._places[0].offset, self._tail
        except IndexError:
            return 0 if size <= self._limit else None
        if tail > head:
            if tail + size <= self._limit:
                return tail
            return 0 if size <= head else None
        return tail if tail + size <= head else None


def _write(file: int, text: bytes, offset: int) -> None:
    done = 0
    while done < len(text):
        done += os.pwrite(file, text[done:] if done else text, offset + done)
