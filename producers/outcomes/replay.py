"""Send dead letters again as new tasks, each letter once, and drop letters.

The steps of a replay, each after the receipt of the one before:

1. a mark in the dead-letter topic names the letters and holds the new task;
2. the marks are read back: the letters that an earlier mark has are left out;
3. the new task is submitted. Its id follows from the letters, and its audience from the topic;
4. a second mark says that the audience is complete.

Two operators at once make one task of a letter, since the first mark in the topic has it. An operator that dies leaves
a mark without its second one; repeating the command submits that task again, which goes on from its last checkpoint.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from dispatcher.access.principal import NOBODY, Caller
from dispatcher.clock import Clock
from dispatcher.letters.book import Claim, LetterBook, LetterState
from dispatcher.letters.marks import (
    FORMAT,
    LetterMark,
    MarkedLetter,
    MarkKind,
    TargetKey,
    digest_of,
    marked_letters,
    replay_id,
)
from dispatcher.model.errors import (
    BeingSubmitted,
    FairlaneError,
    InvalidInput,
    Malformed,
    NotFound,
    Refused,
    TaskEnded,
    Unreachable,
)
from dispatcher.model.task import PushTask, Target
from dispatcher.model.values import counted
from dispatcher.ports import DeadLetter
from producers.outcomes.letter_rows import LetterRow
from producers.outcomes.record import TargetRecord

Submit = Callable[[PushTask, Iterable[Target]], int]
"""Submits a task, or continues its submission, and returns the number of refused targets, which may be all. Raises as
PushClient.submit."""
TaskOf = Callable[[str], PushTask]
"""Returns the task to submit for the letters of a task id, without an id. Raises NotFound."""
Check = Callable[[PushTask], None]
"""Raises for a task that may not be submitted."""
OnProgress = Callable[[str, int, int], None]
"""Called with the id of the new task, the number of its targets read so far, and their number."""


class LetterRecords(Protocol):
    """The dead-letter topic. Every method raises Unreachable if Pulsar cannot be reached."""

    def letters(self, since_ms: int = 0, task: str | None = None) -> Iterator[DeadLetter]:
        """Yield letters up to the topic's present end, each target once."""
        ...

    def marks(self, since_ms: int = 0) -> Iterator[LetterMark]:
        """Yield the marks up to the topic's present end, in its order."""
        ...

    def append(self, mark: LetterMark) -> None:
        """Store a mark."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of sending dead letters of one task again."""

    task: str
    """Id of the task whose letters they are."""
    replay: str
    """Id of the new task."""
    targets: int
    """The number of its targets."""
    state: str
    """replayed: its audience is complete. replaying: another process submits it now."""
    refused: int = 0
    """Those of its targets that were refused: they lack a variable of the message, which was edited."""


class Replays:
    """Marks letters, and submits the tasks that send them again."""

    def __init__(
        self,
        records: LetterRecords,
        clock: Clock,
        submit: Submit,
        task_of: TaskOf,
        caller: Caller = NOBODY,
        audit: Callable[[LetterMark], None] = lambda _: None,
    ) -> None:
        """caller: who makes the marks. audit: keeps each of them; it may raise Unreachable."""
        self._records = records
        self._clock = clock
        self._submit = submit
        self._task_of = task_of
        self._caller = caller
        self._audit = audit

    def replay(
        self, rows: Iterable[LetterRow], on_progress: OnProgress | None = None, check: Check | None = None
    ) -> list[Replay]:
        """Replay the open rows that failed, and finish the replays of the others that are not known to be complete."""
        begun: dict[str, tuple[str, Claim]] = {}
        chosen: dict[str, _Chosen] = {}
        for row in rows:
            if row.claim is not None and row.claim.state is LetterState.REPLAYING:
                begun[row.claim.id] = (row.record.task, row.claim)
            elif row.is_replayable:
                chosen.setdefault(row.record.task, _Chosen()).add(row.record)
        steps = [partial(self._finish, task, claim, on_progress) for task, claim in begun.values()]
        return _results([*steps, *(partial(self._begin, task, of, on_progress, check) for task, of in chosen.items())])

    def drop(self, rows: Iterable[LetterRow]) -> int:
        """Mark the open rows as dropped; return their number."""
        chosen: dict[str, _Chosen] = {}
        for row in rows:
            if row.claim is None:
                chosen.setdefault(row.record.task, _Chosen()).add(row.record)
        letters = [letter for task, of in chosen.items() for letter in of.letters(task)]
        if not letters:
            return 0
        since_ms = min(of.since_ms for of in chosen.values())
        self._mark(f"drop-{digest_of(letters)}", MarkKind.DROP, since_ms, letters)
        claim = self._claim(f"drop-{digest_of(letters)}", since_ms)
        return claim.targets

    # ------------------------------------------------------------- steps of a replay
    def _begin(
        self, task: str, chosen: "_Chosen", on_progress: OnProgress | None, check: Check | None
    ) -> Replay | None:
        """Mark the letters, and submit those that no earlier mark has; None if it has all."""
        letters = chosen.letters(task)
        push = self._task_of(task)
        if check is not None:
            check(push)
        id_ = replay_id(task, letters)
        self._mark(id_, MarkKind.REPLAY, chosen.since_ms, letters, push.model_dump_json().encode())
        claim = self._claim(id_, chosen.since_ms)
        return self._finish(task, claim, on_progress) if claim.targets else None

    def _finish(self, task: str, claim: Claim, on_progress: OnProgress | None) -> Replay:
        """Submit the task of a claim, or continue its submission, and mark it as complete."""
        book = self._book(claim.since_ms)
        claim = book.claims[claim.id]
        push = _push_task(claim)
        state, refused = LetterState.REPLAYED, 0
        try:
            refused = self._submit(push, self._targets(task, claim, book, on_progress))
        except BeingSubmitted:
            state = LetterState.REPLAYING
        except TaskEnded:  # an operator ended it before its audience was complete: it is not submitted again
            pass
        if state is LetterState.REPLAYED:
            self._mark(claim.id, MarkKind.REPLAYED, claim.since_ms, [])
        return Replay(task=task, replay=claim.id, targets=claim.targets, state=str(state), refused=refused)

    def _targets(self, task: str, claim: Claim, book: LetterBook, on_progress: OnProgress | None) -> Iterator[Target]:
        """Yield the claim's targets in the order of the topic: the same for every reader."""
        read = 0
        for letter in self._records.letters(claim.since_ms, task):
            for index, holder in enumerate(book.claims_of(letter)):
                if holder is claim:
                    variables = None if letter.variables is None else letter.variables[index]
                    yield Target(letter.targets[index], variables)
                    read += 1
            if on_progress is not None:
                on_progress(claim.id, read, claim.targets)

    def _claim(self, id_: str, since_ms: int) -> Claim:
        return self._book(since_ms).claims[id_]

    def _book(self, since_ms: int) -> LetterBook:
        return LetterBook(self._records.marks(since_ms))

    def _mark(
        self, id_: str, kind: MarkKind, since_ms: int, letters: Sequence[MarkedLetter], task: bytes = b""
    ) -> None:
        mark = LetterMark(
            format=FORMAT,
            id=id_,
            kind=kind,
            at_ms=self._clock.wall_ms(),
            since_ms=since_ms,
            by=self._caller.by,
            request=self._caller.request,
            part=0,
            parts=1,
            letters=list(letters),
            task=task,
        )
        self._records.append(mark)
        with suppress(Unreachable):  # the mark has it, too
            self._audit(mark)


class _Chosen:
    def __init__(self) -> None:
        self._keys: list[TargetKey] = []
        self.since_ms = 1 << 62
        """Wall time of the oldest letter."""

    def add(self, target: TargetRecord) -> None:
        self._keys.append(target.key)
        self.since_ms = min(self.since_ms, target.at_ms)

    def letters(self, task: str) -> list[MarkedLetter]:
        return marked_letters(task, self._keys)


def _results(steps: Iterable[Callable[[], Replay | None]]) -> list[Replay]:
    """Take the steps, each of one task. What is wrong with one task does not stop the others: the first such error is
    raised at the end. Other errors, such as Unreachable, are raised at once."""
    results, failures = list[Replay](), list[FairlaneError]()
    for step in steps:
        try:
            result = step()
        except (InvalidInput, NotFound, Malformed, Refused) as error:
            failures.append(error)
        else:
            results += () if result is None else (result,)
    if failures:
        first, count = failures[0], len(results)
        others = f"The letters of {counted(count, 'other task')} were sent again." if count else ""
        raise type(first)(first.cause, f"{first.next_step} {others}".strip()) from first
    return results


def _push_task(claim: Claim) -> PushTask:
    try:
        return PushTask.model_validate_json(claim.task).model_copy(
            update={"id": claim.id, "expected_targets": claim.targets}
        )
    except ValueError as error:
        raise Malformed(f"The mark of replay {claim.id} holds no task: {error}.") from error
