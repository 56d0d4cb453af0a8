"""A principal at the desk: which objects are its own, and how it names them.

What belongs to another app does not exist: NotFound, in the same words as for an unknown id.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from backends.system_clock import SystemClock
from dispatcher.access.actions import Action
from dispatcher.access.principal import Principal
from dispatcher.analysis.situation import Situation
from dispatcher.model.errors import FairlaneError, NotFound, Unreachable
from dispatcher.model.task import PushTask
from dispatcher.model.view import TaskView
from producers.client import PushClient
from producers.connection import Connection
from producers.desk.access_book import CHANGES_S, READS_S, AccessBook
from producers.desk.board.board import Board
from producers.desk.scoped_ids import ScopedIds, is_task_id
from producers.outcomes.record import ReasonGroup, TargetFilter, TargetRecord

T = TypeVar("T")
R = TypeVar("R", TargetRecord, ReasonGroup)


class Acting:
    """Acts for one principal in one request. request: the id of the request, for records and audit."""

    def __init__(
        self, principal: Principal, connection: Connection, book: AccessBook, board: Board, request: str = ""
    ) -> None:
        self.principal = principal
        self._connection = connection
        self._request = request
        self._book = book
        self._board = board
        self._ids = ScopedIds(principal.app)
        self._named = dict[str, str]()
        """How the principal has named tasks, by their internal ids."""

    @cached_property
    def _client(self) -> PushClient:
        return PushClient(self._connection, self.principal.caller(self._request))

    def check_age(self, action: Action) -> None:
        """Raise NotReady if too little is known of keys and policies for this action."""
        self._book.check_age(CHANGES_S if action.is_change else READS_S)

    def reword(self, error: Exception) -> None:
        """Put an error's texts and notes into words that the principal may know: the ids of tasks as it names them, and
        nothing of servers for an app."""
        error.__notes__ = list(map(self._worded, getattr(error, "__notes__", ())))
        if isinstance(error, FairlaneError):
            error.cause, error.next_step = self._worded(error.cause), self._worded(error.next_step)
        if isinstance(error, Unreachable) and self.principal.app and "id=" not in error.next_step:
            error.next_step = "Try again later."

    def _worded(self, text: str) -> str:
        return self._ids.in_text(text, self._named)

    def _own(self, id_: str) -> TaskView:
        """Return a task of the principal, without an estimate of its end. Raises NotFound for an unknown task and for
        that of another app, NotReady for both while the view is being rebuilt."""
        return self._all_own([id_], self._connection.known_tasks.tasks)[0]

    def _all_own(self, ids: Sequence[str], read: Callable[[Sequence[str], str], list[T]]) -> list[T]:
        """Read tasks of the principal, with a method of KnownTasks. Raises as `_own`."""
        inside = list(map(self._inside, ids))
        self._named |= zip(inside, ids, strict=True)
        try:
            return read(inside, self.principal.app)
        except NotFound as error:
            raise NotFound(error.cause, _KEPT) from None

    def _inside(self, id_: str) -> str:
        inside = self._ids.inside(id_)
        if not is_task_id(inside):
            raise NotFound(f"There is no task {id_}.", _KEPT)
        return inside

    def _is_own(self, app: str) -> bool:
        return self.principal.app in ("", app)

    def _app(self, app: str | None) -> str | None:
        """Return the app of a filter: the principal's own, if it acts for one. Raises NotFound for another."""
        if app is not None and not self._is_own(app):
            raise NotFound(f"There is no app {app}.", "A key acts for its own app only.")
        return self.principal.app or app

    def _prefix(self, prefix: str | None) -> str | None:
        """Return the beginning of the internal ids of tasks whose ids begin so for the principal. Other tasks may have
        it too: `~s` means no task `shop--sale`."""
        return self._ids.inside(prefix) if prefix else None

    def _check_policy(self, task: PushTask) -> None:
        """Raise InvalidInput for a task that the app's policy does not allow."""
        if app := self.principal.app:
            self._book.policy(app).check_task(task, app)

    def _check(self, **given: Any) -> None:
        """Raise InvalidInput for values beyond the app's policy, as AppPolicy.check."""
        if app := self.principal.app:
            self._book.policy(app).check(app, **given)

    def _situation(self) -> Situation:
        client = self._client
        return Situation.of(self._board.live(), client.globals(), client.workers(), SystemClock().wall_ms())

    def _shown(self, view: TaskView) -> TaskView:
        return msgspec.structs.replace(view, id=self._ids.shown(view.id))

    def _record(self, record: R) -> R:
        return msgspec.structs.replace(record, task=self._ids.shown(record.task), replay=self._ids.shown(record.replay))

    def _clipped_targets(self, chosen: TargetFilter) -> TargetFilter:
        """Return a filter of targets that selects nothing of other apps. Raises NotFound if it names such."""
        task = None if chosen.task is None else self._own(chosen.task).id
        return replace(chosen, task=task, app=self._app(chosen.app))


_KEPT = "Ended tasks are kept for days."
