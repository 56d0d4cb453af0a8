"""Create tasks that are filled from many places at once: the first writer creates the task, one seal completes it."""

import logging

from dispatcher.model.errors import AudienceMismatch, NotReady, TaskEnded
from dispatcher.model.task import PushTask
from dispatcher.wire.submission import Submission
from producers.ports import Services
from producers.submit.acceptance import accept, check_admitted, check_same

_log = logging.getLogger(__name__)


def ensure(services: Services, task: PushTask, *, first_stays: bool = False) -> Submission:
    """Return the task of this id, and create it if there is none. Its lane can be written to unless it is sealed.

    Any number of callers may do this at once: the first of several records in the control topic is the task. Raises
    AudienceMismatch (another task has the id; with first_stays it is only logged), TaskEnded (it ended unsealed),
    LimitReached, Unreachable.
    """
    assert task.id is not None
    known = services.known.submission(task.id) or _make(services, task, task.id)
    try:
        check_same(task, known.record)
    except AudienceMismatch as error:
        if not first_stays:
            raise
        _log.warning("%s It stays as it was.", error.cause)
    if known.stopped and not known.sealed:
        raise TaskEnded(f"Task {task.id} is {known.stopped}; it accepts no more targets.", "Write under another id.")
    if not known.sealed:
        services.lanes.create(known.record.lane, known.record.partitions)
    return known


def _make(services: Services, task: PushTask, task_id: str) -> Submission:
    record = accept(task, task_id, task.expected_targets, services.clock.wall_ms(), services.topics, services.options)
    check_admitted(record, services.registry.submissions.admit(record))
    services.registry.control.apply(services.control.append(record), record)
    winner = services.known.submission(task_id)
    if winner is None:
        raise NotReady(f"Task {task_id} is stored, but the registry does not show it.", "Run the job again.")
    return winner
