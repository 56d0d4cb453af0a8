"""Seal the tasks on the driver, once all attempts have finished or one has failed for good.

The seal makes a task's writers count. Without a seal, the caller gets a text about what exists and how to go on.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from backends.redis.registry.task_rows import TASK_VIEW
from backends.redis.registry.tasks import TaskSelection
from dispatcher.channels.submission.target_check import languages_text
from dispatcher.model.errors import AudienceMismatch, FairlaneError, InvalidInput, NotReady
from dispatcher.model.task_control import Control
from dispatcher.model.values import listed
from dispatcher.wire.control import FORMAT, Sealed, TaskRecord
from dispatcher.wire.submission import Submission
from producers.control.change import TaskChange, change_tasks
from producers.ports import Services
from producers.submit.acceptance import task_digest
from spark_jobs.source.rows import AudienceDigest
from spark_jobs.source.task_options import LANGUAGE, TaskOptions
from spark_jobs.source.writing import WriteTarget, Written, WrittenPart, check_open

_log = logging.getLogger(__name__)
_SEALED_AT_ONCE = 500
_LISTED = 12
_MAX_TASKS = 100_000


@dataclass(slots=True)
class GatheredTask:
    """One task, gathered from the attempts of the commit."""

    digest: AudienceDigest
    refused: int
    writers: list[str]
    """The writers of the envelopes that count."""
    counted: bool = False
    """Whether some attempt only counted its rows, since the task was already sealed when it began."""

    def add(self, part: WrittenPart) -> None:
        self.digest = self.digest.plus(part.digest)
        self.refused += part.refused
        self.counted = self.counted or not part.published
        if part.envelopes:
            self.writers.append(part.writer)


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a commit."""

    tasks: tuple[str, ...]
    """The tasks that are now sealed with this audience."""
    targets: int
    refused: int
    """The number of refused rows, also of those that belong to no task."""


def commit(services: Services, target: WriteTarget, attempts: Sequence[Written]) -> Committed:
    """Seal the tasks that these attempts filled.

    Raises InvalidInput (there is no target at all), TaskEnded (a task was cancelled meanwhile), AudienceMismatch (a
    task is already sealed with another audience) and Unreachable; with first_stays these two of a task are no
    errors. If it is run again with other attempts of the same rows, it completes the work it had begun.
    """
    base, options = target.base, target.options
    tasks = _together(attempts, 0 if options.split else options.refused)
    if not any(gathered.digest.targets for gathered in tasks.values()):
        raise _nothing(attempts)
    _seal(services, {task: gathered for task, gathered in tasks.items() if _is_open(services, target, task)})
    for task, gathered in tasks.items():
        _compare(gathered, _known(services, task), strict=not target.first_stays)
    refused = sum(gathered.refused for gathered in tasks.values()) + sum(attempt.unassigned for attempt in attempts)
    refused += options.refused if options.split else 0
    committed = Committed(tuple(tasks), sum(gathered.digest.targets for gathered in tasks.values()), refused)
    _log.info("%s is sealed: targets %s, tasks %s, rows refused %s", base, committed.targets, len(tasks), refused)
    without_text = sum((Counter(attempt.without_text) for attempt in attempts), Counter[str]())
    if without_text:
        _log.warning("%s: %s", base, languages_text(without_text))
    return committed


def left_tasks(services: Services, options: TaskOptions, base: str) -> list[str]:
    """Return the tasks that jobs with these options have left unsealed. Raises Unreachable."""
    tasks = [base]
    if options.split:
        page = services.registry.tasks.page(TaskSelection(live=True, id_prefix=f"{base}."), TASK_VIEW, _MAX_TASKS)
        tasks = sorted(task.id for task in page.tasks)
    return [task for task in tasks if _is_left_over(services, options, base, task)]


def cancel_left(services: Services, options: TaskOptions, base: str, kept: Collection[str] = ()) -> list[str]:
    """Cancel the tasks that jobs with these options have left unsealed, but for those to be kept. Returns them."""
    tasks = [task for task in left_tasks(services, options, base) if task not in kept]
    change_tasks(services, [TaskChange(task, (Control("cancelled", value=True),)) for task in tasks])
    return tasks


def left_text(tasks: Sequence[str], drop: str = "fairlane task cancel") -> str:
    """Return what is said of tasks that a failed job left unsealed. drop: the command that ends them."""
    if not tasks:
        return ""
    which = "them" if len(tasks) > 1 else "it"
    return (
        f"Nothing is sent of {_listed(tasks)}: a task is held until its seal, which this job did not write. "
        f"Run the job again to complete {which}, or drop {which}: `{drop}`."
    )


def state_of_tasks(services: Services, target: WriteTarget, attempts: Iterable[Written] = ()) -> str:
    """Return the state of a failed job's tasks, and how to go on, as text.

    attempts: those that are known to have succeeded.
    """
    base, split = target.base, target.options.split
    tasks = sorted({task for attempt in attempts for task in attempt.parts} | (set() if split else {base}))
    submissions = {task: known for task in tasks if (known := services.known.submission(task)) is not None}
    sealed = [task for task, known in submissions.items() if known.sealed]
    held = sorted({*submissions, *left_tasks(services, target.options, base)} - {*sealed})
    sentences = []
    if sealed:
        sentences.append(f"Complete and sent: {_listed(sealed)}.")
    if held:
        sentences.append(left_text(held))
    elif not sealed:
        sentences.append(f"Nothing was created of task {base}. Run the job again to complete it.")
    return " ".join(sentences)


def _together(attempts: Iterable[Written], refused_before: int) -> dict[str, GatheredTask]:
    tasks: dict[str, GatheredTask] = {}
    for attempt in attempts:
        for task, part in attempt.parts.items():
            tasks.setdefault(task, GatheredTask(AudienceDigest(), refused_before, [])).add(part)
    return tasks


def no_rows() -> InvalidInput:
    """Return the error for an empty table."""
    return InvalidInput("The table has no rows, so there is no task.", "Check its path and its filters.")


def _nothing(attempts: Sequence[Written]) -> InvalidInput:
    refused = sum(attempt.rows for attempt in attempts)
    first = next((refusal for attempt in attempts for refusal in attempt.refusals), None)
    if first is None:
        return no_rows()
    return InvalidInput(
        f"None of the table's {refused:,} rows has a target. The first: {first.reason} (target {first.target!r}).",
        "Check the options target, variables and split.",
    )


def _known(services: Services, task: str) -> Submission:
    known = services.known.submission(task)
    if known is None:
        raise NotReady(f"The registry does not show task {task}, which this job has filled.", "Run the job again.")
    return known


def _is_open(services: Services, target: WriteTarget, task: str) -> bool:
    """Return whether a task waits for its seal. Raises TaskEnded if it has ended without one, unless a stream has to go
    on."""
    known = _known(services, task)
    if not target.first_stays:
        check_open(known)
    return not known.sealed


def _seal(services: Services, tasks: Mapping[str, GatheredTask]) -> None:
    for task, gathered in tasks.items():
        if gathered.counted:
            raise NotReady(f"The registry no longer shows the seal of task {task}.", "Run the job again.")
    seals = [
        Sealed(
            format=FORMAT,
            task=task,
            targets=gathered.digest.targets,
            refused=gathered.refused,
            digest=gathered.digest.text,
            writers=gathered.writers,
        )
        for task, gathered in tasks.items()
    ]
    for first in range(0, len(seals), _SEALED_AT_ONCE):
        some = seals[first : first + _SEALED_AT_ONCE]
        services.registry.control.apply_all(list(zip(services.control.append_many(some), some, strict=True)))


def _compare(gathered: GatheredTask, sealed: Submission, *, strict: bool) -> None:
    """Check that the seal has this audience.

    The first seal in the topic is in force: ours, an earlier run's, or that of another job at the same time.
    """
    if (sealed.digest, sealed.published) == (gathered.digest.text, gathered.digest.targets):
        return
    cause = (
        f"Task {sealed.record.task} was written before with another audience: {sealed.published:,} targets then, "
        f"{gathered.digest.targets:,} now" + ("." if sealed.published != gathered.digest.targets else ", others.")
    )
    if strict:
        raise AudienceMismatch(cause, "The first stays. Choose another task id for another table.")
    _log.warning("%s The first stays; nothing of this one is sent.", cause)


def _is_left_over(services: Services, options: TaskOptions, base: str, task: str) -> bool:
    known = services.known.submission(task)
    if known is None or known.sealed or known.stopped or not known.record.hold_until_sealed:
        return False
    return known.record.digest in _digests(options, base, known.record)


def _digests(options: TaskOptions, base: str, record: TaskRecord) -> set[str]:
    """Return the possible digests of a part of this write with this record's app, tier and channel."""
    split = {"app": record.app, "tier": str(record.tier), "channel": record.channel}
    made = set()
    for language in ("", *options.messages):
        values = [language if name == LANGUAGE else split.get(name, "") for name in options.split]
        try:
            made.add(task_digest(options.push_task(base, values)))
        except FairlaneError:
            continue  # no part has these values
    return made


def _listed(tasks: Sequence[str]) -> str:
    return f"task{'s' if len(tasks) > 1 else ''} {listed(tasks, _LISTED)}"
