"""The way of a task from the caller into its lane: record, register, create the lane, publish, checkpoint, seal."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice

from dispatcher.control import FORMAT, MAIN_WRITER, Sealed, TaskRecord
from dispatcher.errors import AudienceMismatch, FairlaneError, TaskEnded, Unreachable
from dispatcher.task import PushTask
from producers.acceptance import accept, check_admitted, check_same
from producers.checkpoints import Checkpointer
from producers.cutter import Block, Cutter, SlabSource, bodies, cut
from producers.ports import LaneWriter, Services, Submission
from producers.validation import Refusal

KEPT_REFUSALS = 100
"""Refused targets that a SubmitResult names; the count is of all."""
_PROGRESS_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class SubmitProgress:
    """accepted, refused: targets so far, those of an earlier submission of this task included."""

    task: str
    accepted: int
    refused: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """What became of a submission.

    accepted, refused: targets. refusals: the first 100. envelopes: of the whole task. resumed_from: the envelope this
    call began to send at (0: the first; equal to `envelopes`: nothing was left to send). stopped: empty, or why the
    rest of the audience was not taken (cancelled, ...).
    """

    task: str
    accepted: int
    refused: int
    refusals: tuple[Refusal, ...]
    envelopes: int
    resumed_from: int
    stopped: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Watchers:
    """The caller's callbacks; they run in the submitting thread."""

    on_progress: Callable[[SubmitProgress], None] | None = None
    on_refused: Callable[[Refusal], None] | None = None


@dataclass(slots=True)
class _Refusals:
    on_refused: Callable[[Refusal], None] | None
    count: int = 0
    first: list[Refusal] = field(default_factory=list)

    def take(self, refusals: list[Refusal]) -> None:
        self.count += len(refusals)
        self.first += refusals[: KEPT_REFUSALS - len(self.first)]
        if self.on_refused is not None:
            for refusal in refusals:
                self.on_refused(refusal)


def submit(
    services: Services, task: PushTask, targets: Iterable[object] | SlabSource, watchers: Watchers
) -> SubmitResult:
    """Submits a task, or goes on with it. Blocks until the audience is stored and sealed.

    Raises InvalidInput, AudienceMismatch (the id is taken by another task or audience), LimitReached (its app may have
    no more; nothing was created), TaskEnded (it ended before its audience was complete), NotReady, Unreachable (submit
    the same again to go on); what the audience raises goes through.
    """
    known = services.registry.submission(task.id) if task.id is not None else None
    if known is None:
        size, now_ms = _size(task, targets), services.clock.wall_ms()
        record = accept(task, task.id or services.new_id(), size, now_ms, services.topics, services.options)
        check_admitted(record, services.registry.admit(record))
    else:
        check_same(task, known.record)
        record = known.record
    run = _Run(services, record, known, watchers)
    if known is not None and known.sealed:
        return run.verify(targets, known)
    if known is not None and known.stopped:
        raise TaskEnded(f"Task {record.task} is {known.stopped}; it takes no more targets.", "Submit under another id.")
    with _resumable(record.task):
        return run.publish(targets)


def _size(task: PushTask, targets: Iterable[object] | SlabSource) -> int | None:
    if task.expected_targets is not None:
        return task.expected_targets
    return len(targets) if isinstance(targets, Sized) else None


class _resumable:  # noqa: N801  # reads as a verb phrase: with _resumable(...)
    """Tells the caller how to go on after whatever interrupts a submission."""

    def __init__(self, task: str) -> None:
        self._hint = f"Submit the same task with id={task!r} again to go on from its last checkpoint."

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Unreachable):
            raise Unreachable(error.cause, self._hint) from error
        if error is not None and not isinstance(error, FairlaneError):
            error.add_note(self._hint)


class _Run:
    """One submission under way."""

    def __init__(self, services: Services, record: TaskRecord, known: Submission | None, watchers: Watchers) -> None:
        self._services = services
        self._record = record
        self._known = known
        self._base = known.sequences if known is not None and not known.sealed else 0
        self._cutter = Cutter(record.chunk, self._base or None)
        self._refusals = _Refusals(watchers.on_refused)
        self._on_progress = watchers.on_progress
        self._began_s = services.clock.monotonic_s()
        self._shown_s = self._began_s

    def verify(self, targets: Iterable[object] | SlabSource, known: Submission) -> SubmitResult:
        """Of a sealed task: that the audience is the same. Sends nothing."""
        for _ in cut(targets, self._cutter, self._refusals.take):
            self._progress()
        if (self._cutter.digest(), self._cutter.targets) != (known.digest, known.published):
            raise _other_audience(self._record.task, f"its {known.published:,} targets")
        return self._result("", self._cutter.sequence)

    def publish(self, targets: Iterable[object] | SlabSource) -> SubmitResult:
        """A file that cannot be read fails before anything is stored; an audience that comes by and by
        is begun once its task is known."""
        blocks = cut(targets, self._cutter, self._refusals.take)
        begun = list(islice(blocks, 1)) if isinstance(targets, SlabSource | Sequence) else []
        with ThreadPoolExecutor(2, thread_name_prefix="lane") as pool:
            told = self._register(pool)
            if not begun:
                told.result()
                begun += islice(blocks, 1)
            writer = self._open(begun, told)
        checkpoints = Checkpointer(self._services, writer, self._record.task, self._base)
        try:
            stopped = self._stream(chain(begun, blocks), writer, checkpoints)
            if not stopped:
                writer.flush()
        except FairlaneError:
            stopped = self._stopped_meanwhile()
            if not stopped:
                raise
        finally:
            checkpoints.finish()
            writer.close()
        if not stopped:
            self._seal()
        return self._result(stopped, self._base)

    def _bodies(self, block: Block) -> list[bytes]:
        return bodies(self._record, block, self._services.clock.wall_ms())

    def _stream(self, blocks: Iterator[Block], writer: LaneWriter, checkpoints: Checkpointer) -> str:
        """Sends what was not sent before. Returns why it stopped early, if it did."""
        cutter = self._cutter
        for block in blocks:
            if block.first >= self._base:
                writer.send_many(self._bodies(block))
                if checkpoints.due(cutter.sequence):
                    checkpoints.store(cutter.sequence, cutter.targets, self._refusals.count, cutter.digest())
                if checkpoints.stopped:
                    return checkpoints.stopped
            elif cutter.sequence == self._base:
                self._check_digest()
            self._progress()
        if cutter.sequence < self._base:
            self._check_digest()
        return ""

    def _register(self, pool: Executor) -> Future[None]:
        """Stores the record while the lane is created (each takes a disk write of Pulsar's); the registry is told
        meanwhile."""
        record, services = self._record, self._services
        created = None if record.shared else pool.submit(services.lanes.create, record.lane, record.partitions)
        position = services.control.append(record) if self._known is None else ""
        if created is not None:
            created.result()
        return pool.submit(self._announce, position)

    def _open(self, begun: Sequence[Block], told: Future[None]) -> LaneWriter:
        """begun: the first block, if there is one. told: whether the registry is."""
        writer = self._services.lanes.open(self._record, [body for block in begun for body in self._bodies(block)])
        try:
            told.result()
        except FairlaneError:
            writer.close()
            raise
        return writer

    def _announce(self, position: str) -> None:
        """position: of the record in the control topic; empty if it was stored before."""
        if not position:
            return
        try:
            self._services.registry.apply(position, self._record)
            winner = self._services.registry.submission(self._record.task)
        except Unreachable as error:
            raise Unreachable(
                f"Task {self._record.task} is stored, but the registry is not told yet: {error.cause}"
            ) from error
        first = self._record if winner is None else winner.record
        if (first.digest, first.partitions) != (self._record.digest, self._record.partitions):
            raise AudienceMismatch(
                f"Task {self._record.task} was submitted with something else at the same moment.", "Choose another id."
            )

    def _check_digest(self) -> None:
        assert self._known is not None
        if self._cutter.digest() != self._known.digest:
            raise _other_audience(self._record.task, f"the first {self._known.published:,} targets already sent")

    def _stopped_meanwhile(self) -> str:
        """A lane of an ended task is deleted under the writer's feet: then the task has stopped, not Pulsar."""
        try:
            found = self._services.registry.submission(self._record.task)
        except Unreachable:
            return ""
        return found.stopped if found is not None else ""

    def _seal(self) -> None:
        task, cutter = self._record.task, self._cutter
        seal = Sealed(FORMAT, task, cutter.targets, self._refusals.count, cutter.digest(), [MAIN_WRITER])
        position = self._services.control.append(seal)
        try:
            self._services.registry.apply(position, seal)
        except Unreachable as error:
            cause = f"Task {task} is complete and stored; the registry learns of it by itself later: {error.cause}"
            raise Unreachable(cause) from error

    def _progress(self) -> None:
        now_s = self._services.clock.monotonic_s()
        if self._on_progress is not None and now_s - self._shown_s >= _PROGRESS_EVERY_S:
            self._shown_s = now_s
            self._on_progress(self._progress_now(now_s))

    def _progress_now(self, now_s: float) -> SubmitProgress:
        return SubmitProgress(self._record.task, self._cutter.targets, self._refusals.count, now_s - self._began_s)

    def _result(self, stopped: str, resumed_from: int) -> SubmitResult:
        now = self._progress_now(self._services.clock.monotonic_s())
        if self._on_progress is not None:
            self._on_progress(now)
        return SubmitResult(
            task=now.task,
            accepted=now.accepted,
            refused=now.refused,
            refusals=tuple(self._refusals.first),
            envelopes=self._cutter.sequence,
            resumed_from=resumed_from,
            stopped=stopped,
            seconds=now.seconds,
        )


def _other_audience(task: str, what: str) -> AudienceMismatch:
    return AudienceMismatch(
        f"Task {task} was submitted before with another audience: {what} differ.",
        "Submit the same audience in the same order to go on with it, or choose another id.",
    )
