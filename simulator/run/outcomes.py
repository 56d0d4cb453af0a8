"""Read the outcome of every target from the outcome topic, independently of the fold."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dispatcher.wire.outcome import OUTCOME_NAMES, CloseTask, Mixed, Outcomes, Run, decode_record

FINAL_CODES = len(OUTCOME_NAMES)


@dataclass
class ReadOutcomes:
    """The outcomes read from the topic."""

    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Targets by outcome, by task."""
    closed: dict[str, str] = field(default_factory=dict)
    """The outcome given to the open targets of a closed task, by task."""


def read_outcomes(records: Iterable[bytes], accepted: Mapping[str, int]) -> ReadOutcomes:
    """Count the first final outcome of each target. `accepted` holds the targets published, by task."""
    result = ReadOutcomes()
    seen: defaultdict[str, _Seen] = defaultdict(_Seen)
    for body in records:
        record = decode_record(body)
        if isinstance(record, CloseTask) and record.task not in result.closed:
            result.closed[record.task] = OUTCOME_NAMES[record.code]
            open_targets = accepted[record.task] - result.counts[record.task].total()
            result.counts[record.task][OUTCOME_NAMES[record.code]] += open_targets
        elif isinstance(record, Outcomes) and record.task not in result.closed:
            counts, of_task = result.counts[record.task], seen[record.task]
            for run in record.runs:
                counts[OUTCOME_NAMES[run.code]] += of_task.add_run(run)
            for mixed in record.mixed:
                new = of_task.new_codes(mixed)
                for code in set(new):
                    counts[OUTCOME_NAMES[code]] += new.count(code)
    return result


class _Seen:
    """The positions of a task that have an outcome, by sequence."""

    def __init__(self) -> None:
        self._positions: dict[int, set[int]] = {}
        self._complete: set[int] = set()

    def add_run(self, run: Run) -> int:
        """Mark all positions of a run of envelopes. Return the number that had no outcome before."""
        new = [one for one in range(run.first, run.first + run.count) if one not in self._complete]
        self._complete.update(new)
        before = [len(self._positions[one]) for one in new if one in self._positions]
        return run.size * len(new) - sum(before)

    def new_codes(self, mixed: Mixed) -> list[int]:
        """Return the final outcomes of an envelope's positions that had none before."""
        if mixed.sequence in self._complete:
            return []
        seen, codes = self._positions.setdefault(mixed.sequence, set()), mixed.codes
        positions = range(len(codes)) if mixed.positions is None else mixed.positions
        new: list[int] = []
        for position, code in zip(positions, codes, strict=True):
            if code < FINAL_CODES and position not in seen:
                seen.add(position)
                new.append(code)
        return new
