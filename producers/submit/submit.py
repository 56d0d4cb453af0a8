"""Submit a task: take the lease, store the record, create the lane, announce, publish, seal."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, islice

from msgspec import structs

from dispatcher.channels.submission.address import address_form
from dispatcher.channels.submission.target_check import TargetCheck
from dispatcher.model.errors import FairlaneError, InvalidInput, NotReady, TaskEnded, Unreachable
from dispatcher.model.task import PushTask
from dispatcher.model.view import Admission, SubmitLease
from dispatcher.wire.control import FORMAT, MAIN_WRITER, Sealed, TaskRecord
from dispatcher.wire.submission import Submission
from producers.ports import Services
from producers.submit.acceptance import accept, check_admitted, check_same
from producers.submit.cutter import Block, Cutter, SlabSource, bodies
from producers.submit.intake import AudienceRules, Intake, check_audience
from producers.submit.lease import Lease, taken_over
from producers.submit.publication import Helper, Publication
from producers.submit.report import SubmitReport, SubmitResult, Watchers
from producers.submit.validation import Accepted
from producers.submit.windows import Window, WindowCutter, other_audience


def submit(
    services: Services,
    task: PushTask,
    targets: Iterable[object] | SlabSource,
    watchers: Watchers,
    rules: AudienceRules = AudienceRules(),
) -> SubmitResult:
    """Submit a task, or continue its submission. Blocks until the audience is stored and sealed.

    Raises InvalidInput (also for an empty audience, unless the rules allow it), AudienceMismatch (the id belongs to
    another task or audience), BeingSubmitted (by another process, now), LimitReached (its app may have no more; nothing
    was created), TaskEnded (it ended before its audience was complete), NotReady, Unreachable (submit the same again to
    continue). Exceptions of the audience pass through.
    """
    check_audience(targets)
    return _Run(services, task, targets, watchers, rules).run()


def audience_size(task: PushTask, targets: Iterable[object] | SlabSource) -> int | None:
    """Return the expected number of targets; None: unknown."""
    if task.expected_targets is not None:
        return task.expected_targets
    if isinstance(targets, Sized):
        return len(targets)
    estimate: Callable[[], int | None] | None = getattr(targets, "estimate", None)
    return None if estimate is None else estimate()


def target_check(task: PushTask, targets: object) -> TargetCheck | None:
    """Return the check of the task's channel. Raises InvalidInput for an audience that lacks a column for it."""
    check = TargetCheck.of(task.channel, task.complete_message)
    columns: Sequence[str] | None = getattr(targets, "columns", None)
    if check is not None and columns is not None:
        check.check_columns(columns)
    return check


@contextmanager
def _resumable(task: str) -> Iterator[None]:
    """Add to any error that interrupts a submission how the caller can continue."""
    hint = f"Submit the same task with id={task!r} again to go on from its last checkpoint."
    try:
        yield
    except BaseException as error:
        if isinstance(error, Unreachable | NotReady):
            kind = Unreachable if isinstance(error, Unreachable) else NotReady
            raise kind(error.cause, hint) from error
        if type(error) is InvalidInput:  # from the audience, which is checked while it is read
            rest = f"Task {task} is incomplete: submit it again once the audience is right, or cancel it."
            raise InvalidInput(error.cause, f"{error.next_step} {rest}".strip()) from error
        if not isinstance(error, FairlaneError):
            error.add_note(hint)
        raise


@contextmanager
def _stored(task: str) -> Iterator[None]:
    """Add to an Unreachable that the task's record was stored before Redis went away."""
    try:
        yield
    except Unreachable as error:
        raise Unreachable(f"Task {task} is stored in Pulsar, but not yet in Redis: {error.cause}") from error


@contextmanager
def _one_thread() -> Iterator[Executor]:
    """Yield a thread whose work must be done at the end of the block.

    Waiting for the thread itself takes 0.15 ms, so it is waited for only after an error, with the work still in
    progress.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="lane")
    try:
        yield pool
    except BaseException:
        pool.shutdown()
        raise
    pool.shutdown(wait=False)


class _Run:
    def __init__(
        self,
        services: Services,
        task: PushTask,
        targets: Iterable[object] | SlabSource,
        watchers: Watchers,
        rules: AudienceRules,
    ) -> None:
        self._services = services
        self._task = task
        self._targets = targets
        self._id = task.id or f"{services.caller.own_ids}{services.new_id()}"
        self._lease = Lease(services, self._id)
        self._report = SubmitReport(self._id, watchers, services.clock)
        self._allow_empty, self._first = rules.allow_empty, rules.first
        self._check = check = target_check(task, targets)
        self._known = services.known.submission(self._id) if task.id is not None else None
        form, clock_s = address_form(task.channel), services.clock.monotonic_s
        self._intake = Intake(targets, self._report.refuse, clock_s, rules.duplicates, check, form)
        self._sealed = False

    def run(self) -> SubmitResult:
        known = self._known
        try:
            result = self._begin() if known is None else self._go_on(known)
            return replace(result, duplicates=self._intake.duplicates, without_text=self._intake.without_text)
        finally:
            self._lease.close(done=self._sealed)

    # ------------------------------------------------------------ a new task
    def _begin(self) -> SubmitResult:
        """Submit a new task. The audience is begun first: an empty or unreadable one leaves nothing behind.

        The first window of a list or file goes into the record; of a gradual audience one target is taken.
        """
        size = audience_size(self._task, self._targets)
        record = self._accepted(size)
        accepted = self._intake.accepted(record.chunk)
        with closing(accepted):
            begun = list(islice(accepted, 1))
            if not begun and not self._allow_empty:
                raise self._report.nothing_accepted()
            if begun and self._check is not None:
                self._check.check_samples(begun[0].addresses, begun[0].variables)
            if not isinstance(self._targets, Sequence):
                record = self._accepted(size)  # the first target may have come late
            windows, first, rest = self._windows(Submission(record=record)), None, chain(begun, accepted)
            if isinstance(self._targets, Sequence | SlabSource):  # Sequence first: checking a protocol takes 0.1 ms
                first = self._first_window(windows, accepted, begun)
                record = structs.replace(record, announced=windows.targets, announced_digest=windows.digest)
                rest = chain((), accepted)
            admission = self._admitted(record)
            with _resumable(self._id):
                publication = Publication(self._services, record, self._lease, 0)
                known = admission.reached == "known"  # it was created after the lookup
                winner = self._services.known.submission(self._id) if known else None
                winner = winner or self._store(record, publication, first, fresh=self._is_fresh(admission))
                if winner is not None:
                    return self._take_up(chain(begun, accepted), winner, admission.lease.since_ms)
                return self._publish(rest, windows, publication, first)

    def _accepted(self, size: int | None) -> TaskRecord:
        services = self._services
        now_ms = services.clock.wall_ms()
        rules = (services.topics, services.options, self._first, services.caller)
        record = accept(self._task, self._id, size, now_ms, *rules)
        return structs.replace(record, submitter=self._lease.submitter)

    def _first_window(
        self, windows: WindowCutter, accepted: Iterator[Accepted], begun: list[Accepted]
    ) -> Window | None:
        """Return the first window, if there is one.

        begun: the first part; parts taken besides are appended. Of standard input only the first part is used: more may
        not come for long.
        """
        waits = getattr(self._targets, "waits", False)
        for part in chain(begun.copy(), accepted):
            if part is not begun[0]:
                begun.append(part)
            window = next(windows.add(part), None)
            if window is not None or waits:
                return window or windows.cut_off()
        return next(windows.end(), None)

    def _admitted(self, record: TaskRecord) -> Admission:
        """Admit the task and take its lease. Raises LimitReached, NotReady, BeingSubmitted, Unreachable."""
        admissions: list[Admission] = []

        def attempt() -> SubmitLease:
            admissions.append(self._services.registry.submissions.admit(record, self._services.who))
            return admissions[-1].lease

        self._lease.take(attempt)
        check_admitted(record, admissions[-1])
        return admissions[-1]

    def _is_fresh(self, admission: Admission) -> bool:
        """Return whether nobody else can have stored a record of this id."""
        return self._task.id is None or (not admission.reached and admission.lease.state == "fresh")

    def _store(
        self, record: TaskRecord, publication: Publication, first: Window | None, *, fresh: bool
    ) -> Submission | None:
        """Store the record. If another record of this id came first, return the submission to continue."""
        try:
            winner = self._store_fresh(record, publication, first) if fresh else self._store_after(record)
        except BaseException:
            publication.close()
            raise
        if winner is not None:
            publication.close()
        return winner

    def _store_fresh(self, record: TaskRecord, publication: Publication, first: Window | None) -> Submission | None:
        """Store the record of a task whose lease nobody else had, so no other record can come first.

        The lane is created meanwhile, since each takes a disk write of Pulsar's. It is opened while the registry is
        updated.
        """
        services = self._services
        with _one_thread() as thread:
            created = None if record.shared else thread.submit(services.lanes.create, record.lane, record.partitions)
            position = services.control.append(record)
            if created is not None:
                created.result()
            update = thread.submit(self._tell, position, record)
            if first is not None:
                publication.open(first)
            return update.result()

    def _store_after(self, record: TaskRecord) -> Submission | None:
        """Store a record where another may exist that the registry does not show: the topic says which came first."""
        services = self._services
        position = services.control.append(record)
        with _stored(self._id):
            known = services.known.submission_at(self._id, position)
        if not known.record.shared:
            services.lanes.create(known.record.lane, known.record.partitions)
        self._tell(known.position, known.record)
        return None if known.record.submitter == record.submitter else known

    def _tell(self, position: str, record: TaskRecord) -> Submission | None:
        """Update the registry. Return the other submission if the registry knows another record."""
        with _stored(self._id):
            lease, known = self._services.known.start_submission(position, record, self._lease.submitter)
            self._lease.confirm(lease)
        return None if known is None or known.record.submitter == record.submitter else known

    # ------------------------------------------------------------ a known task
    def _go_on(self, known: Submission) -> SubmitResult:
        check_same(self._task, known.record)
        accepted = self._intake.accepted(known.record.chunk)
        with closing(accepted):
            if known.sealed:
                return self._verify(accepted, known)
            _check_open(known)
            return self._take_up(accepted, known, self._lease.take_known().since_ms)

    def _take_up(self, accepted: Iterator[Accepted], known: Submission, since_ms: int) -> SubmitResult:
        """Continue a known task. The lease is held."""
        check_same(self._task, known.record)
        if not known.sealed:
            _check_open(known)
            known = self._lease.take_over(since_ms)
            check_same(self._task, known.record)
        if known.sealed:
            return self._verify(accepted, known)
        _check_open(known)
        record = known.record
        if known.lane != record.lane:
            record = structs.replace(record, lane=known.lane, shared=False, partitions=0)
        with _resumable(self._id):
            if not record.shared:
                self._services.lanes.create(record.lane, record.partitions)
            publication = Publication(self._services, record, self._lease, known.sequences)
            return self._publish(accepted, self._windows(known), publication, None, known.sequences)

    def _verify(self, accepted: Iterator[Accepted], known: Submission) -> SubmitResult:
        """Check that the audience matches the sealed task. Sends nothing."""
        cutter, self._report.created_ms = Cutter(known.record.chunk), known.record.created_ms
        for part in accepted:
            for _ in cutter.add(part):
                pass
            self._report.progress(cutter.targets)
        for _ in cutter.rest():
            pass
        if (cutter.digest(), cutter.targets) != (known.digest, known.published):
            raise other_audience(self._id, f"its {known.published:,} targets")
        return self._report.result("", cutter.targets, cutter.sequence, cutter.sequence)

    # ------------------------------------------------------------ both
    def _windows(self, known: Submission) -> WindowCutter:
        services, record = self._services, known.record
        self._report.created_ms = record.created_ms

        def encode(block: Block) -> list[bytes]:
            return bodies(record, block, services.clock.wall_ms())

        return WindowCutter(
            record.chunk,
            known,
            services.windows,
            encode,
            lambda: self._report.refused,
            services.clock.monotonic_s,
        )

    def _publish(
        self,
        accepted: Iterator[Accepted],
        windows: WindowCutter,
        publication: Publication,
        first: Window | None,
        base: int = 0,
    ) -> SubmitResult:
        """Publish the windows. first: announced with the task's record. base: the sequence stored already."""
        try:
            with closing(publication):
                stopped = self._stream(accepted, windows, publication, first)
        except FairlaneError:
            known = self._stopped_meanwhile()
            if known is None:
                raise
        else:
            known = self._stopped_meanwhile() if stopped else None
        if known is not None:
            return self._report.result(known.stopped, self._services.known.counted(known), known.sequences, base)
        if not stopped:
            if not windows.targets and not self._allow_empty:
                raise self._report.nothing_accepted()
            self._seal(windows)
        return self._report.result(stopped, windows.targets, windows.sequence, base)

    def _stream(
        self, accepted: Iterator[Accepted], windows: WindowCutter, publication: Publication, first: Window | None
    ) -> str:
        """Send the targets not sent before. Return why it stopped early, if it did."""
        if first is not None:
            publication.put(replace(first, announced=True))
        self._lease.keep()
        helper = Helper(self._intake, windows, publication)
        with nullcontext() if isinstance(self._targets, Sequence) else helper:
            for part in accepted:
                helper.check()
                for window in windows.add(part):
                    publication.put(window)
                publication.advance()
                if publication.stopped:
                    return publication.stopped
                self._report.progress(windows.targets)
        helper.check()
        for window in windows.end():
            publication.put(window)
        publication.finish()
        return publication.stopped

    def _stopped_meanwhile(self) -> Submission | None:
        """Return the submission if the task has stopped: the lane of an ended task is deleted while a writer still uses
        it. Raises BeingSubmitted if another submitter has completed it: its audience counts."""
        try:
            known = self._services.known.submission(self._id)
        except Unreachable:
            return None
        if known is None or not known.stopped:
            return None
        if known.sealed:
            raise taken_over(self._id, "another process")
        return known

    def _seal(self, windows: WindowCutter) -> None:
        seal = Sealed(
            format=FORMAT,
            task=self._id,
            targets=windows.targets,
            refused=self._report.refused,
            digest=windows.digest,
            writers=[MAIN_WRITER],
            submitter=self._lease.submitter,
        )
        position = self._services.control.append(seal)
        try:
            if not self._services.registry.submissions.seal_submission(position, seal):
                self._lease.check(wait=False)
                self._services.registry.control.apply(position, seal)
        except Unreachable as error:
            cause = f"Task {self._id} is complete and stored in Pulsar; workers update Redis later: {error.cause}"
            raise Unreachable(cause) from error
        self._sealed = True


def _check_open(known: Submission) -> None:
    if known.stopped:
        cause = f"Task {known.record.task} is {known.stopped}; it accepts no more targets."
        raise TaskEnded(cause, "Submit under another id.")
