"""Caps hold at the provider's door: in any second, in any minute, after stalls, and with any number of workers."""

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from dispatcher.channels.guards.door import Doors
from dispatcher.wire.lease import ChannelTerms, GivenBack, Status
from tests.contract.ledger_worlds import LawWorld, ask, ask_own, given_back, own_lane, want

CAP = 2_000
POOL = "quota/project"
APPS = {"a": "shop", "b": "bank", "c": "shop"}
"""Apps of the tasks; both are in the quota group."""
PATIENCE_S = 1.0
STEP_MS = 5


@dataclass
class Granted:
    """Targets of one call."""

    since_s: float
    number: int
    first: int
    count: int
    targets: int
    """Those that have not left."""


class Sender:
    """A worker that asks in its own rhythm and sends what its doors let through, unless it stalls."""

    def __init__(self, world: LawWorld, name: str, task: str, period_ms: int, size: int = 1) -> None:
        self.world = world
        self.name = name
        self.task = task
        self.flow = f"null/{APPS[task]}"
        self.period_ms = period_ms
        self.size = size
        self.number = self.sequence = 0
        self.doors = Doors()
        self.granted: deque[Granted] = deque()
        self.unused: list[GivenBack] = []
        self.stalls_until_ms = 0

    def step(self, now_ms: int) -> int:
        """Return the targets that leave now."""
        if now_ms < self.stalls_until_ms:
            return 0
        if now_ms % self.period_ms < STEP_MS:
            self.ask(now_ms)
        return self.send(now_ms)

    def ask(self, now_ms: int) -> None:
        """Ask for as much as it can send until the next call, and some in reserve."""
        waiting = sum(granted.targets for granted in self.granted)
        room = max(0, CAP - waiting) // self.size
        if not room:
            return
        self.number += 1
        wanted = want(self.task, self.sequence, room, size=self.size)
        asked = ask(own_lane(self.task), wanted, demand=CAP)
        answer = self.world.lease(self.number, asked, worker=self.name, given_back=self.unused)
        self.unused = []
        count = sum(piece.count for piece in answer.lanes[0][0] if piece.status == Status.GRANTED)
        self.doors.allot(answer.paces, [self.flow] if count else [], now_ms / 1_000)
        if count:
            self.granted.append(Granted(now_ms / 1_000, self.number, self.sequence, count, count * self.size))
        self.sequence += count

    def send(self, now_ms: int) -> int:
        now_s, sent = now_ms / 1_000, 0
        while self.granted:
            granted = self.granted[0]
            if now_s - granted.since_s > PATIENCE_S:
                self.give_back(self.granted.popleft())
            elif self.doors.wait_s(self.flow, now_s) <= 0.0:
                sent += 1
                granted.targets -= 1
                if not granted.targets:
                    self.granted.popleft()
            else:
                break
        return sent

    def give_back(self, granted: Granted) -> None:
        """Return the envelopes of which nothing has left, before their lease ends."""
        if self.size == 1:
            claim, left = f"{self.name}.{granted.number}", granted.count - granted.targets
            self.unused.append(given_back(self.task, granted.first + left, granted.targets, claim))


def most_in(sends: list[int], ms: int) -> int:
    """Return the most targets in any time of this length."""
    width = ms // STEP_MS
    running = best = sum(sends[:width])
    for index in range(width, len(sends)):
        running += sends[index] - sends[index - width]
        best = max(best, running)
    return best


def run(world: LawWorld, senders: Iterable[Sender], seconds: int, stalls: random.Random | None = None) -> list[int]:
    sends, senders = [], list(senders)
    for now_ms in range(0, seconds * 1_000, STEP_MS):
        if stalls is not None and stalls.random() < 0.002:
            stalls.choice(senders).stalls_until_ms = now_ms + stalls.choice([30, 200, 700, 2_500])
        sends.append(sum(sender.step(now_ms) for sender in senders))
        world.advance(STEP_MS)
    return sends


@pytest.fixture
def capped(world: LawWorld) -> LawWorld:
    for task, app in APPS.items():
        world.add(task, app=app)
        world.set_global(f"quota:null:{app}", "project")
    world.set_global("cap:quota:project", str(CAP))
    in_use(world)
    return world


def in_use(world: LawWorld) -> None:
    """The group is used for longer than it takes to reach its cap."""
    at_us = world.clock.wall_ms() * 1_000
    world.view.command("HSET", world.view.keys.pool(POOL), "ramp_ms", 1, "refilled_us", at_us)


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_provider_sees_the_cap_used_and_kept(capped: LawWorld, workers: int, size: int) -> None:
    senders = [Sender(capped, f"w{n}", "abc"[n], [60, 85, 110][n], size) for n in range(workers)]
    sends = run(capped, senders, 66)
    assert most_in(sends, 1_000) <= 1.05 * CAP
    assert most_in(sends, 60_000) <= 60 * CAP
    assert sum(sends[1_000 // STEP_MS :]) >= 0.98 * CAP * 65


@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize("seed", range(3))
def test_no_stall_of_a_worker_is_made_up_for(capped: LawWorld, seed: int, size: int) -> None:
    """Nor are targets that it left behind and gives back: their time is not granted again."""
    senders = [Sender(capped, f"w{n}", "abc"[n], [60, 85, 110][n], size) for n in range(3)]
    sends = run(capped, senders, 66, random.Random(seed))
    assert most_in(sends, 1_000) <= 1.05 * CAP
    assert most_in(sends, 60_000) <= 60 * CAP


def test_a_group_that_rested_reaches_its_cap_within_a_minute(world: LawWorld) -> None:
    world.add("a")
    world.set_global("quota:null:shop", "project")
    world.set_global("cap:quota:project", str(CAP))
    sender = Sender(world, "w", "a", 60)
    sends = run(world, [sender], 75)
    by_second = [sum(sends[at : at + 1_000 // STEP_MS]) for at in range(0, len(sends), 1_000 // STEP_MS)]
    for second, targets in enumerate(by_second[:60]):
        assert targets <= max((second + 1) / 60, 1 / 60) * CAP + CAP * 0.05, second
    assert sum(by_second[20:40]) >= 0.9 * CAP * 20 * 0.5
    assert sum(by_second[65:]) >= 0.98 * CAP * 10


def test_apps_outside_of_the_group_and_caps_with_a_burst_are_not_paced(capped: LawWorld) -> None:
    capped.add("out", app="news")
    assert capped.lease(1, ask_own("out", 0, 50), worker="x").paces == []
    capped.advance(250)
    capped.set_global("cap:quota:project", f"{CAP}:700")
    assert capped.lease(1, ask_own("a", 0, 50), worker="y").paces == []
    capped.set_global("cap:quota:project", str(CAP))
    (pace,) = capped.lease(1, ask_own("a", 100, 50), worker="z").paces
    assert (pace.pool, pace.flow, pace.count) == (POOL, "null/shop", 50)


def test_an_app_that_left_its_group_is_capped_by_it_no_longer(capped: LawWorld) -> None:
    capped.set_global("quota:null:bank", "")
    assert capped.statuses(1, ask_own("b", 0, 100_000), worker="x") == [(Status.GRANTED, 100_000)]


def test_what_is_given_back_is_not_granted_again(capped: LawWorld) -> None:
    """Its time at the door is passing, and the time after that is granted to others. A cap with a burst refunds it."""
    capped.advance(250)
    full = own_count(capped, 1)
    assert full == pytest.approx(CAP / 4, rel=0.1)
    capped.advance(100)
    assert own_count(capped, 2, full) == pytest.approx(CAP / 10, rel=0.15)
    capped.set_global("cap:quota:project", f"{CAP}:{CAP // 4}")
    capped.advance(250)
    full = own_count(capped, 3)
    capped.advance(100)
    assert own_count(capped, 4, full) == pytest.approx(full, rel=0.1)


def own_count(world: LawWorld, number: int, back: int = 0) -> int:
    """Return the targets of app `shop` that call `number` grants, while it gives some of the last call back."""
    unused = [given_back("a", 10_000 * (number - 1), back, f"w.{number - 1}")] if back else []
    return world.granted(number, ask_own("a", 10_000 * number, 9_000), given_back=unused)


@pytest.mark.parametrize("terms", [ChannelTerms(3_000, 0), ChannelTerms(3_000, 10)])
def test_a_group_that_counts_requests_is_charged_for_requests(capped: LawWorld, terms: ChannelTerms) -> None:
    """A channel that sends whole envelopes, and one that sends ten targets in a request."""
    capped.set_global("quota_unit:project", "request")
    capped.set_global("cap:quota:project", "100")
    capped.advance(250)
    asked = ask(own_lane("a"), want("a", 0, 500, size=50), demand=25_000)
    answer = capped.lease(1, asked, channels={"null": terms})
    envelopes = sum(piece.count for piece in answer.lanes[0][0] if piece.status == Status.GRANTED)
    requests = envelopes * (5 if terms.targets_per_request else 1)
    assert requests == pytest.approx(25, abs=4)
    (pace,) = answer.paces
    assert (pace.count, pace.by_request) == (requests, True)
    assert pace.rate == pytest.approx(100, abs=1)


def test_a_channel_of_which_nothing_is_known_sends_a_request_for_each_target(capped: LawWorld) -> None:
    capped.set_global("quota_unit:project", "request")
    capped.advance(250)
    (pace,) = capped.lease(1, ask(own_lane("a"), want("a", 0, 9, size=50), demand=450)).paces
    assert (pace.count, pace.by_request) == (450, True)
