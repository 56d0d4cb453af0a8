"""The board: all live tasks in the memory of this process, so that no list asks Redis for more than one page.

A thread reads what the feed of changes names at once, what event streams follow each second, and all tasks page by page
again and again. It takes a bounded part of Redis' time. While Redis is gone, or its view is being rebuilt, the last
figures stay, with their age.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from msgspec.structs import replace

from backends.redis.epochs import REBUILD_STEP, Epochs
from backends.redis.registry.registry import Feed, Registry
from backends.redis.registry.task_rows import TASK_VIEW
from backends.redis.registry.tasks import LIVE
from backends.redis.view import RedisView, open_view
from backends.redis.workers import Workers
from backends.settings import RedisSettings
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, NotReady, Unreachable
from dispatcher.model.view import TaskView
from producers.control.foresight import Foresight
from producers.desk.board_follower import MAX_CHANGES, Follower, Followers
from producers.desk.board_lists import Lists, Selection, Sort
from producers.desk.board_share import Share

SWEEP_S = 15.0
"""All tasks are read once in this time, or as soon after it as the share allows."""
_CALL = 200
"""Tasks read in one call, so that Redis and this process wait for a few ms only."""
_LOOK_S = 1.0
"""How often the view's epoch and the tasks of event streams are read."""
_BLOCK_S = 0.25
"""The longest wait for the feed."""
_COSTS = 20
"""Lists and estimates are made again after this many times the time that they took."""
_LISTS_S, _ETAS_S = 0.2, 2.0
"""The least time until then."""
_FILTERS = 10
"""Filters of event streams that are evaluated in one look."""
_START_S = 1.0
_GATHER_S = 0.02
"""Time between two rounds, so that changes close together are handled in one."""
_MAY_EXPIRE = ("scheduled", "running", "paused")
_FASTEST = Sort("rate")
_log = logging.getLogger(__name__)


class Age(NamedTuple):
    """How far the board can be relied on."""

    as_of_ms: int
    """Wall time up to which it knows which tasks there are, and in which states."""
    age_s: float
    """Seconds since then."""
    complete: bool
    """Whether all live tasks were read since this process, or the view, began."""
    read: int
    """Live tasks that were read."""
    total: int | None
    """Live tasks in the view; None if that is not known."""


class Page(NamedTuple):
    """A page of live tasks."""

    tasks: list[TaskView]
    """Fewer than asked for if some have left the selection meanwhile."""
    cursor: str | None
    """Cursor of the next page; None: this is the last."""


class Board:
    """Holds the live tasks. Methods may be called by any thread."""

    def __init__(self, view: RedisView, clock: Clock, share: Share) -> None:
        """view: with connections of its own. share: what the view's scripts charge."""
        self._view = view
        self._registry = Registry(view)
        self._epochs = Epochs(view)
        self._feed = Feed(view, _BLOCK_S)
        self._foresight = Foresight(self._registry, Workers(view))
        self._clock = clock
        self._share = share
        self._followers = Followers()
        self._tasks: dict[str, TaskView] = {}
        self._sweep = _Sweep()
        self._named: dict[str, float] = {}
        """Tasks to be read, with the times when they were named, the oldest first."""
        self._asked: deque[str] = deque()
        """Tasks that other threads name."""
        self._lists, self._etas = Lists(), dict[str, float]()
        self._is_changed = self._is_ready = self._is_complete = False
        """Whether tasks differ from those of the lists; whether the view answers and is complete; whether the lists
        have all tasks."""
        self._epoch = ""
        self._position: bytes | None = None
        self._as_of_s = self._look_at_s = self._lists_at_s = self._etas_at_s = float("-inf")
        self._stop, self._begun = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="board", daemon=True)

    @classmethod
    def open(cls, settings: RedisSettings, clock: Clock) -> Self:
        """Return the board of the service at an address. Raises NotConfigured."""
        share = Share(clock)
        view = open_view(settings, observe=share.charge, must_run=False)
        return cls(view, clock, share)

    def start(self) -> None:
        """Begin to read; return once all tasks are read, but after a second at most."""
        self._thread.start()
        self._begun.wait(_START_S)

    def close(self) -> None:
        """End the thread, and close the connections."""
        self._stop.set()
        self._thread.join()
        self._feed.close()
        self._view.close()

    # ------------------------------------------------------------------------------ what requests ask

    def page(self, selection: Selection, sort: Sort, limit: int, cursor: str | None = None) -> Page:
        """Return a page of live tasks, read now; as they were last read if Redis is gone. Raises InvalidInput; NotReady
        if no task was ever read."""
        self._check()
        rows, cursor = self._lists.page(selection, sort, limit, cursor)
        return Page([self.foreseen(row) for row in self._fresh(rows, selection)], cursor)

    def counts(self, app: str = "") -> dict[str, dict[str, int]]:
        """Return the number of live tasks by app, state, tier and channel; app: only of its own, empty: of all."""
        return self._lists.counts(app)

    def task(self, id_: str) -> TaskView | None:
        """Return a live task as it was last read; None if it is not known."""
        task = self._tasks.get(id_)
        return None if task is None else self.foreseen(task)

    def live(self) -> list[TaskView]:
        """Return all live tasks as they were last read, without estimates. Raises NotReady if none was ever read."""
        self._check()
        return list(self._tasks.values())

    def foreseen(self, task: TaskView) -> TaskView:
        """Return a task with the seconds until it is done, if an end can be predicted."""
        return task if task.ended else replace(task, eta_s=self._etas.get(task.id))

    def age(self, app: str = "") -> Age:
        """Return how far the board can be relied on. app: count its tasks only. Raises NotReady if nothing was read."""
        self._check()
        age_s = self._clock.monotonic_s() - self._as_of_s
        as_of_ms = self._clock.wall_ms() - round(age_s * 1000)
        is_complete, size, sweep = self._is_complete, self._lists.size(app), self._sweep
        if is_complete or app:
            return Age(as_of_ms, age_s, is_complete, size, size if is_complete else None)
        return Age(as_of_ms, age_s, is_complete, sweep.read, max(sweep.read, sweep.total))

    def follow(self, follower: Follower) -> None:
        """Put the present states of its tasks to a follower, and then their changes. Raises NotReady, also if too many
        follow."""
        self._check()
        self._followers.add(follower)
        if (id_ := follower.selection.id) is None:
            known = self._lists.page(follower.selection, Sort(), MAX_CHANGES + 1)[0]
        else:
            known = follower.selection.among(task for task in (self._tasks.get(id_),) if task is not None)
            self._asked.append(id_)
        for task in known:
            follower.put(self.foreseen(task))

    def unfollow(self, follower: Follower) -> None:
        """End what `follow` began."""
        self._followers.remove(follower)

    def _check(self) -> None:
        if self._as_of_s == float("-inf"):
            raise NotReady(
                "No task was read since this process began: Redis does not answer, or its view is being rebuilt.",
                REBUILD_STEP,
            )

    def _fresh(self, rows: Sequence[TaskView], selection: Selection) -> Iterable[TaskView]:
        """Return rows as they are now, without those that the selection does not select any more."""
        if not rows or not self._is_ready:
            return rows
        try:
            found = self._read([row.id for row in rows])
        except Unreachable:
            return rows
        by_id = {task.id: task for task in found}
        fresh = (by_id.get(row.id, row) for row in rows)
        return selection.among(task for task in fresh if not task.ended)

    def _read(self, ids: Sequence[str]) -> list[TaskView]:
        return self._registry.tasks.named(ids, TASK_VIEW)

    # ------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while not self._stop.wait(_GATHER_S):
            try:
                self._round()
            except Exception as error:  # without this thread lists would grow old for ever
                level = logging.DEBUG if isinstance(error, FairlaneError) else logging.ERROR
                _log.log(level, "the board is not up to date: %s", error, exc_info=level == logging.ERROR)
                self._is_ready = False
                self._stop.wait(_LOOK_S / 2)

    def _round(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s >= self._look_at_s or not self._is_ready:
            self._look(now_s)
        wait_s = max(self._share.wait_s(), 0.0 if self._named else self._sweep.at_s - now_s)
        self._position, entries = self._feed.watch(self._position, round(min(_BLOCK_S, wait_s) * 1000))
        now_s = self._clock.monotonic_s()
        self._name((entry.task for entry in entries if entry.kind == "task"), now_s)
        self._name((self._asked.popleft() for _ in range(len(self._asked))), now_s)
        if self._share.wait_s() <= 0:
            self._read_next(now_s)
        self._make_lists()
        if not self._is_changed:
            self._as_of_s, self._is_complete = next(iter(self._named.values()), now_s), self._sweep.is_complete
            if self._is_complete:
                self._begun.set()

    def _look(self, now_s: float) -> None:
        """Learn whether the view is another one, which tasks are due by the clock, and what is followed. Raises
        NotReady."""
        epoch = self._ready_epoch()
        if epoch != self._epoch:
            self._epoch, self._position, self._sweep = epoch, self._feed.last(), _Sweep()
        if not self._sweep.is_complete:
            self._sweep.total = self._registry.tasks.live_count()
        self._name(self._due(), now_s)
        self._name(self._followers.watched(self._lists), now_s)
        self._is_ready, self._look_at_s = True, now_s + _LOOK_S

    def _ready_epoch(self) -> str:
        epoch = self._epochs.ready_view()
        if not epoch:
            raise NotReady("The view in Redis is being rebuilt.", REBUILD_STEP)
        return epoch

    def _check_epoch(self) -> None:
        """Raise NotReady unless the view is still the same: in a view that was wiped all tasks are unknown."""
        if self._ready_epoch() != self._epoch:
            raise NotReady("The view in Redis was rebuilt.")

    def _due(self) -> list[str]:
        """Return tasks whose state the time has changed: no record, and so no entry of the feed, says it."""
        now_ms, tasks = self._clock.wall_ms(), self._tasks.values()
        due = [task.id for task in tasks if task.state == "scheduled" and task.start_ms <= now_ms]
        return due + [task.id for task in tasks if 0 < task.expires_ms <= now_ms and task.state in _MAY_EXPIRE]

    def _name(self, tasks: Iterable[str], now_s: float) -> None:
        for task in tasks:
            self._named.setdefault(task, now_s)

    def _read_next(self, now_s: float) -> None:
        """Make one call: for tasks that are named, or else for the next page of all."""
        if self._named:
            ids = list(self._named)[:_CALL]
            found = self._read(ids)
            for id_ in ids:
                del self._named[id_]
            self._put(found, ids)
        elif now_s >= self._sweep.at_s:
            self._read_page(now_s)

    def _read_page(self, now_s: float) -> None:
        sweep = self._sweep
        page = self._registry.tasks.page(LIVE, TASK_VIEW, _CALL, sweep.cursor)
        if sweep.cursor is None:
            sweep.missed, sweep.read = set(self._tasks), 0
        self._put(page.tasks)
        if page.cursor is None:
            self._check_epoch()
        sweep.take(page.cursor, [task.id for task in page.tasks])
        sweep.at_s = now_s + (SWEEP_S * _CALL / max(_CALL, len(self._tasks)) if sweep.is_complete else 0.0)
        if page.cursor is None:
            self._name(sweep.missed, now_s)

    def _put(self, found: Iterable[TaskView], asked: Iterable[str] = ()) -> None:
        """Take over tasks as they were read. asked: ids by which they were read: those not found are unknown."""
        unknown = dict.fromkeys(asked)
        for task in found:
            unknown.pop(task.id, None)
            before = self._tasks.get(task.id)
            if not task.ended:
                self._tasks[task.id] = task
            elif before is not None:
                del self._tasks[task.id]
            if task != before:
                self._is_changed = True
                self._followers.put(before, self.foreseen(task))
        if gone := unknown.keys() & self._tasks.keys():
            self._check_epoch()
        for id_ in gone:
            self._is_changed = True
            self._followers.forget(self._tasks.pop(id_))

    def _make_lists(self) -> None:
        began_s = self._clock.monotonic_s()
        if began_s >= self._etas_at_s:
            etas = self._foresight.estimate(self._tasks.values)
            self._is_changed |= etas != self._etas
            self._etas, self._etas_at_s = etas, self._again_s(began_s, _ETAS_S)
        began_s = self._clock.monotonic_s()
        if self._is_changed and began_s >= self._lists_at_s:
            self._lists, self._is_changed = Lists(self._tasks.values(), self._etas), False
            self._lists_at_s = self._again_s(began_s, _LISTS_S)

    def _again_s(self, began_s: float, least_s: float) -> float:
        """Return when to repeat what began at a time and is done now, so that it takes a bounded part of the time."""
        now_s = self._clock.monotonic_s()
        return now_s + max(least_s, _COSTS * (now_s - began_s))


class _Sweep:
    """Reads all tasks, page by page, again and again."""

    def __init__(self) -> None:
        self.cursor: str | None = None
        self.at_s = float("-inf")
        """When the next page is due."""
        self.is_complete = False
        """Whether all pages were read once."""
        self.read = self.total = 0
        self.missed: set[str] = set()
        """Tasks that were known before, and are on no page so far."""

    def take(self, cursor: str | None, ids: Sequence[str]) -> None:
        """Note what a page had, and the cursor of the next."""
        self.cursor, self.read = cursor, self.read + len(ids)
        self.missed.difference_update(ids)
        self.is_complete |= cursor is None
