"""A principal at the desk: which objects are its own, and how it names them.

What belongs to another app does not exist: NotFound, in the same words as for an unknown id.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec

from dispatcher.access.actions import Action
from dispatcher.access.principal import Principal, Scope
from dispatcher.model.errors import NotFound
from dispatcher.model.view import TaskView
from producers.client import PushClient
from producers.desk.access_book import CHANGES_S, READS_S, AccessBook
from producers.desk.scoped_ids import ScopedIds
from producers.outcomes.record import ReasonGroup, TargetFilter, TargetRecord

R = TypeVar("R", TargetRecord, ReasonGroup)


class Acting:
    """Acts for one principal in one request. request: the id of the request, for records and audit."""

    def __init__(self, principal: Principal, client: PushClient, book: AccessBook, request: str = "") -> None:
        self.principal = principal
        self._client = client.acting_for(principal.caller(request))
        self._book = book
        self._ids = ScopedIds(principal.app)

    def check_age(self, action: Action) -> None:
        """Raise NotReady if too little is known of keys and policies for this action."""
        self._book.check_age(READS_S if action.scope is Scope.READ else CHANGES_S)

    def _own(self, id_: str) -> TaskView:
        """Return a task of the principal. Raises NotFound for an unknown task and for that of another app."""
        inside = self._ids.inside(id_)
        try:
            view = self._client.task(inside).progress()
        except NotFound:
            raise no_task(id_) from None
        if not self._is_own(view.app):
            raise no_task(id_)
        return view

    def _is_own(self, app: str) -> bool:
        return self.principal.app in ("", app)

    def _clipped(self, only: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return a selection of tasks, as PushClient.tasks takes it, that has nothing of other apps."""
        app, prefix = only.get("app"), only.get("id_prefix")
        if app is not None and not self._is_own(app):
            raise no_app(app)
        prefix = None if prefix is None else self._ids.inside(prefix)
        return {**only, "app": self.principal.app or app, "id_prefix": prefix}

    def _shown(self, view: TaskView) -> TaskView:
        return msgspec.structs.replace(view, id=self._ids.shown(view.id))

    def _record(self, record: R) -> R:
        return msgspec.structs.replace(record, task=self._ids.shown(record.task), replay=self._ids.shown(record.replay))

    def _clipped_targets(self, chosen: TargetFilter) -> TargetFilter:
        """Return a filter of targets that selects nothing of other apps. Raises NotFound if it names such."""
        task = None if chosen.task is None else self._own(chosen.task).id
        if chosen.app is not None and not self._is_own(chosen.app):
            raise no_app(chosen.app)
        return replace(chosen, task=task, app=self.principal.app or chosen.app)


def no_task(id_: str) -> NotFound:
    """Return the error for a task that is unknown, or of another app."""
    return NotFound(f"There is no task {id_}.", "Ended tasks are kept for days.")


def no_app(app: str | None) -> NotFound:
    """Return the error for an app that the principal does not act for."""
    return NotFound(f"There is no app {app}.", "A key acts for its own app only.")
