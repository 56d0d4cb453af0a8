"""Many tasks submitted from one process: while one waits for its topic to be created, others are published."""

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
"""Submissions that may be done before the oldest is, for each that is under way: one that takes long holds up none."""


@dataclass(frozen=True, slots=True)
class Submitted(Generic[H]):
    """The result of one submission."""

    task: PushTask
    """What was submitted."""
    handle: H | None
    """The task, if it was accepted."""
    error: FairlaneError | None = None
    """Why it failed; submit it again, with the same id."""


def submit_many(
    submissions: Iterable[tuple[PushTask, A]], submit: Callable[[PushTask, A], H], concurrency: int
) -> Iterator[Submitted[H]]:
    """Submits each, `concurrency` at once, and yields what became of them in the order given. Takes from `submissions`
    only as far as it is ahead of the caller; a caller that stops ends it once those under way are done. Raises, beside
    what `submissions` raises, what a submission raised that is no FairlaneError."""

    def one(task: PushTask, targets: A) -> Submitted[H]:
        try:
            return Submitted(task, submit(task, targets))
        except FairlaneError as error:
            return Submitted(task, None, error)

    with ThreadPoolExecutor(concurrency, thread_name_prefix="submit") as pool:
        running: deque[Future[Submitted[H]]] = deque()
        try:
            for task, targets in submissions:
                running.append(pool.submit(one, task, targets))
                while running and (running[0].done() or len(running) >= _AHEAD * concurrency):
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
