"""Everything that Redis knows of the backlog at one moment, in one round trip however many tasks there are.

The list of live tasks is read in pages of a few hundred, cut by when the tasks were created, which does not change: so
none is missed or read twice, although Redis serves others between two pages.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from backends.redis.client import Arg
from backends.redis.task_rows import VIEW_FIELDS, Row, Value, task_view
from backends.redis.view import RedisView
from dispatcher.analysis.why import counted_of
from dispatcher.model.errors import NotReady
from dispatcher.model.view import TaskView, WorkerBeat

TASK_FIELDS = (*(field for field in VIEW_FIELDS if field != "override"), "why")
"""An edited message may be long, and says nothing of the backlog."""
PAGE = 250
"""Tasks of a page: some 3 ms of Redis' time."""
PAGE_AT_MOST = 8 * PAGE
"""A page that has grown beyond this since it was cut makes the cuts old."""
MOST_CLAIMS = 5_000
"""Claims that are looked into; with more of them it is not known what is in flight."""
BUCKET_UNIT = 1_000_000
"""A target, in the buckets of pools (quotas/lua/shared/integers.lua)."""
_BIG_ARGUMENT = 32 * 1024
"""From this size on, Redis reads an argument by itself: it serves other clients before it reads the next call. With all
pages of 10,000 tasks in one read they waited for 130 ms, so for 15 ms."""
_FIRST, _LAST = "-inf", "+inf"

_beat = msgspec.msgpack.Decoder(WorkerBeat).decode
_row = msgspec.msgpack.Decoder(tuple[str, str, int, list[str | bool]]).decode
_claim = msgspec.msgpack.Decoder(tuple[int, int, list[tuple[Any, ...]]], strict=False).decode


class BacklogTask(NamedTuple):
    """claims: how many are in force. open: envelopes that are recorded and have open targets, that is, of which
    something is to be tried again. why: ms by cause, as the ledger counted them."""

    view: TaskView
    claims: int
    open: int
    why: dict[str, int]


class ClaimedTargets(NamedTuple):
    """By task: targets under claims in force. known: whether all claims were looked into."""

    known: bool
    targets: dict[str, int]


class BacklogLook(NamedTuple):
    """What one round trip to Redis tells. at_ms: Redis' time. settings: of the service, as stored. counters: since the
    view was made (granted:TIER, used:TIER ...). pools: fields by pool that has a cap, `total` among them. ended: tasks
    that ended since the look before, at most PAGE_AT_MOST of them (the next look has the others)."""

    at_ms: int
    epoch: str
    settings: dict[str, str]
    counters: dict[str, int]
    pools: dict[str, dict[str, int]]
    beats: list[WorkerBeat]
    tasks: list[BacklogTask]
    ended: list[BacklogTask]
    in_flight: ClaimedTargets


class BacklogReader:
    """Reads one look after another. Methods raise Unreachable, and NotReady while the view is being rebuilt."""

    def __init__(self, view: RedisView) -> None:
        self._view = view
        self._cuts: list[int] | None = None
        self._ended_ms: int | None = None

    def look(self) -> BacklogLook:
        """One round trip; two at the first time, and where thousands of tasks came within one page since the last."""
        for _ in range(3):
            if self._cuts is None:
                self._cuts = [int(score) for score in self._view.call("backlog_pages", PAGE)]
            service, claims, ended, *pages = self._view.call_many(self._calls(self._cuts))
            if all(page[0] < PAGE_AT_MOST for page in pages):
                return self._look(service, claims, ended, pages)
            self._cuts = None
        raise NotReady("Tasks come quicker than they can be listed.", "Wait a moment.")

    def _calls(self, cuts: Sequence[int]) -> list[tuple[str, Sequence[Arg]]]:
        edges = [_FIRST, *map(str, cuts), _LAST]
        pages = [("tasks", low if low == _FIRST else f"({low}", high) for low, high in pairwise(edges)]
        since = _LAST if self._ended_ms is None else f"({self._ended_ms}"
        return [
            ("backlog_service", ()),
            ("backlog_claims", (MOST_CLAIMS,)),
            *(("backlog_tasks", _page(*page)) for page in [("ended", since, _LAST), *pages]),
        ]

    def _look(self, service: Any, claims: Any, ended: Any, pages: Sequence[Any]) -> BacklogLook:
        at_ms, epoch, ready, settings, counters, pools, beats = service
        if not ready:
            raise NotReady(
                "The view in Redis is being rebuilt: its counts are not right yet.",
                "Workers rebuild it from Pulsar: start one if none runs (`fairlane worker list`), and try again.",
            )
        tasks = {task.view.id: task for page in pages for task in _tasks(page, at_ms)}
        gone = _tasks(ended, at_ms)
        self._cuts = _cuts([task.view.created_ms for task in tasks.values()])
        since_ms = at_ms if self._ended_ms is None else self._ended_ms
        self._ended_ms = max([since_ms, *(task.view.finished_ms for task in gone)])
        return BacklogLook(
            at_ms,
            epoch.decode(),
            _texts(settings),
            {name: int(value) for name, value in _texts(counters).items()},
            {pool.decode(): {n: int(v) for n, v in _texts(fields).items()} for pool, fields in _pairs(pools)},
            [msgspec.structs.replace(_beat(beat), seen_ms=seen_ms) for seen_ms, beat in _pairs(beats)],
            list(tasks.values()),
            gone,
            _in_flight(claims),
        )


def _page(listed: str, low: str, high: str) -> list[Arg]:
    return [listed, low, high, PAGE_AT_MOST, len(TASK_FIELDS), *TASK_FIELDS, " " * _BIG_ARGUMENT]


def _cuts(created_ms: Sequence[int]) -> list[int]:
    """Cuts behind every so many tasks; those of one moment stay together."""
    in_order = sorted(created_ms)
    return sorted(set(in_order[PAGE - 1 : -1 : PAGE]))


def _tasks(page: Sequence[Any], now_ms: int) -> list[BacklogTask]:
    """page: how many were found, and the known ones."""
    return [_task(packed, now_ms) for packed in page[1:]]


def _task(packed: bytes, now_ms: int) -> BacklogTask:
    task, state, count, values = _row(packed)
    stored = (value.encode() if isinstance(value, str) else None for value in values)
    fields: dict[str, Value] = dict(zip(TASK_FIELDS, stored, strict=True))
    row = Row(task, state, {**fields, "override": None})
    return BacklogTask(task_view(row, now_ms), row.number("claims"), count, counted_of(row.text("why")))


def _in_flight(answer: Sequence[Any]) -> ClaimedTargets:
    there, *found = answer
    targets: dict[str, int] = {}
    for name, packed in _pairs(found):
        task = name.decode().partition("|")[2]
        for run in _claim(packed)[2]:
            # writer, attempt, first, count, which tier paid ('' or 0: none did), targets in each envelope
            if len(run) > 5 and run[4]:
                targets[task] = targets.get(task, 0) + run[3] * run[5]
    return ClaimedTargets(not there or bool(found), targets)


def _pairs(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _texts(flat: Sequence[bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in _pairs(flat)}
