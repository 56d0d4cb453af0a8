"""Read the outcome of every target from the outcome topic by the journal's rule, independently of the fold."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from dispatcher.wire.outcome import OUTCOME_NAMES, CloseTask, Outcomes, Run, decode_record
from spark_jobs.journal.first_outcomes import FirstOutcomes


def read_outcomes(records: Iterable[bytes], accepted: Mapping[str, int]) -> Mapping[str, Counter[str]]:
    """Count each task's targets by their first final outcome. `accepted` holds the targets published, by task."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    first = FirstOutcomes()
    for body in records:
        record = decode_record(body)
        if isinstance(record, CloseTask) and first.close(record):
            of_task = counts[record.task]
            of_task[OUTCOME_NAMES[record.code]] += accepted[record.task] - of_task.total()
        elif isinstance(record, Outcomes):
            for piece in first.of(record):
                codes = {piece.code: piece.count * piece.size} if isinstance(piece, Run) else Counter(piece.codes)
                counts[record.task].update({OUTCOME_NAMES[code]: count for code, count in codes.items()})
    return counts
