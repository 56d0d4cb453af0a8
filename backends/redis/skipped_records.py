"""Positions of records that were skipped, kept so that a newer version can apply them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from backends.redis.view import RedisView

CONTROL = "control"
"""The control topic's name here; an outcome topic's is its number."""
MAX_REASON = 200


class SkippedRecord(NamedTuple):
    """A record of a topic that a version could not read: where it is, which version skipped it, and why."""

    position: str
    reader: str
    """The version that skipped it."""
    reason: str


class SkippedRecords:
    """The positions, in Redis. Every method raises Unreachable if Redis cannot be reached."""

    def __init__(self, view: RedisView, reader: str = "") -> None:
        """reader: this version, which does not look at a record twice."""
        self._view = view
        self.reader = reader

    def keep(self, topic: str, reasons: Mapping[str, str]) -> None:
        """Keep positions with their reasons. For a position already kept, only reader and reason change."""
        pairs = [(position, note_of(self.reader, reason)) for position, reason in reasons.items()]
        if pairs:
            self._view.call("keep_skipped", topic, *(word for pair in pairs for word in pair))

    def forget(self, topic: str, positions: Sequence[str]) -> None:
        """Forget positions whose records are applied or no longer in the topic."""
        if positions:
            self._view.command("HDEL", self._view.keys.passed(topic), *positions)

    def of_others(self, topic: str) -> list[str]:
        """Return positions that another version skipped, in topic order."""
        return sorted(each.position for each in self.kept(topic) if each.reader != self.reader)

    def kept(self, topic: str) -> list[SkippedRecord]:
        """Return all skipped records of a topic, in its order."""
        stored = self._view.command("HGETALL", self._view.keys.passed(topic))
        texts = {name.decode(): note.decode(errors="replace") for name, note in stored.items()}
        return sorted(SkippedRecord(position, *note.partition(" ")[::2]) for position, note in texts.items())

    def by_topic(self, partitions: int) -> dict[str, list[SkippedRecord]]:
        """Return the skipped records of every topic that has any."""
        records = {topic: self.kept(topic) for topic in topics(partitions)}
        return {topic: kept for topic, kept in records.items() if kept}


def topics(partitions: int) -> Iterable[str]:
    return [CONTROL, *map(str, range(partitions))]


def note_of(reader: str, reason: str) -> str:
    """Return the note in printable ASCII, since the reason may quote any bytes."""
    shown = reason[:MAX_REASON].encode("ascii", "backslashreplace").decode()
    return f"{reader} " + "".join(letter if letter.isprintable() else "?" for letter in shown)
