"""Logs in memory: outcome and control topics and dead letters, with receipts that may be lost."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from dispatcher.model.errors import Unreachable
from dispatcher.ports import DeadLetter, Done
from dispatcher.wire.control import ControlRecord, encode_control
from dispatcher.wire.outcome import OutcomeRecord, encode_record
from dispatcher.wire.topics import Topics


def position(index: int) -> str:
    """Return a position; positions sort as text."""
    return f"{index:020d}"


class Receipts:
    """Injects faults: decides whether the next things published to a log are stored, and whether their receipts
    arrive."""

    def __init__(self) -> None:
        self.lose = 0
        """Number of next things that are stored while their receipts are lost."""
        self.fail = 0
        """Number of next things that are not stored."""

    def store(self, store: Callable[[], object], done: Done, *, away: bool = False) -> None:
        """Store the next thing, unless its topic is away or this one fails, and call `done`."""
        if away or self.fail:
            self.fail -= not away
            done(Unreachable("The broker did not take it."))
            return
        store()
        error = Unreachable("The receipt was lost.") if self.lose else None
        self.lose = max(0, self.lose - 1)
        done(error)


class MemoryOutcomeLog:
    """Implements dispatcher.ports.OutcomeLog."""

    def __init__(self, topics: Topics) -> None:
        self.partitions: defaultdict[int, list[bytes]] = defaultdict(list)
        """The encoded records by number of their outcome topic."""
        self.away: set[int] = set()
        """Outcome topics that store nothing that workers publish."""
        self.receipts = Receipts()
        self._topics = topics

    def publish(self, task: str, record: OutcomeRecord, done: Done) -> None:
        partition = self._topics.partition_of(task)
        self.receipts.store(lambda: self.append(partition, record), done, away=partition in self.away)

    def append(self, partition: int, record: OutcomeRecord) -> None:
        """Append to the end of one outcome topic."""
        self.partitions[partition].append(encode_record(record))

    def read(self, partition: int, after: str | None) -> list[tuple[str, bytes]]:
        """Return the (position, record) pairs of an outcome topic after a position; None: from the topic's
        beginning."""
        start = 0 if after is None else int(after) + 1
        records = self.partitions[partition]
        return [(position(index), records[index]) for index in range(start, len(records))]


class MemoryDeadLetters:
    """Implements dispatcher.ports.DeadLetters."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.receipts = Receipts()

    def publish(self, letter: DeadLetter, done: Done) -> None:
        self.receipts.store(lambda: self.letters.append(letter), done)


class MemoryControlLog:
    """Implements dispatcher.ports.ControlLog."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def append(self, record: ControlRecord) -> str:
        self.records.append(encode_control(record))
        return position(len(self.records) - 1)

    def append_many(self, records: Sequence[ControlRecord]) -> list[str]:
        return [self.append(record) for record in records]
