"""The board: all live tasks in the memory of this process, so that no list asks Redis for more than one page.

A thread reads what the feed of changes names at once, what event streams follow each second, and all tasks page by page
again and again. It takes a bounded part of Redis' time. While Redis is gone, or its view is being rebuilt, the last
figures stay, with their age.
"""

import gc
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Self

from msgspec.structs import replace

from backends.redis.epochs import REBUILD_STEP, Epochs
from backends.redis.registry.registry import Feed, Registry
from backends.redis.registry.task_rows import MARKED_VIEW
from backends.redis.view import RedisView, open_view
from backends.redis.workers import Workers
from backends.settings import RedisSettings
from dispatcher.analysis.failing import fails_by
from dispatcher.analysis.forecast import Steps
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, NotReady, Unreachable
from dispatcher.model.view import TaskView
from producers.control.foresight import Foresight
from producers.desk.board.follower import MAX_CHANGES, Follower, Followers
from producers.desk.board.groups import TaskGroup
from producers.desk.board.lists import Selection, Sort
from producers.desk.board.share import Share
from producers.desk.board.shown import COSTS, ShownLists

SWEEP_S = 15.0
"""The marks of all tasks are read once in this time, or as soon after it as SWEEP_PART allows."""
SWEEP_PART = 0.04
"""The largest part of the time for that. Redis works for a third of it; the rest is spent here, on 200 commands."""
_CALL = 200
"""Tasks read in one call, so that Redis and this process wait for a few ms only."""
_IDS = 2_000
"""Tasks named in one call while none are known."""
_LOOK_S = 1.0
"""How often the view's epoch and the tasks of event streams are read."""
_BLOCK_S = 0.25
"""The longest wait for the feed."""
_ETAS_S = 2.0
"""The least time between two estimates."""
_START_S = 1.0
_SWITCH_S = 0.0005
"""How long a forecast computes before another thread may. A page asks Redis some 20 times, and after each answer it
waits for that long: with Python's 5 ms it took a second."""
_GATHER_S = 0.02
"""Time between two rounds, so that changes close together are handled in one."""
_MAY_EXPIRE = ("scheduled", "running", "paused")
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
        self.followers = Followers()
        self._tasks: dict[str, TaskView] = {}
        self._sweep = _Sweep()
        self._named: dict[str, float] = {}
        """Tasks to be read, with the times when they were named, the oldest first."""
        self._recent: dict[str, TaskView] = {}
        """Tasks that pages have shown within the last second, and that have not changed since."""
        self._asked: deque[str] = deque()
        """Tasks that other threads name."""
        self._shown = ShownLists(clock)
        self._etas: Mapping[str, float] = {}
        self._steps: tuple[float, Steps] = (0.0, ())
        """When the last forecast was made, and what is sent from then on."""
        self._marks: dict[str, int] = {}
        """Marks of the tasks, as they were when these were read."""
        self._is_ready = self._is_complete = False
        """Whether the view answers and is complete; whether all of its tasks were read."""
        self._epoch = ""
        self._position: bytes | None = None
        self._look_at_s = float("-inf")
        self._stop, self._begun = threading.Event(), threading.Event()
        steps = {"board": self._round, "estimates": self._foresee}
        self._threads = [
            threading.Thread(target=self._repeat, args=(step,), name=name, daemon=True) for name, step in steps.items()
        ]

    @classmethod
    def open(cls, settings: RedisSettings, clock: Clock) -> Self:
        """Return the board of the service at an address. Raises NotConfigured."""
        share = Share(clock)
        view = open_view(settings, observe=share.note, must_run=False)
        return cls(view, clock, share)

    def start(self) -> None:
        """Begin to read; return once all tasks are read, but after a second at most."""
        for thread in self._threads:
            thread.start()
        self._begun.wait(_START_S)

    def close(self) -> None:
        """End the threads, and close the connections."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._feed.close()
        self._view.close()

    # ------------------------------------------------------------------------------ what requests ask

    def page(
        self, selection: Selection, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[TaskView], str | None]:
        """Return a page of live tasks, and the cursor of the next (None: this is the last).

        Each is as it was within the last second; as it was last read if Redis is gone. Those that have left the
        selection meanwhile are not among them. Raises InvalidInput; NotReady if no task was ever read.
        """
        self._check()
        rows, cursor = self._shown.lists.page(selection, sort, limit, cursor)
        return [self.foreseen(row) for row in self._fresh(rows, selection)], cursor

    def counts(self, app: str = "") -> dict[str, dict[str, int]]:
        """Return the number of live tasks by app, state, tier and channel; app: only of its own, empty: of all."""
        return self._shown.lists.counts(app)

    def facets(self, selection: Selection) -> dict[str, dict[str, int]]:
        """Return the number of live tasks by the values that one field of a selection may have beside the others."""
        return self._shown.lists.facets(selection)

    def groups(self) -> list[TaskGroup]:
        """Return all live tasks in groups. Raises NotReady if none was ever read."""
        self._check()
        return self._shown.lists.groups()

    def task(self, id_: str) -> TaskView | None:
        """Return a live task as it was last read; None if it is not known."""
        task = self._tasks.get(id_)
        return None if task is None else self.foreseen(task)

    def live(self) -> list[TaskView]:
        """Return all live tasks as they were last read, without estimates. Raises NotReady if none was ever read."""
        self._check()
        return list(self._tasks.values())

    def ahead(self) -> Steps:
        """Return what will be sent by tier: seconds from now, and the targets/s from then on."""
        (made_s, steps), now_s = self._steps, self._clock.monotonic_s()
        return [(at_s + made_s - now_s, rates) for at_s, rates in steps]

    def foreseen(self, task: TaskView) -> TaskView:
        """Return a task with the seconds until it is done, if an end can be predicted.

        It may be newer than the forecast, as no record says whether it is sent: then it has the end of its own rate, or
        none, and is read for the next forecast.
        """
        known, eta_s = self._tasks.get(task.id), self._etas.get(task.id)
        if task.ended:
            return task
        if known is not None and bool(known.rate) != bool(task.rate):
            self._asked.append(task.id)
        if fails_by(task, self._clock.wall_ms()):
            eta_s = None
        elif eta_s is None and task.rate and task.sealed:
            eta_s = task.targets.pending / task.rate
        return replace(task, eta_s=eta_s)

    def age(self, app: str = "") -> Age:
        """Return how far the board can be relied on. app: count its tasks only. Raises NotReady if nothing was read."""
        self._check()
        age_s = self._clock.monotonic_s() - self._shown.as_of_s
        as_of_ms = self._clock.wall_ms() - round(age_s * 1000)
        is_complete, size, sweep = self._shown.is_complete, self._shown.lists.size(app), self._sweep
        if is_complete or app:
            return Age(as_of_ms, age_s, is_complete, size, size if is_complete else None)
        read = max(0, sweep.place - len(self._named))
        return Age(as_of_ms, age_s, is_complete, read, max(read, sweep.total))

    def follow(self, follower: Follower) -> None:
        """Put the present states of its tasks to a follower, and then their changes, until it is removed from
        `followers`. Raises NotReady, also if too many follow."""
        self._check()
        self.followers.add(follower)
        if follower.selection.id is not None:
            self._asked.append(follower.selection.id)
        for task in self.present(follower.selection, MAX_CHANGES + 1):
            follower.put(task)

    def present(self, selection: Selection, limit: int = MAX_CHANGES) -> list[TaskView]:
        """Return the newest of the selected tasks as they were last read."""
        one = selection.id
        ids = [task.id for task in self._shown.lists.page(selection, Sort(), limit)[0]] if one is None else [one]
        return [self.foreseen(task) for id_ in ids if (task := self._tasks.get(id_)) and selection.among([task])]

    def _check(self) -> None:
        if self._shown.as_of_s == float("-inf"):
            raise NotReady(
                "No task was read since this process began: Redis does not answer, or its view is being rebuilt.",
                REBUILD_STEP,
            )

    def _fresh(self, rows: Sequence[TaskView], selection: Selection) -> Iterable[TaskView]:
        """Return rows as they were a second ago or later, without those that the selection does not select any more."""
        if not rows or not self._is_ready:
            return rows
        recent = self._recent
        try:
            if missing := [row.id for row in rows if row.id not in recent]:
                recent.update((task.id, task) for task, _ in self._read(missing))
        except Unreachable:
            return rows
        fresh = (recent.get(row.id, row) for row in rows)
        return selection.among(task for task in fresh if not task.ended)

    def _read(self, ids: Sequence[str]) -> list[tuple[TaskView, int]]:
        """Return tasks with their marks."""
        found = self._registry.tasks.named(ids, MARKED_VIEW)
        self._share.charge("view", len(ids))
        return found

    # ------------------------------------------------------------------------------ the thread

    def _repeat(self, step: Callable[[], float]) -> None:
        """Call a step until `close`. It returns the seconds until the next."""
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            try:
                wait_s = step()
            except Exception as error:  # without this thread lists would grow old for ever
                level = logging.DEBUG if isinstance(error, FairlaneError) else logging.ERROR
                _log.log(level, "the board is not up to date: %s", error, exc_info=level == logging.ERROR)
                self._is_ready, wait_s = False, _LOOK_S / 2

    def _round(self) -> float:
        now_s = self._clock.monotonic_s()
        if now_s >= self._look_at_s or not self._is_ready:
            self._look(now_s)
        wait_s = max(self._share.wait_s(), 0.0 if self._named else self._sweep.at_s - now_s)
        self._position, entries = self._feed.watch(self._position, round(min(_BLOCK_S, wait_s) * 1000))
        now_s = self._clock.monotonic_s()
        for entry in entries:
            self._recent.pop(entry.task, None)
            if entry.kind == "task":
                self._name([entry.task], now_s)
        self._name((self._asked.popleft() for _ in range(len(self._asked))), now_s)
        if self._share.wait_s() <= 0:
            self._read_next(now_s)
        self._is_complete |= self._sweep.is_over and not self._named
        known_s = next(iter(self._named.values()), now_s)
        self._shown.update(self._tasks.values(), self._etas, known_s, is_complete=self._is_complete)
        if self._shown.is_complete:
            self._begun.set()
        return _GATHER_S

    def _look(self, now_s: float) -> None:
        """Learn whether the view is another one, which tasks are due by the clock, and what is followed. Raises
        NotReady."""
        self._recent = {}
        epoch = self._epochs.ready_view()
        if epoch and epoch != self._epoch:
            self._epoch, self._position, self._sweep = epoch, self._feed.last(), _Sweep()
            self._marks, self._is_complete = {}, False
        self._check_epoch(epoch)
        settings = self._registry.service.globals()
        self._shown.is_stale |= settings != self._shown.settings
        self._shown.settings = settings
        if not self._is_complete:
            self._sweep.total = self._registry.tasks.live_count()
        self._name(self._due(), now_s)
        self._name(self.followers.watched(self._shown.lists), now_s)
        self._is_ready, self._look_at_s = True, now_s + _LOOK_S

    def _check_epoch(self, present: str) -> None:
        """Raise NotReady unless the view is complete, and the one that is read: in one that was wiped all tasks are
        unknown."""
        if not present or present != self._epoch:
            raise NotReady("The view in Redis is being rebuilt.", REBUILD_STEP)

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
            self._marks |= ((task.id, mark) for task, mark in found if not task.ended)
            self._put((task for task, _ in found), ids)
        elif now_s >= self._sweep.at_s:
            self._read_page(now_s)

    def _read_page(self, now_s: float) -> None:
        """Read the marks of the next tasks, and name those that have changed. What is being sent has: its rate ends
        without a record. In the first turn all are named: their marks come with them."""
        sweep, tasks = self._sweep, self._registry.tasks
        shape, size = ("marks", _CALL) if self._is_complete else ("ids", _IDS)
        page = sweep.place, size
        marks = tasks.live_marks(*page) if self._is_complete else dict.fromkeys(tasks.live_ids(*page))
        self._share.note("", self._clock.monotonic_s() - now_s)
        cost_s = self._share.charge(shape, len(marks))
        known = ((id_, mark, self._tasks.get(id_)) for id_, mark in marks.items())
        changed = [id_ for id_, mark, task in known if task is None or task.rate or self._marks.get(id_) != mark]
        sweep.seen.update(marks)
        sweep.place += len(marks)
        pace_s = SWEEP_S * _CALL / max(_CALL, len(self._tasks))
        sweep.at_s = now_s + max(pace_s if self._is_complete else 0.0, cost_s / SWEEP_PART)
        if len(marks) < size:
            self._check_epoch(self._epochs.ready_view())
            changed += self._tasks.keys() - sweep.seen
            sweep.seen, sweep.place, sweep.is_over = set(), 0, True
        self._name(changed, now_s)

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
                self._marks.pop(task.id, None)
            if task != before:
                self._shown.is_stale = True
                self.followers.put(before, self.foreseen(task))
        if gone := unknown.keys() & self._tasks.keys():
            self._check_epoch(self._epochs.ready_view())
        for id_ in gone:
            self._shown.is_stale = True
            self.followers.forget(self._tasks.pop(id_))
            self._marks.pop(id_, None)

    def _foresee(self) -> float:
        """Estimate the ends of all tasks: with many that takes seconds, in which the feed is still heard."""
        began_s = self._clock.monotonic_s()
        with _making_room():
            etas, steps = self._foresight.estimate(lambda: list(self._tasks.values()))
        self._shown.is_stale |= etas != self._etas
        self._etas, self._steps = etas, (began_s, steps)
        return max(_ETAS_S, COSTS * (self._clock.monotonic_s() - began_s))


@contextmanager
def _making_room() -> Iterator[None]:
    """Let other threads run often: at all times it would take a third of the requests a second. Collect no garbage: a
    look at the tasks of a forecast stops all threads for 0.04 s, and they are gone with it."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        sys.setswitchinterval(before_s)


class _Sweep:
    """Reads the marks of all tasks, page by page, again and again."""

    def __init__(self) -> None:
        self.at_s = float("-inf")
        """When the next page is due."""
        self.place = 0
        """The number of tasks that were read in this turn."""
        self.seen: set[str] = set()
        self.is_over = False
        """Whether there was a whole turn."""
        self.total = 0
