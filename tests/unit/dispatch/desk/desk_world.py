"""The desk over a service in memory: the shipped scripts and submissions, with lists in place of Pulsar."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from backends.redis.guard_states import GuardStates
from backends.redis.registry.access import AccessTable
from backends.redis.registry.audit import AuditEntry, AuditTable
from backends.redis.registry.figures import FigureTable
from backends.redis.registry.registry import Registry
from backends.redis.registry.task_rows import TASK_VIEW
from backends.redis.workers import JobLocks, Workers
from backends.settings import PulsarSettings
from dispatcher.access.app_policy import AppPolicy
from dispatcher.access.principal import NOBODY, Caller, Principal, Scope
from dispatcher.analysis.situation import Outlook
from dispatcher.model.errors import FairlaneError
from dispatcher.model.task import PushTask
from dispatcher.model.view import TaskView
from dispatcher.wire.outcome import Outcomes
from producers.client import PushClient
from producers.connection import Connection
from producers.control.foresight import Foresight
from producers.control.known_tasks import KnownTasks
from producers.desk.access_book import AccessBook
from producers.desk.board.board import Age, Board
from producers.desk.board.groups import TaskGroup
from producers.desk.board.lists import Lists, Selection, Sort
from producers.desk.board.share import Share
from producers.desk.front_door import Desks
from producers.fold_watch import FoldWatch, PulsarState
from producers.outcomes.dead_letters import DeadLetterBox
from producers.outcomes.record import TargetFilter, TargetRecord
from producers.outcomes.recorded import invalid_targets, outcomes
from producers.outcomes.replay import Replays
from producers.ports import Services
from producers.submit.channel_check import ChannelCheck
from tests.unit.dispatch.producers.fake_service import FakeService
from tests.unit.dispatch.producers.letter_world import LetterWorld
from tests.virtual_clock import VirtualClock

EVERYTHING = frozenset({Scope.SUBMIT, Scope.READ, Scope.CONTROL})
OPERATOR = Principal(kind="key", name="0p", scopes=frozenset({Scope.OPERATOR}))


class MemoryFolds(FoldWatch):
    """Knows of Pulsar what a connection in memory says, when it is asked."""

    def __init__(self, connection: "MemoryConnection") -> None:
        super().__init__(connection.world.view, PulsarSettings(), connection.world.clock)
        self._connection = connection

    def _ask(self) -> PulsarState:
        if isinstance(self._connection.pulsar, FairlaneError):
            raise self._connection.pulsar
        return self._connection.pulsar


class MemoryConnection(Connection):
    """Connections to a service in memory."""

    def __init__(self, world: FakeService) -> None:
        self._view = world.view
        self.world = world
        self.letters = LetterWorld()
        self.records: list[Outcomes] = []
        """The outcome topics."""
        self.registry, self.epochs = Registry(world.view), world.epochs
        self.access, self.audit, self.workers = AccessTable(world.view), AuditTable(world.view), Workers(world.view)
        self.figures, self.locks = FigureTable(world.view), JobLocks(world.view)
        self.guarded = GuardStates(world.view)
        self.pulsar: PulsarState | FairlaneError = PulsarState(1, 2.0, {"control": (1, -1), "0": (1, -1)})
        self.folds = MemoryFolds(self)
        self.known_tasks = KnownTasks(self.registry.tasks, self.epochs)
        self.channels = ChannelCheck(self.workers.workers)
        self.foresight = Foresight(self.registry, self.workers)
        self._made = replace(world.services(), registry=self.registry)

    def services(self, caller: Caller = NOBODY) -> Services:
        return replace(self._made, caller=caller)

    def dead_letters(self, submit: Callable[[PushTask, Iterable[Any]], int], caller: Caller) -> DeadLetterBox:
        def replays() -> Replays:
            return Replays(self.letters, self.world.clock, submit, self._definition, caller, self.audit.keep_mark)

        return DeadLetterBox(lambda: self.letters, self.registry.tasks, replays, lambda _counts, _scope: None)

    def _definition(self, task: str) -> PushTask:
        view = self.known_tasks.task(task)
        return PushTask(app=view.app, tier=view.tier, channel=view.channel, message="again", weight=view.weight)

    def outcomes(self, task: str, target: str | None = None) -> Iterator[TargetRecord]:
        return outcomes(self.records, task, target)

    def invalid_targets(self, chosen: TargetFilter, *, repeats: bool) -> Iterator[TargetRecord]:
        return invalid_targets(self.records, chosen, {})


class LiveBoard(Board):
    """A board that reads all tasks for each page."""

    def __init__(self, world: FakeService) -> None:
        super().__init__(world.view, world.clock, Share(world.clock))

    def page(
        self, selection: Selection, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[TaskView], str | None]:
        return self._lists().page(selection, sort, limit, cursor)

    def read(self) -> None:
        """Read all tasks, as its thread would."""
        self._put(self._registry.tasks.live(TASK_VIEW))

    def foresee(self, seconds: float) -> None:
        """Make forecasts by which every task is done after these seconds."""
        self._foresight.estimate = lambda live: Outlook({task.id: seconds for task in live()})  # type: ignore[method-assign]
        self.make_forecast()

    def make_forecast(self) -> None:
        """Make a forecast, as its thread would."""
        self._foresee()

    def show(self) -> None:
        """Show what was read."""
        self._shown.update(self._tasks.values(), {}, 0.0, is_complete=True)

    def groups(self) -> list[TaskGroup]:
        return self._lists().groups()

    def facets(self, selection: Selection) -> dict[str, dict[str, int]]:
        return self._lists().facets(selection)

    def _lists(self) -> Lists:
        return Lists(self.live(), self._etas, round(time.time() * 1000), self._registry.service.globals())

    def live(self) -> list[TaskView]:
        return self._registry.tasks.live(TASK_VIEW)

    def age(self, app: str = "") -> Age:
        return Age(0, 7.0, complete=True, read=0, total=0)


class DeskWorld:
    """A service with a door, and other programs that use it without the door."""

    def __init__(self, apps: Iterable[str] = ("shop", "news"), clock: VirtualClock | None = None) -> None:
        self.service = FakeService(ready=True, clock=clock or VirtualClock())
        self.connection = MemoryConnection(self.service)
        self.client = PushClient(self.connection, Caller("client:ana@ops"))
        self.book = AccessBook(self.connection.access, self.connection.epochs.ready, self.service.clock)
        self.board = LiveBoard(self.service)
        for app in apps:
            self.allow(app, channels=["log"])

    def desks(self, app: str = "shop", scopes: Iterable[Scope] = EVERYTHING, request: str = "req-1") -> Desks:
        """Return what a key of an app may do."""
        principal = Principal(kind="key", name=f"k-{app}", app=app, scopes=frozenset(scopes))
        return Desks(principal, self.connection, self.book, self.board, request)

    def operator(self) -> Desks:
        return Desks(OPERATOR, self.connection, self.book, self.board, "req-0")

    def submit(self, id_: str, app: str = "shop", targets: Iterable[str] = ("a", "b"), **fields: Any) -> str:
        """Submit a task without the door."""
        task = PushTask(**{"id": id_, "app": app, "tier": "high", "channel": "log", "message": "Hi"} | fields)
        return self.client.submit(task, list(targets)).id

    def allow(self, app: str = "shop", **bounds: Any) -> AppPolicy:
        """Set a policy, which the book knows at once."""
        policy = self.client.access.set_policy(app, bounds)
        self.book.follow()
        return policy

    def audit(self) -> list[AuditEntry]:
        """Return the changes that keys made."""
        return [entry for entry in self.client.audit(100) if entry.by.startswith("key:")]


def new_task(**fields: Any) -> dict[str, Any]:
    """The fields of a task as a key gives them."""
    return {"id": "sale", "tier": "high", "channel": "log", "message": "Hi"} | fields
