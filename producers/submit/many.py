"""Submit many tasks from one process: while one waits for its topic to be created, others are published."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from dispatcher.model.errors import FairlaneError
from dispatcher.model.task import PushTask

H = TypeVar("H")
A = TypeVar("A")
CONCURRENCY = 16
_AHEAD = 4
"""How many submissions, per one in progress, may finish before the oldest does, so that a slow one holds up none."""


@dataclass(frozen=True, slots=True)
class Submitted(Generic[H]):
    """The result of one submission."""

    task: PushTask
    """The submitted task."""
    handle: H | None
    """The handle of the task, if it was accepted."""
    error: FairlaneError | None = None
    """The reason it failed; submit it again with the same id."""


def submit_many(
    submissions: Iterable[tuple[PushTask, A]], submit: Callable[[PushTask, A], H], concurrency: int
) -> Iterator[Submitted[H]]:
    """Submit each task, `concurrency` at once, and yield the results in the order given.

    Reads `submissions` only a limited number ahead of the caller. A caller that stops iterating ends it once the
    submissions in progress are done. Raises exceptions of `submissions`, and exceptions of a submission that are no
    FairlaneError.
    """

    def submitted(task: PushTask, targets: A) -> Submitted[H]:
        try:
            return Submitted(task, submit(task, targets))
        except FairlaneError as error:
            return Submitted(task, None, error)

    with ThreadPoolExecutor(concurrency, thread_name_prefix="submit") as pool:
        running: deque[Future[Submitted[H]]] = deque()
        try:
            for task, targets in submissions:
                running.append(pool.submit(submitted, task, targets))
                while running and (running[0].done() or len(running) >= _AHEAD * concurrency):
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
