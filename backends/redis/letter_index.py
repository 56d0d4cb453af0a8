"""Index of the blocks of the dead-letter topic that hold a task's letters, so that readers can skip the others.

The index is kept in Redis by blocks of entries. It may have gaps: a worker that dies has not stored its last second,
and an emptied Redis has no index. So readers compare the letters they find with the counts of the task's view, and read
the whole topic if any are missing.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from backends.redis.view import LETTER_COUNTERS, SET_APART, WITHOUT_TASK, ViewPart
from dispatcher.ports import DeadLetter

BLOCK_ENTRIES = 64
"""Number of topic entries per block. An entry holds one worker's letters of one millisecond."""


class LetterSpan(NamedTuple):
    """A part of the topic."""

    after: str
    """The position before its first record."""
    before: str
    """The position of its end."""


class LetterIndex(ViewPart):
    """The index in Redis. Every method raises Unreachable if Redis cannot be reached."""

    def add(self, blocks: Mapping[str, Iterable[str]]) -> None:
        """Store the blocks in which tasks have letters."""
        pairs = [text for task, names in blocks.items() for name in names for text in (task, name)]
        if pairs:
            self._view.call("note_letters", *pairs)

    def set_counts(self, counts: Mapping[str, int], scope: str = LETTER_COUNTERS) -> None:
        """Store the counters of letters that `doctor` names, in the place of the present ones. `scope`: the counter, or
        the beginning of those, to replace.

        A worker that counts one at the same moment may be overwritten: its letter is then listed, and not counted.
        """
        stats = self._view.keys.stats
        fields: list[bytes] = self._view.command("HKEYS", stats)
        is_one = not scope.endswith((":", "_"))
        names = [field.decode() for field in fields]
        counted = {name for name in names if name == scope or (name.startswith(scope) and not is_one)}
        for name, count in counts.items():
            self._view.command("HSET", stats, name, count)
        if gone := counted - set(counts):
            self._view.command("HDEL", stats, *gone)

    def spans(self, task: str) -> list[LetterSpan]:
        """Return the parts of the topic that hold the task's letters, in the topic's order."""
        stored = self._view.command("SMEMBERS", self._view.keys.letters(task))
        spans: list[LetterSpan] = []
        for ledger, number in sorted(_numbers(name.decode()) for name in stored):
            span = LetterSpan(_entry(ledger, number * BLOCK_ENTRIES - 1), _entry(ledger, (number + 1) * BLOCK_ENTRIES))
            if spans and spans[-1].before == _entry(ledger, number * BLOCK_ENTRIES):
                span = LetterSpan(spans.pop().after, span.before)
            spans.append(span)
        return spans


def counter_of(letter: DeadLetter) -> str:
    """Return the view's counter of a letter that `doctor` names; "" for others."""
    if letter.is_set_apart:
        return SET_APART + letter.task
    return "" if letter.task else WITHOUT_TASK + letter.lane


def block_of(position: str) -> str:
    """Return the name of the block in which a record is stored."""
    ledger, entry, _ = position.split(":")
    return f"{int(ledger)}:{int(entry) // BLOCK_ENTRIES}"


def _numbers(name: str) -> tuple[int, int]:
    ledger, _, number = name.partition(":")
    return int(ledger), int(number)


def _entry(ledger: int, entry: int) -> str:
    """Return a position in the format of backends/pulsar/client.py; entry -1 is before the ledger's first entry."""
    return f"{ledger:020d}:{entry:020d}:{0:06d}"
