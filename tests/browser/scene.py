"""The console as people meet it: in this process, over a service in memory with no tasks, or with 100,000."""

import asyncio
import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from msgspec.structs import replace

from backends.redis.guard_states import GUARD_JOB
from backends.redis.registry.task_rows import TASK_VIEW
from dispatcher.analysis.forecast import Steps
from dispatcher.model.errors import Unreachable
from dispatcher.model.pools import Cap
from dispatcher.model.task import PushTask
from dispatcher.model.view import TargetCounts, TaskView, TierStats, WorkerBeat
from estate.rules.node_life import NodeKind, NodeRecord, encode_nodes
from fairlane import __version__
from producers.desk.board.board import Age, Board
from producers.desk.board.share import Share
from producers.desk.board.shown import ShownLists
from producers.desk.front_door import FrontDoor
from tests.records import dead_letter
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.console_world import MemoryDoor
from tests.virtual_clock import VirtualClock
from web.listening import ServerSettings, address_of, listening
from web.metrics import ApiFigures
from web.server import serve

MANY = 100_000
IN_REDIS = ("shop-flash-sale", "news-morning", "chat-mentions", "bank-codes", "shop-wishlist")
"""Tasks that have pages: the others are on the board alone."""
APPS = ("shop", "news", "chat", "bank", "games")
TIERS = ("high", "medium", "low")
CHANNELS = ("log", "http")
WORDS = ("order-shipped", "digest", "back-in-stock", "survey", "tips", "price-drop", "reminder")
FAILURES = ("503: the provider is overloaded", "429: quota exceeded", "<b>no answer</b> within 10 s")
PAUSED = 3
"""Which of those in Redis is paused."""
HISTORY_S = 1_800
FORETOLD_ENDS = 12


class PassingClock(VirtualClock):
    """A clock that goes on, and can be moved forward besides."""

    def __init__(self, back_s: float) -> None:
        super().__init__(round((time.time() - back_s) * 1000))
        self._began_s = time.monotonic()

    def wall_ms(self) -> int:
        return super().wall_ms() + round(self.passed_s * 1000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.passed_s

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self._began_s


class FullBoard(Board):
    """A board whose tasks were read once, as far as a test wants."""

    @property
    def held(self) -> Mapping[str, TaskView]:
        """The tasks by id."""
        return self._tasks

    def age(self, app: str = "") -> Age:
        """Return the age of tasks of which nothing new is to be known."""
        self._shown.as_of_s = self._clock.monotonic_s()
        return super().age(app)

    def hold(self, tasks: Mapping[str, TaskView], total: int) -> None:
        """Show these of all tasks."""
        self._tasks = dict(tasks)
        self._sweep.place, self._sweep.total = len(tasks), total
        self._etas = {id_: task.targets.pending / task.rate for id_, task in tasks.items() if task.rate}
        self._steps = self._clock.monotonic_s(), self._foretold()
        self._shown = ShownLists(self._clock)
        self._shown.is_stale = True
        is_complete = len(tasks) == total
        while self._shown.as_of_s == float("-inf"):
            self._shown.update(self._tasks.values(), self._etas, self._clock.monotonic_s(), is_complete=is_complete)

    def _foretold(self) -> Steps:
        """Return the rates by tier now and after each of the first ends."""
        steps = list[tuple[float, dict[str, float]]]()
        for at_s in [0.0, *sorted(set(self._etas.values()))[:FORETOLD_ENDS]]:
            rates = defaultdict[str, float](float)
            for id_, eta_s in self._etas.items():
                if eta_s > at_s:
                    rates[self._tasks[id_].tier] += self._tasks[id_].rate
            steps.append((at_s, dict(rates)))
        return steps


class Scene(NamedTuple):
    """A console that is served."""

    address: str
    door: MemoryDoor
    board: FullBoard
    key: str
    """The key of an operator."""

    def cookie(self) -> dict[str, str]:
        """Sign in, and return the cookie as playwright takes it."""
        value = self.door.sessions.start(self.door.principal(self.key))
        self.door.sessions.principal(value)
        return {"name": "fairlane", "value": value, "url": self.address}

    def lose_redis(self) -> None:
        """Cut Redis off, for good."""
        self.door.world.service.redis.gone = True

    def lose_pulsar(self) -> None:
        """Let Pulsar not answer any more; it is called silent some seconds later."""
        self.door.world.connection.pulsar = Unreachable("Pulsar does not answer.")

    def load(self, read: int, total: int) -> None:
        """Let only a part of the tasks be read so far."""
        self.board.hold(dict(list(self.board.held.items())[:read]), total)


@contextmanager
def scene(tasks: int, **settings: object) -> Iterator[Scene]:
    """Serve the console of a service with this number of tasks, for the time of the block."""
    clock = PassingClock(HISTORY_S)
    world = DeskWorld(APPS, clock)
    board = FullBoard(world.service.view, clock, Share(clock))
    world.board = board  # type: ignore[assignment]  # which the desks take as it is
    if tasks:
        _work(world)
        _submit(world)
    _pass_time(world, clock, tasks)
    if tasks:
        _send(world)
        _work(world)
        _guard(world)
        view = world.service.view
        view.command("HDEL", view.keys.served, "outages", *(f"gaps:{channel}" for channel in ("", *CHANNELS)))
    live = {task.id: task for task in world.service.registry.tasks.live(TASK_VIEW)}
    some = list(live.values())
    for index in range(len(live), tasks):
        made = _like(some[index % len(some)], index, tasks)
        live[made.id] = made
    board.hold(live, len(live))
    world.book.follow()
    world.book.start()
    world.connection.folds.start()
    door = MemoryDoor(world)
    try:
        with _beating(world, tasks), served(door, **settings) as address:
            yield Scene(address, door, board, door.key())
    finally:
        world.connection.folds.close()
        world.book.close()


def _like(task: TaskView, index: int, tasks: int) -> TaskView:
    """Return one of many tasks, which lacks a rate if it is paused."""
    total, app, is_paused = 4_000 * (1 + index * 7 % 23), APPS[index % 5], index % 11 == 0
    sent = total * (index * 37 % 90) // 100
    counts = TargetCounts(total=total, sent=sent - sent // 200, failed=sent // 200, pending=total - sent)
    return replace(
        task, id=f"{app}-{WORDS[index % len(WORDS)]}-{index:03}", app=app, tier=TIERS[index % 3], targets=counts,
        rate=0.0 if is_paused else 4_000 / tasks, state="paused" if is_paused else "running", cap=0,
        created_ms=task.created_ms - index,
    )  # fmt: skip


def _submit(world: DeskWorld) -> None:
    for app in APPS:
        world.allow(app, channels=["log", "http", "fcm"])
    for index, id_ in enumerate(IN_REDIS):
        task = PushTask(
            id=id_, app=id_.partition("-")[0], tier=TIERS[index % 3], channel="log",
            message={"title": "Up to 40 % off <today>", "body": f"Open {id_} & see what is new."},
        )  # fmt: skip
        world.client.submit(task, [f"{id_}-{number}" for number in range(20)], on_warning=lambda _: None)
    world.service.fold()


def _pass_time(world: DeskWorld, clock: PassingClock, tasks: int) -> None:
    """Let half an hour go by, with its figures."""
    for step in range(HISTORY_S // 10):
        if tasks:
            wave = math.sin(step / 20)
            backlog = [round(part * (8 + wave) * 25_000) for part in (2, 9, 20)]
            world.connection.figures.keep([6_000 + 400 * wave, 3_000 - 600 * wave, 1_000 + 200 * wave], backlog)
        clock.advance(10)


def _send(world: DeskWorld) -> None:
    """Give the tasks the figures of tasks that have been sent for a while."""
    view, now_ms = world.service.view, world.service.clock.wall_ms()
    for index, id_ in enumerate(IN_REDIS):
        total, sent, failed = 3_000_000 * (index + 1), 1_800_000 * (index + 1), 370 * index
        fields: dict[str, int | str] = {
            "total": total, "published": total, "sent": sent, "failed": failed, "finals": sent + failed,
            "rate": 0 if index == PAUSED else 1_800 - 400 * index, "rate_ms": now_ms + 600_000,
            "first_outcome_ms": now_ms - 900_000, "why": "cap_total=300000 tier_share=600000",
            "why_from": now_ms - 900_000, "why_ms": now_ms + 600_000,
        }  # fmt: skip
        view.command("HSET", view.keys.task(id_), *(text for field in fields.items() for text in field))
    for number, (id_, reason) in enumerate(zip(IN_REDIS, FAILURES, strict=False)):
        names = [f"{id_}-{target}" for target in range(370 * (number + 1))]
        letter = dead_letter(id_, names, sequence=number, at_ms=now_ms - 60_000 * number)
        world.connection.letters.topic.append(
            replace(letter, reasons=[reason] * len(names), app=id_.partition("-")[0], channel="log")
        )
    client = world.client
    client.set_capacity(10_000)
    client.change_service(lambda service: service.cap_channel("http", Cap(500)))
    client.change_service(lambda service: service.pause_channel("fcm", paused=True))
    client.task(IN_REDIS[PAUSED]).pause()
    client.task(IN_REDIS[2]).set_cap(1_000)
    client.access.create("shop", ["submit", "read"])
    client.access.set_user("ana@shop.example", ["read", "control"], "shop")
    world.service.fold()


def _guard(world: DeskWorld) -> None:
    """Let a guard know the nodes of an estate, of which one is slow."""
    nodes = [NodeRecord(kind=NodeKind.BROKER, name=f"broker-{number}:8080", state="serving") for number in (1, 2, 3)]
    nodes += [NodeRecord(kind=NodeKind.BOOKIE, name=f"bookie-{number}:3181", state="serving") for number in (1, 2, 3)]
    nodes[-1] = nodes[-1].after("slow")
    world.connection.locks.hold([GUARD_JOB], "guard-1", 86_400_000, 1, ())
    world.connection.guarded.keep("guard-1", encode_nodes({node.key: node for node in nodes}))


def _work(world: DeskWorld) -> None:
    now_ms = world.service.clock.wall_ms()
    for number in (1, 2, 3):
        tiers = {
            tier: TierStats(granted=10**6, sent=10**6, rate=rate)
            for tier, rate in zip(TIERS, (1_960.0, 990.0, 330.0), strict=True)
        }
        world.connection.workers.beat(
            WorkerBeat(
                id=f"worker-{number}", host=f"push-{number}", pid=4_000 + number, state="serving", lanes=12,
                started_ms=now_ms - 3_600_000, seen_ms=now_ms, version=__version__, in_flight=900, buffered=4_000,
                rate=3_280.0, tiers=tiers, metrics_port=9_100 + number, extra={"channels": list(CHANNELS)},
            ),
            kept_s=3_600,
        )  # fmt: skip


@contextmanager
def _beating(world: DeskWorld, tasks: int) -> Iterator[None]:
    """Let the workers live on, as far as Redis hears of it."""
    stop = threading.Event()

    def beat() -> None:
        while tasks and not stop.wait(1):
            with suppress(Unreachable):
                _work(world)

    thread = threading.Thread(target=beat, name="workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def served(door: FrontDoor, **given: object) -> Iterator[str]:
    """Serve the console in a thread; yield its address. given: settings of the server."""
    settings, stop = ServerSettings(port=0, **given), threading.Event()  # type: ignore[arg-type]
    with listening(settings) as listener:
        thread = threading.Thread(
            target=lambda: asyncio.run(serve(settings, listener, door, ApiFigures(), stop)), name="console", daemon=True
        )
        thread.start()
        try:
            yield address_of(settings, listener)
        finally:
            stop.set()
            thread.join()
