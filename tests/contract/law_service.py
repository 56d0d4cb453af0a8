"""A service that lives from a ledger, with all it is granted written down: what the laws are asserted of.

Workers ask in their own rhythm for the lanes they hold; tasks stand in lanes of their own, in a shared lane, in retry
lanes, and where a pause or a cap moves them. Nothing granted is ever recorded, but for retries.
"""

import heapq
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from dispatcher.model.pools import NO_CAP, Cap
from dispatcher.model.tier import MILLI, Tier
from dispatcher.wire.lease import GivenBack, LaneAsk, LaneKind, Status, StatusRun, Want
from dispatcher.wire.outcome import RETRY
from dispatcher.wire.topics import side_of_lane
from lab.laws import CapSince, overshoot
from tests.contract.ledger_worlds import (
    SHARED_LANE,
    TOPICS,
    LawWorld,
    Worlds,
    ask,
    back_of,
    each_piece,
    mixed,
    own_lane,
    request,
    retry_lane,
    task_record,
    want,
)
from tests.thorough import TIMES

randoms = st.randoms(use_true_random=False, note_method_calls=False)
"""Chooses the details of a step."""
DEMAND_MS = 400
BACKLOG = 2_000
"""Targets that a lane is said to be able to send."""
POOLS = ["total", "channel/null", "app/shop", "app_channel/shop/null"]
"""One cap of each kind that concerns every task."""
RETRY_LANES = {lane.topic: str(lane.tier) for lane in TOPICS.retry_lanes()}
SETTINGS = {"total": "capacity", "channel": "cap:channel:", "app": "cap:app:", "app_channel": "cap:app_channel:"}


class Dose(NamedTuple):
    """Targets granted to a task, and the tier that paid; below zero: given back in time."""

    at_ms: int
    task: str
    tier: str
    targets: int


@dataclass(kw_only=True)
class Work:
    """A task. lane: where its envelopes stand. retries: those that wait for their second attempt, in retry_lane."""

    name: str
    tier: str
    size: int
    lane: str
    app: str = ""
    channel: str = ""
    shared: bool = False
    weight: int = MILLI
    next: int = 0
    backlog: bool = True
    left: int = 1 << 40
    """Targets that were not granted yet."""
    stopped: set[str] = field(default_factory=set)
    starts_ms: int = 0
    expires_ms: int = 0
    retries: list[int] = field(default_factory=list)
    retry_lane: str = ""


class Held(NamedTuple):
    """A grant to a worker. It is refunded if it is given back before lease_end_ms."""

    claim: str
    lane: str
    want: Want
    first: int
    count: int  # type: ignore[assignment]  # tuple has a method of this name
    lease_end_ms: int
    tier: str


class LawService:
    """holds: worker -> names of the tasks whose lanes it holds. ask_targets: most it asks for of a lane at once."""

    def __init__(self, world: LawWorld, seed: int = 1, ask_targets: int = 1_000, lease_ms: int = 1_000) -> None:
        self.world = world
        self.now_ms = 0
        self.works: dict[str, Work] = {}
        self.holds: dict[str, list[str]] = {}
        self.doses: list[Dose] = []
        self.caps: dict[str, list[CapSince]] = {}
        self.largest: dict[str, Counter[str]] = {}
        self.ask_targets = ask_targets
        self.held: list[Held] = []
        self._lease_ms = lease_ms
        self._rng = random.Random(seed)
        self._periods: dict[str, int] = {}
        self._numbers: Counter[str] = Counter()
        self._calls: list[tuple[float, str]] = []
        self._stopped_channels: set[str] = set()
        self._back: dict[str, list[Held]] = {}

    # ------------------------------------------------------------- what there is
    def add(self, name: str, tier: str = "high", size: int = 1, *, shared: bool = False, **fields: object) -> Work:
        """A task arrives, with a backlog that does not end."""
        record = task_record(name, tier, shared=shared, **fields)
        self.world.apply(record)
        work = Work(
            name=name, tier=tier, size=size, app=record.app, channel=record.channel, shared=shared, lane=record.lane,
            weight=record.weight, starts_ms=record.start_ms, expires_ms=record.expires_ms,
        )  # fmt: skip
        if record.channel in self._stopped_channels:
            work.stopped.add("channel")
        self.works[name] = work
        self._note(f"task/{name}", Cap(record.cap, record.cap_burst))
        return work

    def retrying(self, name: str, tier: str, size: int, *, step_s: int) -> Work:
        """A task with a backlog that does not end in a retry lane. A small one, which no lane of its own keeps out of
        there: its envelopes need not be recorded before."""
        work = self.add(name, tier, size, shared=True)
        work.lane = TOPICS.retry_lane(Tier(tier), step_s)
        return work

    def join(self, worker: str, period_ms: int, tasks: Iterable[str]) -> None:
        """A worker begins to ask, at once."""
        self.holds[worker] = list(tasks)
        self._periods[worker] = period_ms
        heapq.heappush(self._calls, (self.now_ms + self._rng.uniform(0, 1), worker))

    def die(self, worker: str) -> None:
        """It asks no more, and what it was granted is spent."""
        del self.holds[worker]
        self._calls = [call for call in self._calls if call[1] != worker]
        heapq.heapify(self._calls)
        self.held = [held for held in self.held if not held.claim.startswith(f"{worker}.")]

    def set_cap(self, name: str, rate: int, burst: int = 0) -> None:
        """name: total, channel/NAME, app/NAME, app_channel/APP/NAME. A rate of 0 takes the cap off."""
        kind, _, what = name.partition("/")
        self.world.set_global(f"{SETTINGS[kind]}{what}", f"{rate}:{burst}")
        self._note(name, Cap(rate, burst))

    def set_task(self, name: str, field: str, value: str) -> None:
        """A control of a task; one in a shared lane gets a lane of its own first, as from every client."""
        work = self.works[name]
        if work.shared and field not in ("cancelled", "stopped"):
            self.world.change(name, "lane", own_lane(name))
            work.shared = False
        self.world.change(name, field, value)
        if field in ("paused", "cancelled", "stopped"):
            (work.stopped.add if value == "1" else work.stopped.discard)(field)
        if field == "weight":
            work.weight = int(value)
        if field == "tier":
            work.tier = value
        if field == "cap":
            rate, _, burst = value.partition(":")
            self._note(f"task/{name}", Cap(int(rate), int(burst or 0)))

    def stop_channel(self, channel: str, stopped: bool) -> None:
        self.world.set_global(f"channel_paused:{channel}", str(int(stopped)))
        (self._stopped_channels.add if stopped else self._stopped_channels.discard)(channel)
        for work in self.works.values():
            if work.channel == channel:
                (work.stopped.add if stopped else work.stopped.discard)("channel")

    def _note(self, name: str, cap: Cap) -> None:
        """A cap that is set later than its task or the service came was none before."""
        none = [CapSince(0, NO_CAP)] if self.now_ms and name not in self.caps and not name.startswith("task/") else []
        self.caps.setdefault(name, none).append(CapSince(self.now_ms * 1_000, cap))

    # ------------------------------------------------------------- time
    def run(self, ms: int) -> Counter[str]:
        """Lets the workers ask for so long. Returns the targets granted meanwhile, by task."""
        until_ms = self.now_ms + ms
        while self._calls and self._calls[0][0] < until_ms:
            at_ms, worker = heapq.heappop(self._calls)
            self._advance(max(int(at_ms), self.now_ms))
            self._call(worker)
            again_ms = at_ms + self._periods[worker] * self._rng.uniform(0.8, 1.2)
            heapq.heappush(self._calls, (again_ms, worker))
        self._advance(until_ms)
        return self.sums(until_ms - ms, until_ms)

    def _advance(self, to_ms: int) -> None:
        self.world.advance(to_ms - self.now_ms)
        self.now_ms = to_ms

    def _call(self, worker: str) -> None:
        self._numbers[worker] += 1
        works = [self.works[name] for name in self.holds[worker]]
        asks = self._asks([work for work in works if work.backlog and work.left > 0])
        back = [self._returned(held) for held in self._back.pop(worker, [])]
        asked = request(
            self._numbers[worker], *asks, worker=worker, demand_ms=DEMAND_MS, lease_ms=self._lease_ms, given_back=back
        )
        for found in each_piece(asks, self.world.ledger.lease(asked)):
            self._take(asked.claim, *found)

    def _asks(self, works: list[Work]) -> list[LaneAsk]:
        wants: dict[str, list[Want]] = {}
        for work in works:
            count = max(min(self.ask_targets, work.left) // work.size, 1)
            wants.setdefault(work.lane, []).append(want(work.name, work.next, count, size=work.size))
            for sequence in work.retries:
                again = want(work.name, sequence, 1, size=work.size, attempt=1)
                wants.setdefault(work.retry_lane, []).append(again)
        return [self._ask(lane, lane_wants) for lane, lane_wants in wants.items()]

    def _ask(self, lane: str, wants: list[Want]) -> LaneAsk:
        if lane == SHARED_LANE:
            return ask(lane, *wants, kind=LaneKind.SHARED, demand=BACKLOG)
        if side_of_lane(lane):
            return ask(lane, *wants, kind=LaneKind.SIDE, demand=BACKLOG)
        if lane in RETRY_LANES:
            return ask(lane, *wants, kind=LaneKind.RETRY, tier=RETRY_LANES[lane])
        return ask(lane, *wants, demand=BACKLOG)

    # ------------------------------------------------------------- what is granted
    def _take(self, claim: str, lane: LaneAsk, wanted: Want, first: int, piece: StatusRun) -> None:
        work = self.works[wanted.task]
        tier = lane.tier or ("low" if lane.kind != LaneKind.OWN else work.tier)
        if piece.status == Status.GRANTED:
            lease_end_ms = self.now_ms + self._lease_ms
            self._granted(work, Held(claim, lane.lane, wanted, first, piece.count, lease_end_ms, tier))
        if piece.status == Status.MOVE and wanted.attempt:
            work.retry_lane = piece.lane
        elif piece.status == Status.MOVE:
            work.lane = piece.lane

    def _granted(self, work: Work, held: Held) -> None:
        """Law 7 is asserted here: nothing that is stopped is granted anything."""
        now_ms = self.world.clock.wall_ms()
        assert not work.stopped, f"{work.name} is granted {held.count} though {work.stopped}"
        assert work.starts_ms <= now_ms, f"{work.name} is granted {held.count} before its start"
        assert not 0 < work.expires_ms <= now_ms, f"{work.name} is granted {held.count} though it has expired"
        if held.want.attempt:
            work.retries.remove(held.first)
        else:
            work.next = max(work.next, held.first + held.count)
        work.left -= held.count * work.size
        self.held.append(held)
        self._dose(work, held.tier, held.count * work.size)

    def _dose(self, work: Work, tier: str, targets: int) -> None:
        self.doses.append(Dose(self.now_ms, work.name, tier, targets))
        for name in self.pools_of(work):
            self.largest.setdefault(name, Counter())[tier] = max(work.size, self.largest.get(name, Counter())[tier])

    def pools_of(self, work: Work) -> list[str]:
        """Names of all caps there may be on the task."""
        app, channel = work.app, work.channel
        return ["total", f"channel/{channel}", f"app/{app}", f"app_channel/{app}/{channel}", f"task/{work.name}"]

    def give_back(self, held: Held, count: int) -> None:
        """The last `count` envelopes are given back unsent, with the worker's next call."""
        self.held.remove(held)
        part = held._replace(first=held.first + held.count - count, count=count)
        self._back.setdefault(held.claim.rpartition(".")[0], []).append(part)

    def _returned(self, held: Held) -> GivenBack:
        if self.now_ms < held.lease_end_ms:
            self._dose(self.works[held.want.task], held.tier, -held.count * held.want.size)
        return back_of(held.want, held.claim, held.lane, held.first, held.count)

    def retry(self, held: Held) -> None:
        """The first envelope's targets are recorded as to be tried again: the next attempt is in a retry lane."""
        self.held.remove(held)
        work = self.works[held.want.task]
        self.world.record(work.name, mixed(held.first, [RETRY] * work.size), claim=held.claim)
        work.retries.append(held.first)
        work.retry_lane = retry_lane(work.tier)

    # ------------------------------------------------------------- what the laws are asserted of
    def sums(self, from_ms: int, to_ms: int, by: Callable[[Dose], str] = lambda dose: dose.task) -> Counter[str]:
        """Targets granted in a time, by task or otherwise."""
        sums: Counter[str] = Counter()
        for dose in self.doses:
            if from_ms <= dose.at_ms < to_ms:
                sums[by(dose)] += dose.targets
        return sums

    def assert_caps_kept(self) -> None:
        """Law 6: in no second, the first included, more than the cap, its burst, and one largest envelope per tier."""
        for name, history in self.caps.items():
            doses = [
                (dose.at_ms * 1_000, dose.targets)
                for dose in self.doses
                if name in self.pools_of(self.works[dose.task])
            ]
            worst = overshoot(doses, history, sum(self.largest.get(name, Counter()).values()))
            assert worst is None or worst[0] <= worst[1] + 1e-6, f"{name}: {worst[0]} in a second of {worst[1]} allowed"


class Judged(RuleBasedStateMachine):
    """A machine whose every example ends in a judgement, unless something has failed before."""

    def __init__(self) -> None:
        super().__init__()
        self._raised = sys.exc_info()[1]

    @property
    def is_sound(self) -> bool:
        """In `teardown`: it is called with what a rule has raised in flight."""
        return sys.exc_info()[1] is self._raised


def check(machine: type[RuleBasedStateMachine], worlds: Worlds, *, examples: int, steps: int) -> None:
    """Runs a machine that makes its service in `worlds()`. FAIRLANE_TEST_LAWS=10 tries ten times the examples."""
    here = type(f"{machine.__name__}Here", (machine,), {"worlds": staticmethod(worlds)})
    chosen = settings(
        max_examples=max(1, round(TIMES * examples)),
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(here, settings=chosen)
