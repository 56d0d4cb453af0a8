"""The known state of a submission: from the registry or, while that is incomplete, from the control topic itself."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from operator import itemgetter

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import Registry
from dispatcher.model.errors import Malformed, NotReady, Unreachable
from dispatcher.model.flow_pause import FLOW_PAUSED, FlowPause
from dispatcher.model.service_settings import settings_of
from dispatcher.model.view import SubmitLease
from dispatcher.ports import OpenReader, StoredRecord, records_to_end
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import ControlRecord, GlobalChange, TaskRecord
from dispatcher.wire.submission import Submission, with_record


class KnownSubmissions:
    """Reads submissions. While the view is incomplete, the control topic says what it does not know yet."""

    def __init__(self, registry: Registry, epochs: Epochs, control: OpenReader) -> None:
        """control: opens a reader of the control topic behind a position, or at its beginning (None)."""
        self._registry = registry
        self._epochs = epochs
        self._control = control

    def start_submission(self, position: str, record: TaskRecord, by: str) -> tuple[SubmitLease, Submission | None]:
        """Renew a submitter's lease, apply the task's record and read the submission back, in one round trip."""
        lease, row = self._registry.submissions.start_submission(position, record, by)
        return lease, self._known(record.task, row)

    def submission(self, task: str) -> Submission | None:
        """Return the submission; None if the task does not exist. Raises Unreachable."""
        return self._known(task, self._registry.submissions.submission(task))

    def stored(self, tasks: Collection[str]) -> dict[str, Submission]:
        """Return the submissions of these tasks as the control topic alone has them, for when Redis is gone.

        A task that ended 14 days ago or earlier is left out. Raises Unreachable if Pulsar is gone too.
        """
        found, read = dict[str, Submission](), set[str]()
        for position, record in self._stored_records():
            task = getattr(record, "task", "")
            if task in tasks and position not in read:
                read.add(position)
                if (row := with_record(found.get(task), position, record)) is not None:
                    found[task] = row
        return found

    def stored_flows(self) -> Mapping[str, FlowPause]:
        """Return the last entry of each flow as the control topic has it. Raises Unreachable if Pulsar is gone."""
        changes = {position: each for position, each in self._stored_records() if isinstance(each, GlobalChange)}
        settings = settings_of({change.field: change.value for _, change in sorted(changes.items(), key=itemgetter(0))})
        return {setting.name: setting.value for setting in settings if setting.kind == FLOW_PAUSED}

    def _stored_records(self) -> Iterator[tuple[str, ControlRecord]]:
        for stored in records_to_end(self._control(None)):
            with suppress(Malformed):
                yield read_control(stored.position, stored.body)

    def counted(self, known: Submission) -> int:
        """Return how many targets of a task that has stopped get outcomes: what was published later is dropped."""
        with suppress(Unreachable):
            view = self._registry.tasks.task(known.record.task)
            if view is not None:
                return view.targets.total
        return known.published

    def _known(self, task: str, submission: Submission | None) -> Submission | None:
        return self._read(task, None, None) if submission is None and not self._epochs.ready() else submission

    def submission_at(self, task: str, position: str) -> Submission:
        """Return the submission according to the control topic up to a position; the view may be behind.

        Raises Unreachable; NotReady if the topic has no record of the task.
        """
        cursor = self._registry.control.cursor()
        row = self._registry.submissions.submission(task)
        if not self._epochs.ready():  # checked last: then everything read before came from a complete view
            cursor = row = None
        row = self._read(task, row, cursor, position)
        if row is None:
            raise NotReady(f"The control topic does not show task {task} yet.", "Submit it again in some seconds.")
        return row

    def _read(self, task: str, row: Submission | None, after: str | None, upto: str | None = None) -> Submission | None:
        """Add the topic's records after a position, up to another (None: its end)."""
        if upto is not None and (after or "") >= upto:
            return row
        read = set[str]()
        for stored in records_to_end(self._control(after)):
            known = record_of(task, stored)
            if known is not None and known[0] not in read:
                read.add(known[0])
                row = with_record(row, *known)
            if upto is not None and stored.position >= upto:
                break
        return row


def record_of(task: str, stored: StoredRecord) -> tuple[str, ControlRecord] | None:
    """Return a record of the task with its original position; None for others.

    Malformed records are skipped, as everywhere: the folds report them.
    """
    try:
        position, record = read_control(stored.position, stored.body)
    except Malformed:
        return None
    return (position, record) if getattr(record, "task", None) == task else None
