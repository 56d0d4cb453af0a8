"""The console as people meet it: in this process, over a service in memory with no tasks, or with 100,000."""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from msgspec.structs import replace

from backends.redis.registry.task_rows import TASK_VIEW
from dispatcher.model.pools import Cap
from dispatcher.model.task import PushTask
from dispatcher.model.view import TaskView, TierStats, WorkerBeat
from fairlane import __version__
from producers.desk.board.board import Board
from producers.desk.board.share import Share
from producers.desk.board.shown import ShownLists
from producers.desk.front_door import FrontDoor
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
HISTORY_S = 1_800


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

    def hold(self, tasks: Mapping[str, TaskView], total: int) -> None:
        """Show these of all tasks."""
        self._tasks = dict(tasks)
        self._sweep.place, self._sweep.total = len(tasks), total
        self._etas = {id_: 60.0 + index % 5_000 for index, id_ in enumerate(tasks) if index % 7}
        self._shown = ShownLists(self._clock)
        self._shown.is_stale = True
        is_complete = len(tasks) == total
        while self._shown.as_of_s == float("-inf"):
            self._shown.update(self._tasks.values(), self._etas, self._clock.monotonic_s(), is_complete=is_complete)


class Scene(NamedTuple):
    """A console that is served."""

    address: str
    door: MemoryDoor
    board: FullBoard
    key: str
    """Of an operator."""

    def cookie(self) -> dict[str, str]:
        """Sign in, and return the cookie as playwright takes it."""
        value = self.door.sessions.start(self.door.principal(self.key))
        self.door.sessions.principal(value)
        return {"name": "fairlane", "value": value, "url": self.address}

    def lose_redis(self) -> None:
        """Cut Redis off, for good."""
        self.door.world.service.redis.gone = True

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
        _submit(world)
    _pass_time(world, clock, tasks)
    if tasks:
        _send(world)
        _work(world)
    live = {task.id: task for task in world.service.registry.tasks.live(TASK_VIEW)}
    some = list(live.values())
    for index in range(len(live), tasks):
        like = some[index % len(some)]
        name = f"{APPS[index % 5]}-{index:06}"
        live[name] = replace(
            like, id=name, app=APPS[index % 5], tier=TIERS[index % 3], created_ms=like.created_ms - index
        )
    board.hold(live, len(live))
    world.book.follow()
    world.book.start()
    door = MemoryDoor(world)
    try:
        with served(door, **settings) as address:
            yield Scene(address, door, board, door.key())
    finally:
        world.book.close()


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
            wave = 1 + step % 40 / 40
            backlog = [round(part * wave * 1_000_000) for part in (0.2, 3, 9)]
            world.connection.figures.keep([6_000 * wave, 3_000, 1_000 / wave], backlog)
        clock.advance(10)


def _send(world: DeskWorld) -> None:
    """Give the tasks the figures of tasks that have been sent for a while."""
    view, now_ms = world.service.view, world.service.clock.wall_ms()
    for index, id_ in enumerate(IN_REDIS):
        total, sent, failed = 2_000_000 * (index + 1), 300_000 * (index + 1), 37 * index
        fields = {
            "total": total, "published": total, "sent": sent, "failed": failed, "finals": sent + failed,
            "rate": 900 * index, "rate_ms": now_ms + 600_000, "first_outcome_ms": now_ms - 900_000,
        }  # fmt: skip
        view.command("HSET", view.keys.task(id_), *(text for field in fields.items() for text in field))
    client = world.client
    client.set_capacity(10_000)
    client.change_service(lambda service: service.cap_channel("http", Cap(500)))
    client.change_service(lambda service: service.pause_channel("fcm", paused=True))
    client.task(IN_REDIS[3]).pause()
    client.task(IN_REDIS[2]).set_cap(100)
    client.access.create("shop", ["submit", "read"])
    client.access.set_user("ana@shop.example", ["read", "control"], "shop")
    world.service.fold()


def _work(world: DeskWorld) -> None:
    now_ms = world.service.clock.wall_ms()
    for number in (1, 2, 3):
        tiers = {
            tier: TierStats(granted=10**6, sent=10**6, rate=rate)
            for tier, rate in zip(TIERS, (2e3, 1e3, 4e2), strict=True)
        }
        world.connection.workers.beat(
            WorkerBeat(
                id=f"worker-{number}", host=f"push-{number}", pid=4_000 + number, state="serving", lanes=12,
                started_ms=now_ms - 3_600_000, seen_ms=now_ms, version=__version__, in_flight=900, buffered=4_000,
                rate=3_400.0, tiers=tiers, metrics_port=9_100 + number, extra={"channels": ["log", "http"]},
            ),
            kept_s=3_600,
        )  # fmt: skip


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
