"""Dead letters as a client sees them: list them, send them again, drop them."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice

from backends.redis.letter_index import counter_of
from backends.redis.registry.tasks import TaskTable
from backends.redis.view import LETTER_COUNTERS, SET_APART, WITHOUT_TASK
from dispatcher.letters.book import LetterBook, LetterState
from dispatcher.model.errors import InvalidInput
from producers.aio import AsyncProxy, awaited
from producers.outcomes.letter_rows import LetterRow, in_state, rows_of
from producers.outcomes.record import ReasonGroup, TargetFilter, TargetRecord, group_by_reason
from producers.outcomes.replay import Check, LetterRecords, OnProgress, Replay, Replays

MAX_LIMIT = 10**12
"""More than there are letters."""
StoreCounts = Callable[[Counter[str], str], None]
"""Stores the numbers of open letters that `doctor` names, by counter. The second argument says which are replaced."""


class DeadLetterBox:
    """The targets that were given up, and the messages that could not be sent, of the last 14 days.

    All methods read the dead-letter topic, from the beginning of the task or of the time that the filter names.
    Raise Unreachable, NotFound, NotReady.
    """

    def __init__(
        self,
        records: Callable[[], LetterRecords],
        tasks: TaskTable,
        replays: Callable[[], Replays],
        store_counts: StoreCounts,
    ) -> None:
        self._records = records
        self._tasks = tasks
        self._replays = replays
        self._store_counts = store_counts
        self._app_of = lru_cache(maxsize=10_000)(self._app)

    def groups(self, chosen: TargetFilter = TargetFilter(), state: str = "open") -> list[ReasonGroup]:
        """Return the number of letters by task, reason and state, those of the latest task first.

        state: open, replaying, replayed, dropped or all.
        """
        return group_by_reason(self.targets(chosen, state))

    def targets(self, chosen: TargetFilter = TargetFilter(), state: str = "open") -> Iterator[TargetRecord]:
        """Yield the targets and messages, each once, in the order in which they were stored. state: as in `groups`."""
        return (row.record for row in in_state(self._rows(chosen), state))

    def replay(
        self,
        chosen: TargetFilter = TargetFilter(),
        *,
        limit: int | None = None,
        on_progress: OnProgress | None = None,
        check: Check | None = None,
    ) -> list[Replay]:
        """Send the open targets again, as a new task for each task that they are of, and return these tasks.

        A new task has the message (as last edited), channel and options of the old one, and the targets with their
        variables. Each letter is sent again once, also if two clients ask at the same time. After an error, or if this
        process dies, the same call finishes what was begun. limit: the maximum number of targets. Invalid targets and
        messages are left out. check: called with each new task before its letters are marked; it may raise.

        Raises as PushClient.submit; NotFound also if a task's message is no longer stored. An error that is about one
        task is raised after the letters of the others were sent again.
        """
        check_limit(limit)
        rows = (row for row in self._rows(chosen) if row.record.state == LetterState.REPLAYING or row.is_replayable)
        return self._replays().replay(islice(rows, limit), on_progress, check)

    def drop(self, chosen: TargetFilter = TargetFilter(), *, limit: int | None = None) -> int:
        """Mark the open letters as not needed any more, and return their number. limit: the maximum number."""
        check_limit(limit)
        dropped = self._replays().drop(islice(in_state(self._rows(chosen), LetterState.OPEN), limit))
        if chosen.app is None or chosen.task is not None or chosen.without_task:
            self._count(chosen)
        return dropped

    def _count(self, dropped: TargetFilter) -> None:
        """Count the open letters that `fairlane doctor` names again. A drop that died before is repaired."""
        scope = WITHOUT_TASK if dropped.without_task else SET_APART + dropped.task if dropped.task else LETTER_COUNTERS
        counted = TargetFilter(task=dropped.task, without_task=dropped.without_task)
        rows = in_state(self._rows(counted), LetterState.OPEN)
        named = (counter_of(row.letter) for row in rows if row.letter.part == 0)
        self._store_counts(Counter(name for name in named if name), scope)

    def _rows(self, chosen: TargetFilter) -> Iterator[LetterRow]:
        records, since_ms = self._records(), chosen.since_ms
        task = "" if chosen.without_task else chosen.task
        if task:
            view = self._tasks.task(task)
            since_ms = max(since_ms, 0 if view is None else view.created_ms)
        book = LetterBook(records.marks(since_ms))
        return rows_of(records.letters(since_ms, task), book, chosen, self._app_of)

    def _app(self, task: str) -> str:
        view = self._tasks.task(task) if task else None
        return "" if view is None else view.app


def check_limit(limit: int | None) -> None:
    """Raise InvalidInput unless the limit is None or a number of letters."""
    if limit is not None and not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit: is {limit}; it must be 1 to {MAX_LIMIT:,}.", "Leave it out for no limit.")


class AsyncDeadLetterBox(AsyncProxy[DeadLetterBox]):
    """Dead letters, like DeadLetterBox; every method is awaited."""

    drop = awaited(DeadLetterBox.drop)
    groups = awaited(DeadLetterBox.groups)
    replay = awaited(DeadLetterBox.replay)
    targets = awaited(DeadLetterBox.targets)
