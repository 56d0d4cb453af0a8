"""The fold of outcome records in memory: the reference for the one in Redis."""

from collections.abc import Sequence

from dispatcher.memory import claims
from dispatcher.memory.view import MemoryTask, MemoryView, OpenEnvelope
from dispatcher.outcome import (
    RETRY,
    ClaimsEnded,
    CloseTask,
    EpochMark,
    Mixed,
    OutcomeRecord,
    Outcomes,
    Run,
    read_record,
)
from dispatcher.ports import FoldResult


class MemoryFold:
    """Implements dispatcher.ports.Fold over a MemoryView."""

    def __init__(self, view: MemoryView) -> None:
        self.view = view

    def cursor(self, partition: int) -> str | None:
        return self.view.cursors.get(partition)

    def apply(
        self,
        partition: int,
        expected: str | None,
        cursor: str,
        records: Sequence[bytes],
        positions: Sequence[str] | None = None,  # noqa: ARG002  # the port's
    ) -> FoldResult:
        """Fold records. Those passed over are not kept: no other version reads memory."""
        stands = self.view.cursors.get(partition)
        if stands != expected:
            return FoldResult(False, stands or "")
        touched: dict[str, None] = {}
        for body in records:
            record = read_record(body)
            if record is None:
                self.view.stats["malformed"] += 1
                continue
            self._apply(partition, record)
            if isinstance(record, Outcomes | CloseTask):
                touched[record.task] = None
        self.view.cursors[partition] = cursor
        finished = [task for task in touched if self.view.epoch.ready and self.view.tasks[task].complete]
        return FoldResult(True, cursor, finished)

    def _apply(self, partition: int, record: OutcomeRecord) -> None:
        match record:
            case Outcomes():
                self._outcomes(record)
            case CloseTask():
                self._close(record)
            case ClaimsEnded():
                for name in record.claims:
                    self._end_claim(name)
            case EpochMark():
                self.view.mark_read(str(partition), record.epoch)

    def _outcomes(self, record: Outcomes) -> None:
        task, name = self.view.task(record.task), claims.member(record.claim, record.task)
        counts = not (task.ended or task.closed)
        for run in record.runs:
            if counts:
                self._run(task, run)
            self._use(name, run.writer, run.attempt, run.first, run.count)
        for mixed in record.mixed:
            if counts:
                self._envelope(task, mixed)
            self._use(name, mixed.writer, mixed.attempt, mixed.sequence, 1)
        _note_time(task, record.at_ms)

    def _use(self, name: str, writer: str, attempt: int, first: int, count: int) -> None:
        """What is recorded is held by its claim no more."""
        for run in claims.cut(self.view, name, writer, attempt, first, count):
            claims.tally(self.view, "used", run, run.count)

    def _run(self, task: MemoryTask, run: Run) -> None:
        final, touched, codes = task.finals_of(run.writer), task.touched_of(run.writer), b""
        whole = run.size > 0 and run.code < len(task.counts)
        for sequence in range(run.first, run.first + run.count):
            if whole and sequence not in final and (run.writer, sequence) not in task.open:
                touched.add(sequence)
                final.add(sequence)
                task.counts[run.code] += run.size
                continue
            codes = codes or bytes([run.code]) * run.size
            self._envelope(task, Mixed(run.writer, run.attempt, sequence, run.size, None, codes))

    def _envelope(self, task: MemoryTask, mixed: Mixed) -> None:
        """Per target the first final outcome counts; later ones and "retry" change nothing."""
        key = (mixed.writer, mixed.sequence)
        final = task.finals_of(mixed.writer)
        if mixed.sequence in final:
            self.view.stats["repeats"] += 1
            return
        task.touched_of(mixed.writer).add(mixed.sequence)
        envelope = task.open.pop(key, None) or OpenEnvelope(-1, mixed.size, list(range(mixed.size)))
        if envelope.recorded >= mixed.attempt:
            self.view.stats["repeats"] += 1
        envelope.recorded = max(envelope.recorded, mixed.attempt)
        self._count(task, envelope, mixed)
        if envelope.claimed <= envelope.recorded:
            envelope.claimed, envelope.claim = -1, ""
        if envelope.positions:
            task.open[key] = envelope
        else:
            final.add(mixed.sequence)

    def _count(self, task: MemoryTask, envelope: OpenEnvelope, mixed: Mixed) -> None:
        positions = list(range(len(mixed.codes))) if mixed.positions is None else mixed.positions
        counts, codes = task.counts, mixed.codes
        if positions != envelope.positions:
            results = dict(zip(positions, codes, strict=False))
            codes = bytes([results.get(position, RETRY) for position in envelope.positions])
        left = set(codes)
        for code in [code for code in left if code < len(counts)]:
            counts[code] += codes.count(code)
            left.discard(code)
        pairs = zip(envelope.positions, codes, strict=True)
        envelope.positions = [position for position, code in pairs if code in left] if left else []

    def _close(self, record: CloseTask) -> None:
        task = self.view.task(record.task)
        if task.ended:
            return
        if not task.sealed:
            task.sealed, task.guessed, task.total = True, True, max(task.published, task.finals)
        task.counts[record.code] += max(task.total - task.finals, 0)
        task.closed = True
        _note_time(task, record.at_ms)

    def _end_claim(self, name: str) -> None:
        claim = self.view.claims.get(name)
        if claim is None:
            return
        task = self.view.task(claims.task_of(name))
        for run in claim.runs:
            claims.tally(self.view, "expired", run, run.count)
            self.view.stats["repeats_possible"] += claims.free(task, run, name.partition("|")[0])
        claims.close_claim(self.view, name)


def _note_time(task: MemoryTask, at_ms: int) -> None:
    """The time of the first record that had an outcome."""
    if task.first_outcome_ms == 0 and task.finals:
        task.first_outcome_ms = at_ms
