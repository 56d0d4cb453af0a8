"""The outcome of every target, read from the outcome topic by other means than the fold's."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dispatcher.outcome import OUTCOME_NAMES, CloseTask, Outcomes, decode_record


@dataclass
class Read:
    """counts: targets of each task by outcome. closed: tasks whose open targets were given one outcome."""

    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    closed: dict[str, str] = field(default_factory=dict)


def read_outcomes(records: Iterable[bytes], accepted: Mapping[str, int]) -> Read:
    """Per target the first final outcome counts. accepted: targets published, by task."""
    found = Read()
    seen: defaultdict[str, _Seen] = defaultdict(_Seen)
    for body in records:
        record = decode_record(body)
        if isinstance(record, CloseTask) and record.task not in found.closed:
            found.closed[record.task] = OUTCOME_NAMES[record.code]
            left = accepted[record.task] - found.counts[record.task].total()
            found.counts[record.task][OUTCOME_NAMES[record.code]] += left
        elif isinstance(record, Outcomes) and record.task not in found.closed:
            counts, of_task = found.counts[record.task], seen[record.task]
            for run in record.runs:
                for sequence in range(run.first, run.first + run.count):
                    counts[OUTCOME_NAMES[run.code]] += of_task.whole(sequence, run.size)
            for mixed in record.mixed:
                positions = range(len(mixed.codes)) if mixed.positions is None else mixed.positions
                for position, code in zip(positions, mixed.codes, strict=True):
                    if code < len(OUTCOME_NAMES):
                        counts[OUTCOME_NAMES[code]] += of_task.one(mixed.sequence, position)
    return found


class _Seen:
    """Positions of a task that have an outcome, by sequence."""

    def __init__(self) -> None:
        self._positions: dict[int, set[int]] = {}
        self._whole: set[int] = set()

    def whole(self, sequence: int, size: int) -> int:
        """All of an envelope's; returns how many had none before."""
        if sequence in self._whole:
            return 0
        self._whole.add(sequence)
        return size - len(self._positions.get(sequence, ()))

    def one(self, sequence: int, position: int) -> int:
        if sequence in self._whole or position in self._positions.setdefault(sequence, set()):
            return 0
        self._positions[sequence].add(position)
        return 1
