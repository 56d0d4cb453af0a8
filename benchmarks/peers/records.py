"""Reads the records that the handlers left."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from recording import RECORD_BYTES


@dataclass(frozen=True)
class Handled:
    """A message that was handled."""

    at_s: float
    """Wall-clock time."""
    task: str
    sequence: int
    targets: int


def count(folder: Path) -> int:
    """Return the number of records so far."""
    return sum(file.stat().st_size for file in folder.glob("*.records")) // RECORD_BYTES


def read(folder: Path) -> list[Handled]:
    """Return all complete records, by time."""
    parsed = [_parsed(line) for file in folder.glob("*.records") for line in _lines(file.read_bytes())]
    return sorted(parsed, key=lambda handled: handled.at_s)


def _lines(data: bytes) -> list[bytes]:
    return [data[at : at + RECORD_BYTES] for at in range(0, len(data) - RECORD_BYTES + 1, RECORD_BYTES)]


def _parsed(line: bytes) -> Handled:
    at_us, task, sequence, targets = line.split()
    return Handled(int(at_us) / 1e6, task.decode(), int(sequence), int(targets))


def repeated(handled: list[Handled]) -> int:
    """Return the number of messages handled more than once."""
    times = Counter((each.task, each.sequence) for each in handled)
    return sum(count - 1 for count in times.values())
