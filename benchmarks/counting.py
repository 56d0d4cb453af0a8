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
"""At the end of every target: its number."""
_MOST = 255


class CountingChannel:
    """Every target is sent at once. Settings: `folder`, where each process has a file of its own with a byte for each
    target; `targets`, one more than the highest number. What a process has counted stays if it is killed."""

    timeout_s = 5.0
    concurrency = 1
    batch_limit = 500

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.name = str(settings["name"])
        self._folder = Path(settings["folder"])
        self._targets = int(settings["targets"])
        self._counts: mmap.mmap | bytearray = bytearray()

    async def open(self) -> None:
        """Raises OSError."""
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
        """What was counted is in the file."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Targets: never sent though they should be; sent more than once; sent though they should not be."""

    missing: int
    doubled: int
    unexpected: int


def compare(folder: Path, expected: bytes) -> Counted:
    """What all processes together have sent. expected: by number, 1 for each target that should be, else 0."""
    sent = bytearray(len(expected))
    for file in folder.glob("*.counts"):
        sent = bytearray(min(one + other, _MOST) for one, other in zip(sent, file.read_bytes(), strict=True))
    found = Counter(zip(expected, sent, strict=True))
    return Counted(
        missing=sum(many for (wanted, got), many in found.items() if wanted and not got),
        doubled=sum(many for (_, got), many in found.items() if got > 1),
        unexpected=sum(many for (wanted, got), many in found.items() if got and not wanted),
    )
