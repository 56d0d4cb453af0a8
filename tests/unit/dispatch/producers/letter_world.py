"""The dead-letter topic and the submissions of an installation, in memory, for tests of replays."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import cast

from backends.redis.registry.tasks import TaskTable
from dispatcher.letters.book import LetterBook, SeenTargets
from dispatcher.letters.marks import LetterMark, encode_mark, parts_of, read_mark
from dispatcher.model.errors import BeingSubmitted, NotFound
from dispatcher.model.task import PushTask, Target
from dispatcher.ports import DeadLetter
from dispatcher.wire.letters import with_rows
from producers.outcomes.dead_letters import DeadLetterBox
from producers.outcomes.letter_rows import LetterRow, rows_of
from producers.outcomes.record import TargetFilter
from producers.outcomes.replay import Replay, Replays
from tests.unit.dispatch.producers.fake_service import Died
from tests.virtual_clock import VirtualClock


class LetterWorld:
    """A topic, and what was submitted, by task id."""

    def __init__(self) -> None:
        self.topic: list[DeadLetter | bytes] = []
        self.audiences: dict[str, list[Target]] = {}
        self.tasks: dict[str, PushTask] = {}
        self.submitting: set[str] = set()
        """Tasks that another process submits now."""
        self.refused: set[str] = set()
        """Targets that a submission refuses."""
        self.unknown: set[str] = set()
        """Tasks of which no record is left."""
        self.steps = -1
        """Steps until the operator dies; negative: never."""

    # ------------------------------------------------------------- LetterRecords
    def letters(self, since_ms: int = 0, task: str | None = None) -> Iterator[DeadLetter]:
        seen = SeenTargets()
        for one in list(self.topic):
            if isinstance(one, DeadLetter) and one.at_ms >= since_ms and task in (None, one.task):
                indexes = seen.fresh(one)
                if indexes:
                    yield with_rows(one, indexes) if one.targets else one

    def marks(self, since_ms: int = 0) -> Iterator[LetterMark]:
        for one in list(self.topic):
            mark = read_mark(one) if isinstance(one, bytes) else None
            if mark is not None:
                yield mark

    def append(self, mark: LetterMark) -> None:
        for part in parts_of(mark):
            self._step()
            self.topic.append(encode_mark(part))
            self._step()

    # ------------------------------------------------------------- submissions
    def submit(self, task: PushTask, targets: Iterable[Target]) -> int:
        """As PushClient.submit: the same id again continues with the same audience."""
        assert task.id is not None
        if task.id in self.submitting:
            raise BeingSubmitted(f"Task {task.id} is being submitted.")
        self._step()
        audience = list(targets)
        assert self.tasks.setdefault(task.id, task) == task
        stored = self.audiences.setdefault(task.id, [])
        assert stored == audience[: len(stored)], "the audience of an id never changes"
        for target in audience[len(stored) :]:
            self._step()
            stored.append(target)
        return sum(target.address in self.refused for target in stored)

    def task_of(self, task: str) -> PushTask:
        if task in self.unknown:
            raise NotFound(f"The record of task {task} is gone.", "Submit its targets yourself.")
        return PushTask(app="shop", tier="high", channel="fcm", message={"body": f"of {task}"})

    # ------------------------------------------------------------- operators
    def replay(self, chosen: TargetFilter = TargetFilter(), book: LetterBook | None = None) -> list[Replay]:
        return self.operator().replay(self.rows(chosen, book))

    def drop(self, chosen: TargetFilter = TargetFilter(), book: LetterBook | None = None) -> int:
        return self.operator().drop(self.rows(chosen, book))

    def operator(self) -> Replays:
        return Replays(self, VirtualClock(), self.submit, self.task_of)

    def box(self) -> DeadLetterBox:
        """As a client has it."""
        tasks = cast("TaskTable", SimpleNamespace(task=lambda _: None))
        return DeadLetterBox(lambda: self, tasks, self.operator, lambda _counts, _scope: None)

    def rows(self, chosen: TargetFilter = TargetFilter(), book: LetterBook | None = None) -> list[LetterRow]:
        """Return the rows that match; book: as the operator read it, before others went on."""
        return list(rows_of(self.letters(), book or LetterBook(self.marks()), chosen, lambda _: "shop"))

    def states(self) -> dict[str, str]:
        """Return the state of each target."""
        return {row.record.target: row.record.state for row in self.rows() if row.letter.targets}

    def sent_again(self) -> list[str]:
        return sorted(target.address for audience in self.audiences.values() for target in audience)

    def _step(self) -> None:
        if self.steps == 0:
            raise Died
        self.steps -= 1


def until_done(world: LetterWorld, act: Callable[[], object], steps: Sequence[int]) -> None:
    """Repeat an operator's command, which dies after these numbers of steps, and at last does not."""
    for count in (*steps, -1):
        world.steps = count
        try:
            act()
        except Died:
            continue
