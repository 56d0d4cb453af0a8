"""Those who follow tasks: what has happened since they last asked, in bounded memory."""

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from dispatcher.model.errors import NotReady
from dispatcher.model.view import TaskView
from producers.desk.board.lists import Lists, Selection, Sort

MAX_FOLLOWERS = 500
MAX_CHANGES = 500
"""Tasks whose changes wait for a follower. Of one task the latest state is kept."""
_FILTERS = 10
"""Filters that are evaluated in one look; more take turns."""
_FASTEST = Sort("rate")


class Changes(NamedTuple):
    """The changes of the tasks of a follower."""

    is_reset: bool
    """Whether more has happened than was kept: the follower should read the tasks again."""
    tasks: list[TaskView]
    """The changed tasks in their latest states, those that have ended too."""


class Follower:
    """Collects changes of the tasks of a selection. Its methods may be called by any thread."""

    def __init__(self, selection: Selection, wake: Callable[[], None]) -> None:
        """wake: called, by any thread, once there is something to take."""
        self.selection = selection
        self._wake = wake
        self._lock = threading.Lock()
        self._changes: dict[str, TaskView] = {}
        self._is_reset = False

    def put(self, task: TaskView) -> None:
        """Note the latest state of a task."""
        with self._lock:
            is_first = not (self._changes or self._is_reset)
            if not self._is_reset:
                self._changes[task.id] = task
            if len(self._changes) > MAX_CHANGES:
                self._changes, self._is_reset = {}, True
        if is_first:
            self._wake()

    def reset(self) -> None:
        """Let the follower read its tasks again."""
        with self._lock:
            self._changes, self._is_reset = {}, True
        self._wake()

    def take(self) -> Changes:
        """Return what has happened since the last call."""
        with self._lock:
            taken = Changes(self._is_reset, list(self._changes.values()))
            self._changes, self._is_reset = {}, False
        return taken


class Followers:
    """All followers of a process. Its methods may be called by any thread, but for `watched`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_subject: dict[tuple[str, str], list[Follower]] = {}
        self._turn = 0

    def add(self, follower: Follower) -> None:
        """Let a follower hear of changes. Raises NotReady if there are too many."""
        with self._lock:
            if sum(map(len, self._by_subject.values())) >= MAX_FOLLOWERS:
                raise NotReady(
                    f"{MAX_FOLLOWERS} event streams are open in this process, which is the maximum.",
                    "Try again later, or follow several tasks in one stream.",
                )
            self._by_subject.setdefault(_subject(follower.selection), []).append(follower)

    def remove(self, follower: Follower) -> None:
        """End what `add` began."""
        with self._lock:
            subject = _subject(follower.selection)
            self._by_subject[subject].remove(follower)
            if not self._by_subject[subject]:
                del self._by_subject[subject]

    def put(self, before: TaskView | None, now: TaskView) -> None:
        """Tell those who follow a task, or did until now, its state."""
        for follower in self._of(now, *([before] if before else [])):
            follower.put(now)

    def forget(self, task: TaskView) -> None:
        """Tell those who follow a task that it is not known any more."""
        for follower in self._of(task):
            follower.reset()

    def watched(self, lists: Lists) -> Iterable[str]:
        """Return tasks to be read often, up to a bound: single ones, then those of filters, the fastest first."""
        with self._lock:
            selections = list(dict.fromkeys(each.selection for some in self._by_subject.values() for each in some))
        ids = {selection.id: None for selection in selections if selection.id is not None}
        filters = [selection for selection in selections if selection.id is None]
        self._turn = (self._turn + _FILTERS) % max(1, len(filters))
        for selection in (filters[self._turn :] + filters[: self._turn])[:_FILTERS]:
            ids |= {task.id: None for task in lists.page(selection, _FASTEST, MAX_CHANGES)[0]}
        return list(ids)[:MAX_CHANGES]

    def _of(self, *versions: TaskView) -> list[Follower]:
        """Return who follows a task in any of its versions."""
        task = versions[0]
        with self._lock:
            subjects = (("task", task.id), ("app", task.app), ("", ""))
            near = [follower for subject in subjects for follower in self._by_subject.get(subject, ())]
        return [follower for follower in near if follower.selection.among(versions)]


def _subject(selection: Selection) -> tuple[str, str]:
    """Return under what a change finds a selection at once."""
    if selection.id is not None:
        return "task", selection.id
    return ("", "") if selection.app is None else ("app", selection.app)
