"""A channel that counts how often each target was sent, for audiences whose targets end with a number."""

import mmap
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, Report

DIGITS = 10
"""Number of digits at the end of every target."""
_MOST = 255


class CountingChannel:
    """Accepts every target at once, and counts it.

    Settings: `folder`, where each process has its own file with a byte for each target; `targets`, one more than the
    highest number. The counts of a process survive if it is killed.
    """

    timeout_s = 5.0
    concurrency = 1
    batch_limit = 500

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.name = str(settings["name"])
        self._folder = Path(settings["folder"])
        self._targets = int(settings["targets"])
        self._counts: mmap.mmap | bytearray = bytearray()

    async def open(self) -> None:
        """Open the file of counts. Raises OSError."""
        with (self._folder / f"{os.getpid()}.counts").open("w+b") as file:
            file.truncate(self._targets)
            self._counts = mmap.mmap(file.fileno(), self._targets)

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:  # noqa: ARG002  # the port
        counts = self._counts
        for envelope in envelopes:
            for target in envelope.targets:
                number = int(target[-DIGITS:])
                counts[number] = min(counts[number] + 1, _MOST)
        return [ALL_SENT] * len(envelopes)

    async def close(self) -> None:
        """Do nothing: the counts are in the file."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Numbers of targets that were sent too rarely or too often."""

    missing: int
    """Never sent, although expected."""
    doubled: int
    """Sent more than once."""
    unexpected: int
    """Sent, although not expected."""


def compare(folder: Path, expected: bytes) -> Counted:
    """Compare what all processes together have sent with what is expected.

    `expected`: by number, 1 for each target that is to be sent, else 0.
    """
    sent = bytearray(len(expected))
    for file in folder.glob("*.counts"):
        sent = bytearray(min(each + other, _MOST) for each, other in zip(sent, file.read_bytes(), strict=True))
    pairs = Counter(zip(expected, sent, strict=True))
    return Counted(
        missing=sum(many for (is_expected, count), many in pairs.items() if is_expected and not count),
        doubled=sum(many for (_, count), many in pairs.items() if count > 1),
        unexpected=sum(many for (is_expected, count), many in pairs.items() if count and not is_expected),
    )
