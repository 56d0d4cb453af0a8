"""The parts of the registry over one view, and how far they reflect the control topic, the source of truth.

Code that needs one question takes that part, not the whole.
"""

from collections.abc import Sequence

from backends.redis.registry.record_calls import call_of
from backends.redis.registry.service import ServiceTable, SideLaneTable
from backends.redis.registry.submissions import SubmissionTable
from backends.redis.registry.tasks import TaskTable
from backends.redis.view import RedisView, ViewPart
from dispatcher.wire.control import ControlRecord


class ControlView(ViewPart):
    """Applies control records and keeps the fold's cursor. All methods raise Unreachable when Redis is gone."""

    def apply(self, position: str, record: ControlRecord) -> None:
        """Apply a record of the control topic, stored there at `position`, in one round trip.

        Records may come in any order and any number of times: the resulting view is the same. For a restated record,
        apply the original. A seal counts once the cursor has reached it.
        """
        self.apply_all([(position, record)])

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        """Apply many (position, record) as `apply` does, in one round trip."""
        self._view.call_many([call for position, record in records if (call := call_of(position, record))])

    def cursor(self) -> str | None:
        """Return the position up to which the control topic has been applied; None if nothing has been."""
        cursor = self._view.command("HGET", self._view.keys.control, "cursor")
        return cursor.decode() if cursor else None

    def move_cursor(self, expected: str | None, to: str, epoch: str, *, marked: bool) -> bool:
        """Move the cursor. Return False and change nothing if it is not at `expected` or the view has another epoch.

        marked: the epoch's mark has been read, so the view is complete as far as the control topic goes.
        """
        return bool(self._view.call("move_cursor", expected or "", to, epoch, int(marked)))

    def complete_among(self, tasks: Sequence[str]) -> list[str]:
        """Return those of these tasks that have an outcome for every target but no end written yet; none while the view
        is not ready."""
        return [task.decode() for task in self._view.call("complete_among", *tasks)] if tasks else []


class Registry:
    """The registry in Redis, folded from the control topic."""

    def __init__(self, view: RedisView) -> None:
        self.control = ControlView(view)
        self.tasks = TaskTable(view)
        self.submissions = SubmissionTable(view)
        self.service = ServiceTable(view)
        self.sides = SideLaneTable(view)
