"""Reads everything Redis knows of the backlog at one moment, in one round trip for any number of tasks.

The list of live tasks is read in pages of a few hundred. Pages are cut by creation time, which does not change, so no
task is missed or read twice although Redis serves other clients between two pages.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from backends.redis.client import Arg, pairs
from backends.redis.epochs import REBUILD_STEP
from backends.redis.registry.task_rows import VIEW_FIELDS, TaskRow, Value, task_view
from backends.redis.view import RedisView
from backends.redis.workers import judged_beats
from dispatcher.analysis.task_times import counted_of
from dispatcher.model.errors import NotReady
from dispatcher.model.view import TaskView, WorkerBeat

TASK_FIELDS = (*(field for field in VIEW_FIELDS if field != "override"), "why")
"""Fields read of each task; without the edited message, which may be long and does not matter for the backlog."""
PAGE = 250
"""Tasks per page, about 3 ms of Redis' time."""
PAGE_AT_MOST = 8 * PAGE
"""Once a page has grown beyond this, the pages are cut again."""
MAX_CLAIMS = 5_000
"""Maximum number of claims that are read; with more, the targets in flight are not known."""
_BIG_ARGUMENT = 32 * 1024
"""Redis reads an argument of this size or more separately, and serves other clients before it reads the next call. With
10,000 tasks, other clients waited 130 ms when all pages came in one read, and wait 15 ms this way."""
_FIRST, _LAST = "-inf", "+inf"

_row = msgspec.msgpack.Decoder(tuple[str, str, int, list[str | bool]]).decode
_claim = msgspec.msgpack.Decoder(list[Any]).decode


class BacklogTask(NamedTuple):
    """One task of the backlog."""

    view: TaskView
    claims: int
    """Number of claims in force."""
    open: int
    """Number of recorded envelopes with open targets, which will be tried again."""
    why: dict[str, int]
    """Milliseconds by cause, as the ledger counted them."""


class ClaimedTargets(NamedTuple):
    """Targets under claims in force."""

    known: bool
    """Whether all claims were read."""
    targets: dict[str, int]
    """Number of targets by task."""


class BacklogState(NamedTuple):
    """The backlog as read in one round trip to Redis."""

    at_ms: int
    """Redis' time."""
    epoch: str
    settings: dict[str, str]
    """Settings of the service, as stored."""
    counters: dict[str, int]
    """Counters since the view was created (granted:TIER, used:TIER ...)."""
    pools: dict[str, dict[str, int]]
    """Fields of each pool that has a cap, and of `total`."""
    beats: list[WorkerBeat]
    tasks: list[BacklogTask]
    ended: list[BacklogTask]
    """Tasks that ended since the previous look, at most PAGE_AT_MOST; the next look has the others."""
    in_flight: ClaimedTargets


class BacklogReader:
    """Reads the backlog again and again. Methods raise Unreachable, and NotReady while the view is being rebuilt."""

    def __init__(self, view: RedisView) -> None:
        self._view = view
        self._cuts: list[int] | None = None
        self._ended_ms: int | None = None

    def read(self) -> BacklogState:
        """Read the backlog in one round trip. It takes two the first time, and after thousands of tasks were added to
        one page since the last look."""
        for _ in range(3):
            if self._cuts is None:
                self._cuts = [int(score) for score in self._view.call("backlog_pages", PAGE)]
            service, claims, ended, *pages = self._view.call_many(self._calls(self._cuts))
            if all(page[0] < PAGE_AT_MOST for page in pages):
                return self._read_state(service, claims, ended, pages)
            self._cuts = None
        raise NotReady("Tasks are created faster than they can be listed.", "Try again in a moment.")

    def _calls(self, cuts: Sequence[int]) -> list[tuple[str, Sequence[Arg]]]:
        edges = [_FIRST, *map(str, cuts), _LAST]
        pages = [("tasks", low if low == _FIRST else f"({low}", high) for low, high in pairwise(edges)]
        since = _LAST if self._ended_ms is None else f"({self._ended_ms}"
        return [
            ("backlog_service", ()),
            ("backlog_claims", (MAX_CLAIMS,)),
            *(("backlog_tasks", _page(*page)) for page in [("ended", since, _LAST), *pages]),
        ]

    def _read_state(self, service: Any, claims: Any, ended: Any, pages: Sequence[Any]) -> BacklogState:
        at_ms, epoch, ready, settings, counters, pools, beats = service
        if not ready:
            raise NotReady("The view in Redis is being rebuilt: its counts are not complete yet.", REBUILD_STEP)
        tasks = {task.view.id: task for page in pages for task in _tasks(page, at_ms)}
        gone = _tasks(ended, at_ms)
        self._cuts = _cuts([task.view.created_ms for task in tasks.values()])
        since_ms = at_ms if self._ended_ms is None else self._ended_ms
        self._ended_ms = max([since_ms, *(task.view.finished_ms for task in gone)])
        return BacklogState(
            at_ms=at_ms,
            epoch=epoch.decode(),
            settings=_texts(settings),
            counters={name: int(value) for name, value in _texts(counters).items()},
            pools={pool.decode(): {n: int(v) for n, v in _texts(fields).items()} for pool, fields in pairs(pools)},
            beats=judged_beats(beats, at_ms),
            tasks=list(tasks.values()),
            ended=gone,
            in_flight=_in_flight(claims),
        )


def _page(listed: str, low: str, high: str) -> list[Arg]:
    return [listed, low, high, PAGE_AT_MOST, len(TASK_FIELDS), *TASK_FIELDS, " " * _BIG_ARGUMENT]


def _cuts(created_ms: Sequence[int]) -> list[int]:
    """Return the creation times that end a page, one for every PAGE tasks. Tasks with the same time stay together."""
    in_order = sorted(created_ms)
    return sorted(set(in_order[PAGE - 1 : -1 : PAGE]))


def _tasks(page: Sequence[Any], now_ms: int) -> list[BacklogTask]:
    """Parse a page: the number of tasks found, then the known ones."""
    return [_task(packed, now_ms) for packed in page[1:]]


def _task(packed: bytes, now_ms: int) -> BacklogTask:
    task, state, count, values = _row(packed)
    stored = (value.encode() if isinstance(value, str) else None for value in values)
    fields: dict[str, Value] = dict(zip(TASK_FIELDS, stored, strict=True))
    row = TaskRow(task, state, {**fields, "override": None})
    return BacklogTask(task_view(row, now_ms), row.number("claims"), count, counted_of(row.text("why")))


def _in_flight(answer: Sequence[Any]) -> ClaimedTargets:
    there, *claims = answer
    targets: dict[str, int] = {}
    for name, packed in pairs(claims):
        task = name.decode().partition("|")[2]
        for run in _claim(packed)[2]:
            # writer, attempt, first, count, which tier paid ('' or 0: none did), targets in each envelope
            if len(run) > 5 and run[4]:
                targets[task] = targets.get(task, 0) + run[3] * run[5]
    return ClaimedTargets(not there or bool(claims), targets)


def _texts(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in pairs(flat)}
