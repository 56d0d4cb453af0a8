"""The board at the desk: lists and events of a principal's live tasks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from backends.redis.registry.task_rows import TASK_VIEW
from backends.redis.registry.tasks import Page, TaskSelection
from dispatcher.analysis.served import Served
from dispatcher.analysis.why import held_now
from dispatcher.model.errors import InvalidInput, NotFound
from dispatcher.model.view import ENDED_STATES, STATES, TaskView
from producers.desk.acting import Acting
from producers.desk.board.board import Age
from producers.desk.board.follower import Changes, Follower
from producers.desk.board.groups import TaskGroup
from producers.desk.board.lists import Selection, Sort
from producers.desk.guard import action
from producers.desk.scoped_ids import AS_IS

MAX_LOOKS = 5
"""Looks at 1,000 tasks each for one page of ended ones, which may then have fewer rows."""


class TaskList(NamedTuple):
    """A page of tasks."""

    tasks: list[TaskView]
    cursor: str | None
    """Cursor of the next page; None: this is the last."""
    age: Age | None
    """Age of the board; None for ended tasks, which are read from the view."""
    counts: dict[str, dict[str, int]]
    """The principal's live tasks by app, state, tier and channel."""


class BoardDesk(Acting):
    """Live tasks of a principal. Raises NotReady while none were read."""

    @action("tasks.list")
    def tasks(self, only: Mapping[str, str | None], sort: str, limit: int, cursor: str | None) -> TaskList:
        """Return a page of live tasks, or of ended ones if `only` names such a state. Raises InvalidInput.

        only: of the fields of Selection.
        """
        order, app = Sort.parse(sort), self.principal.app
        if only.get("state") in ENDED_STATES:
            tasks, next_cursor = self._ended(only, order, limit, cursor)
            return TaskList(list(map(self._shown, tasks)), next_cursor, None, self._board.counts(app))
        tasks, next_cursor = self._board.page(self._selection(only), order, limit, cursor)
        age = self._board.age(app)
        return TaskList(list(map(self._shown, tasks)), next_cursor, age, self._board.counts(app))

    @action("tasks.list")
    def facets(self, only: Mapping[str, str | None]) -> dict[str, dict[str, int]]:
        """Return the number of live tasks by app, shown state, tier and channel, each among those that the other fields
        of `only` select. Raises InvalidInput."""
        facets, app = self._board.facets(self._selection(only)), self.principal.app
        return facets if not app else {**facets, "app": {app: facets["app"].get(app, 0)}}

    @action("tasks.why")
    def held(self, tasks: Iterable[TaskView]) -> dict[str, str]:
        """Return what holds tasks back now, by id: a cause of dispatcher.analysis.why, as far as their state, the
        settings and the workers say. Raises Unreachable."""
        settings, served = self._client.globals(), Served.by(self._client.workers())
        return {task.id: held_now(task, settings, served) for task in tasks}

    @action("tasks.list")
    def groups(self) -> list[TaskGroup]:
        """Return the principal's live tasks in groups."""
        if not self.principal.app:
            return self._board.groups()
        own = (group for group in self._board.groups() if self._is_own(group.app))
        return [group._replace(name=self._ids.shown(group.name)) for group in own]

    @action("tasks.list")
    def age(self) -> Age:
        """Return how far the board can be relied on for the principal's tasks. Raises NotReady."""
        return self._board.age(self.principal.app)

    @action("tasks.events")
    def one(self, id_: str) -> Selection:
        """Return the selection of one task. Raises NotFound."""
        inside = self._inside(id_)
        known = self._board.task(inside)
        if known is None or not self._is_own(known.app):
            self._own(id_)
        return Selection(id=inside, app=self.principal.app or None)

    @action("tasks.events")
    def some(self, only: Mapping[str, str | None]) -> Selection:
        """Return a selection of live tasks. Raises InvalidInput."""
        return self._selection(only)

    @contextmanager
    def follow(self, selection: Selection, wake: Callable[[], None]) -> Iterator[Callable[[], Changes]]:
        """Enter a function that returns what has happened to the tasks since its last call; first, their present
        states. wake: called, by any thread, when there is something to return. Raises NotReady if too many follow."""
        follower = Follower(selection, wake)
        self._board.follow(follower)

        def take() -> Changes:
            changes = follower.take()
            tasks = self._board.present(selection) if changes.is_reset else changes.tasks
            return changes._replace(tasks=list(map(self._shown, tasks)))

        try:
            yield take
        finally:
            self._board.followers.remove(follower)

    def _selection(self, only: Mapping[str, str | None]) -> Selection:
        state = only.get("state")
        if state is not None and state not in STATES:
            raise InvalidInput(f"state: is {state!r}; it must be one of {', '.join(STATES)}.")
        fields = {**only, "app": self._app(only.get("app"))}
        return Selection(**fields, ids=self._ids)

    def _ended(
        self, only: Mapping[str, str | None], sort: Sort, limit: int, cursor: str | None
    ) -> tuple[list[TaskView], str | None]:
        if sort != Sort() or only.get("q") is not None:
            raise InvalidInput("Ended tasks are listed newest first, and not by parts of ids.", "Leave out sort and q.")
        selection = TaskSelection(
            state=only["state"],
            app=self._app(only.get("app")),
            tier=only.get("tier"),
            channel=only.get("channel"),
            id_prefix=self._prefix(only.get("id_prefix")),
        )
        page = self._connection.registry.tasks.page(selection, TASK_VIEW, limit, self._inside_cursor(cursor), MAX_LOOKS)
        prefix = only.get("id_prefix") or ""
        return [task for task in page.tasks if self._ids.shown(task.id).startswith(prefix)], self._shown_cursor(page)

    def _shown_cursor(self, page: Page[TaskView]) -> str | None:
        """Return the cursor of the next page. It names no task of another app, at which the looks may have ended."""
        if page.cursor is None or not self.principal.app:
            return page.cursor
        at, _, last = page.cursor.partition(":")
        is_own = bool(page.tasks) and page.tasks[-1].id == last
        return f"{at}:{self._ids.shown(last) if is_own else AS_IS}"

    def _inside_cursor(self, cursor: str | None) -> str | None:
        """Return a cursor as the view takes it. Behind a task that is not the app's own, only the time counts."""
        if cursor is None or not self.principal.app:
            return cursor
        at, _, last = cursor.partition(":")
        with suppress(NotFound):
            return f"{at}:{self._own(last).id}"
        return f"{at}:{AS_IS}"
