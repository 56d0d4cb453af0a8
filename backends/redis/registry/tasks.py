"""Tasks in the registry: those with given ids, or pages of a selection, each in the shape that the reader needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from backends.redis.client import translated
from backends.redis.registry.task_rows import MARKED_FIELDS, TASK_VIEW, RowShape, mark_of
from backends.redis.view import ViewPart
from dispatcher.model.errors import InvalidInput
from dispatcher.model.view import ENDED_STATES, InFlight, TaskView

T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
_PAGE = 1_000
"""Maximum number of tasks that one script looks at, so that it blocks Redis for a few ms only."""
_SWEPT = _NAMED = 200
"""The same limit for scripts that run repeatedly over all live tasks, and for reads by id."""
_ALL = 10**9
"""More tasks than there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSelection:
    """Which tasks to list. None selects any value."""

    live: bool = False
    """Only tasks that have not ended."""
    state: str | None = None
    app: str | None = None
    tier: str | None = None
    channel: str | None = None
    id_prefix: str | None = None

    @property
    def listed(self) -> str:
        """Return the shortest list in Redis that has them all."""
        return "tasks" if self.live or not (self.state is None or self.state in ENDED_STATES) else "index"

    @property
    def filters(self) -> Mapping[str, str]:
        """Return the values that Redis compares, by field."""
        values = {"state": self.state, "app": self.app, "tier": self.tier, "channel": self.channel}
        return {name: value for name, value in (values | {"id": self.id_prefix}).items() if value}


ANY, LIVE = TaskSelection(), TaskSelection(live=True)


class Page(NamedTuple, Generic[T]):
    """A page of tasks."""

    now_ms: int
    """Redis' time."""
    tasks: list[T]
    cursor: str | None
    """Cursor of the next page; None if there is none."""


class TaskTable(ViewPart):
    """Tasks, live and ended. All methods raise Unreachable when Redis is gone."""

    # ------------------------------------------------------------- which tasks

    def named(self, tasks: Sequence[str], shape: RowShape[T], *, ended: bool | None = None) -> list[T]:
        """Return the known tasks among these; ended: only those that have ended, or only those that have not."""
        found: list[T] = []
        for first in range(0, len(tasks), _NAMED):
            part = tasks[first : first + _NAMED]
            now_ms, *rows = self._view.call("read_tasks", len(shape.fields), *shape.fields, *part)
            found += [shape.parse(row, now_ms) for row in rows if ended is None or bool(row[2][0]) == ended]
        return found

    def page(
        self,
        selection: TaskSelection,
        shape: RowShape[T],
        limit: int | None = 100,
        cursor: str | None = None,
        max_looks: int | None = None,
    ) -> Page[T]:
        """Return a page of tasks, newest first, from a cursor (None: from the first). Redis does the filtering.

        limit: None for all. max_looks: after this many looks at 1,000 tasks each, the page ends with what was found.
        Over all pages, a task that moved meanwhile may be missing, and a task may come twice.
        """
        found: list[T] = []
        most = _ALL if limit is None else limit
        for look in count(1):
            now_ms, rows, cursor = self._rows(selection, shape.fields, most - len(found), cursor)
            found.extend(shape.parse(row, now_ms) for row in rows)
            if cursor is None or len(found) >= most or look == max_looks:
                break
        return Page(now_ms, found, cursor)

    def live(self, shape: RowShape[T]) -> list[T]:
        """Return all tasks that have not ended, newest first, each once. Each page takes a few ms of Redis' time, for
        any number of tasks."""
        found: list[T] = []
        seen: set[bytes] = set()
        cursor = None
        while True:
            now_ms, rows, cursor = self._rows(LIVE, shape.fields, _PAGE, cursor)
            found += [shape.parse(row, now_ms) for row in rows if row[0] not in seen]
            if cursor is None:
                return found
            seen.update(row[0] for row in rows)

    def live_ids(self, first: int, count: int) -> list[str]:
        """Return tasks that have not ended, by their places in the order of creation."""
        ids = self._view.command("ZRANGE", self._view.keys.tasks, first, first + count - 1)
        return [id_.decode() for id_ in ids]

    def live_marks(self, first: int, count: int) -> dict[str, int]:
        """Return the same with their marks (`mark_of`). It costs Redis a small part of a read."""
        ids = self.live_ids(first, count)
        with translated(self._view.client):
            pipeline = self._view.client.pipeline(transaction=False)
            for id_ in ids:
                pipeline.hmget(self._view.keys.task(id_), MARKED_FIELDS)
            return dict(zip(ids, map(mark_of, pipeline.execute()), strict=True))

    def live_count(self) -> int:
        """Return the number of tasks that have not ended."""
        return int(self._view.command("ZCARD", self._view.keys.tasks))

    def task(self, task: str) -> TaskView | None:
        """Return a task, or None if it is not known or its tombstone has expired."""
        return next(iter(self.named([task], TASK_VIEW)), None)

    # ------------------------------------------------------------- ends

    def ends(self, tasks: Sequence[str]) -> dict[str, bool]:
        """Return whether each known task among these has ended."""
        return {end.id: end.ended for end in self.named(tasks, TASK_VIEW)}

    def ended_since(self, at_ms: int) -> list[str]:
        """Return the ids of tasks that ended at that time or later."""
        return [task.decode() for task in self._view.command("ZRANGEBYSCORE", self._view.keys.ended, at_ms, "+inf")]

    def complete(self) -> list[str]:
        """Return tasks that are sealed and have an outcome for every target but no tombstone; none while the view is
        not ready."""
        complete_tasks: list[str] = []
        first = 0
        while True:
            looked_at, *complete = self._view.call("complete_tasks", first, _SWEPT)
            complete_tasks += [task.decode() for task in complete]
            first += _SWEPT
            if looked_at < _SWEPT:
                return complete_tasks

    def prune(self) -> int:
        """Remove from the lists the tasks whose tombstones have expired; return their number."""
        return int(self._view.call("prune", _PAGE))

    # ------------------------------------------------------------- what happened to them

    def in_flight(self, tasks: Sequence[str]) -> dict[str, InFlight]:
        """Return what each known task has in flight. All values are of one moment."""
        rows = self._view.call("in_flight", *tasks) if tasks else []
        return {task.decode(): InFlight(targets, claims, sent) for task, targets, claims, sent in rows}

    # ------------------------------------------------------------- helpers

    def _rows(self, selection: TaskSelection, fields: Sequence[str], limit: int, cursor: str | None) -> Page[Any]:
        score, last = _parsed_cursor(cursor)
        looks = _PAGE if selection.filters else max(1, min(limit, _PAGE))  # nothing is left out of what is looked at
        now_ms, next_score, next_id, *rows = self._view.call(
            "list_tasks", selection.listed, _encode(selection.filters), limit, looks, score, last, len(fields), *fields
        )
        return Page(now_ms, rows, f"{next_score.decode()}:{next_id.decode()}" if next_id else None)


def _parsed_cursor(cursor: str | None) -> tuple[str, str]:
    """Return the score and id after which a page begins. Raises InvalidInput."""
    if cursor is None:
        return "", ""
    score, _, last = cursor.partition(":")
    if not last or not score.isdecimal():
        raise InvalidInput(f"cursor: {cursor!r} is not a cursor.", "Use the cursor that the previous page named.")
    return score, last
