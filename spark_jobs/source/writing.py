"""Write the rows of one Spark task attempt as envelopes to the lanes of their tasks.

Each attempt has a writer of its own, so its envelopes count only if the job's commit names that writer.
"""

import logging
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dispatcher.channels.submission.address import address_form
from dispatcher.clock import Clock
from dispatcher.model.errors import AudienceMismatch, InvalidInput, NotReady, TaskEnded
from dispatcher.model.task import PushTask
from dispatcher.wire.control import TaskRecord
from dispatcher.wire.submission import Submission
from producers.ports import LaneOpener, LaneWriter, Services
from producers.submit.acceptance import accept, check_admitted, check_same
from producers.submit.cutter import Block, WaitingTargets, bodies
from producers.submit.validation import Refusal
from spark_jobs.source.columns import Columns
from spark_jobs.source.rows import AudienceDigest, Rows, read_rows, split_batch
from spark_jobs.source.task_options import TaskOptions

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
_WRITER_LETTERS = 9
KEPT_REFUSALS = 5
"""The maximum number of refused rows that an attempt reports."""
OPEN_LANES = 4
"""The number of lanes that an attempt holds open at once; each may have up to `producer.memory_mib` in flight."""


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """The part of one task that an attempt wrote."""

    writer: str
    envelopes: int
    digest: AudienceDigest
    refused: int
    published: bool
    """False if the task was already sealed, so that the rows were only counted."""


@dataclass(frozen=True, slots=True)
class Written:
    """The report of an attempt to the commit."""

    base: str
    """The base id, as in WriteTarget."""
    parts: dict[str, WrittenPart]
    """The parts by task id."""
    rows: int = 0
    unassigned: int = 0
    """The number of refused rows that belong to no task."""
    refusals: tuple[Refusal, ...] = ()
    """The first refusals."""
    without_text: Mapping[str, int] = field(default_factory=dict)
    """By language, the targets for which the message has no text."""


class WriteTarget(NamedTuple):
    """The task, or the group of tasks, to write to."""

    options: TaskOptions
    columns: Columns
    base: str
    """The id of the task, or the prefix of the ids of all its parts."""
    first_stays: bool = False
    """Whether a task that is there already stays as it is, though its options or its audience are others.

    Otherwise the rows are refused.
    """


def write(services: Services, target: WriteTarget, batches: "Iterable[pa.RecordBatch]") -> Written:
    """Publish all rows, and return once they are stored.

    Raises InvalidInput for a bad row, unless the target says that bad rows are skipped and counted; TaskEnded if the
    task accepts no more targets; AudienceMismatch if the rows are not those of an earlier attempt; LimitReached if the
    app is at its limit; Unreachable.
    """
    with closing(_OpenLanes(services.lanes)) as lanes:
        attempt = _Attempt(services, target, lanes)
        for batch in batches:
            attempt.add(batch)
        return attempt.finish()


def ensure(services: Services, task: PushTask, *, first_stays: bool = False) -> Submission:
    """Return the task of this id, and create it if there is none. Its lane can be written to unless it is sealed.

    Any number of callers may do this at once: the first of several records in the control topic is the task. Raises
    AudienceMismatch (another task has the id; with first_stays it is only logged), TaskEnded (it ended unsealed),
    LimitReached, Unreachable.
    """
    assert task.id is not None
    known = services.known.submission(task.id) or _create(services, task, task.id)
    try:
        check_same(task, known.record)
    except AudienceMismatch as error:
        if not first_stays:
            raise
        _log.warning("%s It stays as it was.", error.cause)
    check_open(known)
    if not known.sealed:
        services.lanes.create(known.record.lane, known.record.partitions)
    return known


def check_open(known: Submission) -> None:
    """Raise TaskEnded if a task has ended before its seal."""
    if known.stopped and not known.sealed:
        task = known.record.task
        raise TaskEnded(f"Task {task} is {known.stopped}; it accepts no more targets.", "Write under another id.")


def _create(services: Services, task: PushTask, task_id: str) -> Submission:
    now_ms, rules = services.clock.wall_ms(), (services.topics, services.options, None, services.caller)
    record = accept(task, task_id, task.expected_targets, now_ms, *rules)
    check_admitted(record, services.registry.submissions.admit(record))
    services.registry.control.apply(services.control.append(record), record)
    winner = services.known.submission(task_id)
    if winner is None:
        raise NotReady(f"Task {task_id} is stored, but the registry does not show it.", "Run the job again.")
    return winner


class _Attempt:
    def __init__(self, services: Services, target: WriteTarget, lanes: "_OpenLanes") -> None:
        self._services = services
        self._target = target
        self._writer = secrets.token_urlsafe(_WRITER_LETTERS)[:_WRITER_LETTERS]
        self._lanes = lanes
        self._streams: dict[tuple[str | None, ...], _Stream | None] = {}
        self._rows = 0
        self._unassigned = 0
        self._refusals: list[Refusal] = []
        self._target_check = cache(target.options.target_check)

    def add(self, batch: "pa.RecordBatch") -> None:
        for values, some in split_batch(batch, self._target.columns.split):
            rows = self._read(values, some)
            self._take(rows.refusals)
            if values not in self._streams:
                self._streams[values] = self._open(values, some)
            self._rows += some.num_rows
            stream = self._streams[values]
            if stream is None:
                self._unassigned += some.num_rows
                continue
            self._lanes.send(stream.record, stream.add(rows))
            check = self._target_check(values)
            if check is not None:
                check.note_languages(rows.variables)

    def _read(self, values: tuple[str | None, ...], some: "pa.RecordBatch") -> Rows:
        form = address_form(self._target.options.channel_of(values))
        return read_rows(some, self._target.columns, self._rows, self._target_check(values), form)

    def finish(self) -> Written:
        streams = [stream for stream in self._streams.values() if stream is not None]
        for stream in streams:
            self._lanes.send(stream.record, stream.rest())
        self._lanes.flush()
        parts = {stream.record.task: stream.part() for stream in streams}
        checks = [check for check in map(self._target_check, self._streams) if check is not None]
        without_text = sum((check.without_text for check in checks), Counter[str]())
        return Written(self._target.base, parts, self._rows, self._unassigned, tuple(self._refusals), without_text)

    def _open(self, values: tuple[str | None, ...], rows: "pa.RecordBatch") -> "_Stream | None":
        """Open the stream of the task for these values; None if rows with these values belong to no task."""
        try:
            task = _task_of(self._target, values)
        except InvalidInput as error:
            self._take([Refusal(self._rows, error.cause, str(rows.column(self._target.columns.target)[0]))])
            return None
        known = ensure(self._services, task, first_stays=self._target.first_stays)
        return _Stream(record=known.record, writer=self._writer, published=not known.sealed, clock=self._services.clock)

    def _take(self, refusals: list[Refusal]) -> None:
        if refusals and not self._target.options.refuse:
            raise _refused(refusals[0])
        self._refusals += refusals[: KEPT_REFUSALS - len(self._refusals)]


def _task_of(target: WriteTarget, values: tuple[str | None, ...]) -> PushTask:
    texts = [value for value in values if value]
    if len(texts) < len(values):
        missing = target.columns.split[[bool(value) for value in values].index(False)]
        raise InvalidInput(f"the split column {missing} is empty")
    return target.options.push_task(target.base, texts)


def _refused(refusal: Refusal) -> InvalidInput:
    return InvalidInput(
        f"A row is invalid: {refusal.reason} (target {refusal.target!r}).",
        'Take such rows out first, or leave them out and count them: `.option("onInvalid", "refuse")`.',
    )


@dataclass(slots=True, kw_only=True)
class _Stream:
    """The rows of one task: full envelopes are sent, the remaining rows wait for more."""

    record: TaskRecord
    writer: str
    published: bool
    clock: Clock
    sequence: int = 0
    refused: int = 0
    digest: AudienceDigest = field(default_factory=AudienceDigest)
    waiting: WaitingTargets = field(default_factory=WaitingTargets)

    def add(self, rows: Rows) -> list[bytes]:
        """Add rows. Returns the envelopes that are now full."""
        self.digest = self.digest.plus(rows.digest)
        self.refused += len(rows.refusals)
        if not self.published:
            return []
        self.waiting.add(rows.addresses, rows.variables)
        return self._take(len(self.waiting.addresses) // self.record.chunk * self.record.chunk)

    def rest(self) -> list[bytes]:
        """Return the last envelope, which is not full."""
        return self._take(len(self.waiting.addresses))

    def part(self) -> WrittenPart:
        return WrittenPart(self.writer, self.sequence, self.digest, self.refused, self.published)

    def _take(self, count: int) -> list[bytes]:
        if not count:
            return []
        block = Block(self.sequence, 0, *self.waiting.take(count))
        made = bodies(self.record, block, self.clock.wall_ms(), self.writer)
        self.sequence += len(made)
        return made


class _OpenLanes:
    """The lanes written to most recently. The least recently used one is flushed and closed when another must open."""

    def __init__(self, lanes: LaneOpener) -> None:
        self._lanes = lanes
        self._open: dict[str, LaneWriter] = {}

    def send(self, record: TaskRecord, envelopes: list[bytes]) -> None:
        if not envelopes:
            return
        writer = self._open.pop(record.lane, None)
        if writer is None:
            if len(self._open) >= OPEN_LANES:
                oldest = next(iter(self._open))
                self._open[oldest].flush()
                self._open.pop(oldest).close()
            writer = self._lanes.open(record)
        self._open[record.lane] = writer
        writer.send_many(envelopes)

    def flush(self) -> None:
        """Wait until everything is stored."""
        for writer in self._open.values():
            writer.flush()

    def close(self) -> None:
        for writer in self._open.values():
            writer.close()
        self._open.clear()
