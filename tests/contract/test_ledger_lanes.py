"""Single lanes in a pool: what they leave to others, and what they are charged."""

from collections import Counter
from itertools import count

from dispatcher.wire.lease import GivenBack, LaneAsk, Status
from tests.contract.ledger_worlds import (
    LawWorld,
    ask,
    ask_own,
    ask_shared,
    given_back,
    own_lane,
    request,
    statuses,
    want,
)


class Worker:
    """Asks for some envelopes of each task at once, ten times a second. shared: tasks in the shared lane."""

    def __init__(self, world: LawWorld, *tasks: str, shared: tuple[str, ...] = ()) -> None:
        self.granted: Counter[str] = Counter()
        self._world = world
        self.tasks = tasks
        self._shared = shared
        self._numbers = count(1)

    def work(self, ms: int) -> None:
        for _ in range(0, ms, 100):
            self._world.advance(100)
            answer = self._world.ledger.lease(request(next(self._numbers), *map(self._ask, self.tasks)))
            for task, [pieces] in zip(self.tasks, answer.lanes, strict=True):
                self.granted[task] += sum(piece.count for piece in pieces if piece.status == Status.GRANTED)

    def _ask(self, task: str) -> LaneAsk:
        if task in self._shared:
            return ask_shared(want(task, self.granted[task], 400))
        return ask(own_lane(task), want(task, self.granted[task], 400), demand=1_000)


def test_the_credit_that_a_paused_task_leaves_is_the_others_at_once(world: LawWorld) -> None:
    world.set_capacity(1_000)
    for task in ("high", "low"):
        world.add(task, task)
    waiting = ask(own_lane("high"), demand=1_000)
    world.lease(1, waiting)
    world.advance(250)
    world.lease(2, waiting)
    world.change("high", "paused", "1")
    answer = world.lease(3, waiting, ask_own("low", 0, 400))
    assert dict(statuses(answer, 1))[Status.GRANTED] >= 200


def test_copies_of_an_ended_task_keep_no_capacity_from_others(world: LawWorld) -> None:
    world.set_capacity(1_000)
    for task in ("high", "low"):
        world.add(task, task)
    worker = Worker(world, "high", "low")
    worker.work(1_000)
    world.end("high")
    worker.work(1_000)
    before = Counter(worker.granted)
    worker.work(3_000)
    assert (worker.granted["high"], worker.granted["low"] - before["low"]) == (before["high"], 3_000)


def test_a_lane_that_comes_back_is_owed_nothing_for_its_absence(world: LawWorld) -> None:
    """It left ahead of its tier, which is remembered for a minute, and has long been behind it by then."""
    world.set_capacity(2_000)
    world.add("stays")
    world.add("leaves", weight=500)
    worker = Worker(world, "stays")
    large, calls = ask_own("leaves", 0, 1, size=500), count(1)
    while world.statuses(next(calls), large, worker="x") != [(Status.GRANTED, 1)]:
        worker.work(100)
    worker.work(20_000)
    worker.tasks = ("leaves", "stays")
    before = Counter(worker.granted)
    worker.work(300)
    since = worker.granted - before
    assert since["leaves"] <= 0.4 * since.total()


def test_a_lane_that_gives_its_credit_back_has_not_lost_its_turn(world: LawWorld) -> None:
    """Its worker's channel had no room for the moment. One envelope puts so light a lane two seconds ahead."""
    world.set_capacity(2_000)
    world.add("light", weight=5)
    world.add("heavy")
    rounds = count(1)

    def until_granted(*given_back: GivenBack) -> tuple[int, int]:
        """The number of the call and how many there were."""
        for calls, number in enumerate(rounds, 1):
            world.advance(100)
            asks = ask_own("light", 0, 1, size=20), ask_own("heavy", 400 * number, 400)
            answer = world.lease(number, *asks, given_back=list(given_back) if calls == 1 else [])
            if statuses(answer) == [(Status.GRANTED, 1)]:
                return number, calls
        raise AssertionError

    number, _ = until_granted()
    _, calls = until_granted(given_back("light", 0, 1, f"w.{number}", size=20))
    assert calls <= 3


def test_a_task_that_comes_late_has_its_part_of_its_apps_cap_at_once(world: LawWorld) -> None:
    """Though the app is far behind in the total, which has room for all."""
    world.set_capacity(5_000)
    world.set_global("cap:app:shop", "1000")
    world.add("another", app="other")
    for task in ("early", "late"):
        world.add(task)
    worker = Worker(world, "early", "another")
    worker.work(3_000)
    before = worker.granted["early"]
    worker.tasks = ("early", "late", "another")
    worker.work(500)
    assert worker.granted["late"] >= 0.45 * (worker.granted["early"] - before + worker.granted["late"])


def test_where_apps_share_a_lane_of_many_apps_gets_what_one_app_gets(world: LawWorld) -> None:
    world.set_capacity(1_000)
    world.set_global("sharing", "apps")
    world.add("own", "low")
    world.add("one of many", "low", shared=True)
    worker = Worker(world, "own", "one of many", shared=("one of many",))
    worker.work(5_000)
    assert 0.45 <= worker.granted["own"] / worker.granted.total() <= 0.55


def test_where_apps_share_an_app_owes_nothing_for_tasks_that_have_gone(world: LawWorld) -> None:
    """Their workers died, or had nothing more of them."""
    world.set_capacity(1_000)
    world.set_global("sharing", "apps")
    world.add("a")
    world.add("b", app="other")
    for number in range(1, 21):
        world.add(f"gone{number}")
        world.lease(number, ask_own(f"gone{number}", 0, 1), worker="x")
        world.advance(500)
    worker = Worker(world, "a", "b")
    worker.work(5_000)
    assert 0.45 <= worker.granted["a"] / worker.granted.total() <= 0.55


def test_a_worker_with_nothing_left_of_a_lane_hides_nothing_that_another_has_of_it(world: LawWorld) -> None:
    """Its call comes between the others', and what it says of the lane is the last that was said."""
    world.set_capacity(1_000)
    for task in ("high", "low"):
        world.add(task, task)
    granted = Counter({"high": 0, "low": 0})
    for number in range(1, 31):
        world.advance(100)
        world.lease(number, ask(own_lane("high"), demand=1), worker="almost empty")
        for task in ("low", "high"):
            asked = ask(own_lane(task), want(task, granted[task], 400), demand=1_000)
            pieces = world.statuses(number, asked, worker=task)
            granted[task] += dict(pieces).get(Status.GRANTED, 0)
    assert granted["high"] >= 0.8 * granted.total()
