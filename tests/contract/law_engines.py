"""Real engines over the ledger of a world, with all they ask and all they send written down: what law 8 is asserted of.

Broker and logs are in memory; ledger and fold are the world's. Time moves only in `run_for`.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dispatcher.wire.envelope import Envelope
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest
from dispatcher.wire.outcome import ALL_SENT, ClaimsEnded, Report
from dispatcher.wire.outcome import FORMAT as RECORD_FORMAT
from quotas.ledger import RedisLedger
from tests.contract.law_service import SETTINGS
from tests.contract.ledger_worlds import LawWorld, Place, own_lane, task_record
from tests.contract.registry_records import change, sealed, setting
from tests.records import lane_info
from tests.unit.engine_world import Worker

LEASE_S = 2.0
FOLD_S = 0.05
HOUSEKEEPING_S = 0.5
FOREVER = 1_000_000
KEPT_TARGETS = 3_000
"""Unsent targets of a task with a standing backlog, beside a second of the capacity: more than all buffers take."""


class Call(NamedTuple):
    """lanes: what was asked for."""

    at_s: float
    worker: str
    lanes: frozenset[str]


class Sent(NamedTuple):
    at_s: float
    targets: int


class Outage(NamedTuple):
    """from_s: the first moment without the ledger."""

    from_s: float
    to_s: float


@dataclass(kw_only=True)
class Push:
    """A task. standing: its lane does not run dry."""

    name: str
    channel: str
    standing: bool
    published: int = 0
    sent: int = 0
    next: int = 0
    paused: bool = False
    calls: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Sequence -> the workers that sent it."""


class _OnTime:
    """The world's ledger, which is told the time before it is asked."""

    def __init__(self, world: LawWorld, ledger: RedisLedger) -> None:
        self._world = world
        self._ledger = ledger

    def lease(self, request: LeaseRequest) -> LeaseAnswer:
        self._world.advance(0)
        return self._ledger.lease(request)


class LawEngines(LawWorld):
    """size: targets of every envelope."""

    def __init__(self, place: Place, size: int) -> None:
        self.size = size
        self.pushes: dict[str, Push] = {}
        self.lease_calls: list[Call] = []
        self.sent: list[Sent] = []
        self.caps: Counter[str] = Counter()
        self.outages: list[Outage] = []
        self._at_work = ""
        self._fold_s = 0.0
        super().__init__(place)
        self._asked, self.ledger = self.ledger, _OnTime(self, self.ledger)  # type: ignore[assignment]

    # ------------------------------------------------------------- what there is
    @property
    def now_s(self) -> float:
        return self.clock.monotonic_s()

    @property
    def live(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.alive]

    def join(self) -> Worker:
        worker = self.worker(f"w{len(self.workers)}")
        worker.leases.fail = 0 if self.reachable else FOREVER
        return worker

    def arrive(self, name: str, tier: str, *, channel: str = "null", standing: bool = False) -> Push:
        """A task with one envelope, or with a standing backlog."""
        push = self.pushes[name] = Push(name=name, channel=channel, standing=standing)
        self.write(task_record(name, tier, app="app", channel=channel, chunk=self.size))
        self.add_lane(lane_info(own_lane(name), name, tier=tier, chunk=self.size, channel=channel))
        self.more(push, 1)
        self._top_up()
        return push

    def more(self, push: Push, envelopes: int) -> None:
        targets = envelopes * self.size
        self.publish(push.name, own_lane(push.name), targets, chunk=self.size, channel=push.channel, first=push.next)
        push.next += envelopes
        push.published += targets

    def set_cap(self, name: str, rate: int) -> None:
        """name: total, channel/NAME, app/NAME, task/NAME. A rate of 0 takes the cap off."""
        kind, _, what = name.partition("/")
        self.write(change(what, "cap", str(rate)) if kind == "task" else setting(f"{SETTINGS[kind]}{what}", str(rate)))
        self.caps[name] = rate

    def pause(self, push: Push, paused: bool) -> None:
        self.change(push.name, "paused", str(int(paused)))
        push.paused = paused

    # ------------------------------------------------------------- the ledger goes and comes
    def lose_ledger(self) -> None:
        super().lose_ledger()
        self.outages.append(Outage(self.now_s, float("inf")))

    def lose_answers(self) -> None:
        """Calls are carried out, and no answer comes."""
        self.lose_ledger()
        for worker in self.workers:
            worker.leases.fail, worker.leases.lose = 0, FOREVER

    def find_ledger(self) -> None:
        super().find_ledger()
        for worker in self.workers:
            worker.leases.lose = 0
        self.outages[-1] = self.outages[-1]._replace(to_s=self.now_s)

    @property
    def is_alone(self) -> bool:
        """Whether the ledger is gone and all its leases have ended."""
        return not self.reachable and self.now_s >= self.outages[-1].from_s + LEASE_S

    # ------------------------------------------------------------- time
    def run_for(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while (left_s := end_s - self.now_s) > 1e-9:
            self._upkeep()
            wait_s = min([self._turn(worker) for worker in self.live], default=1.0)
            self.clock.advance(max(0.001, min(wait_s, left_s, self._fold_s - self.now_s)))

    def _turn(self, worker: Worker) -> float:
        self._at_work = worker.name
        wait_s = worker.work()
        for request in worker.leases.requests:
            lanes = frozenset(ask.lane for ask in request.lanes if ask.wants)
            self.lease_calls.append(Call(self.now_s, worker.name, lanes))
        worker.leases.requests.clear()
        return wait_s

    def answer(self, envelope: Envelope) -> Report:
        """The provider is called. Asserts that nothing is sent without a lease of the ledger."""
        push, targets = self.pushes[envelope.task], len(envelope.targets)
        assert not self.is_alone, f"{push.name} is sent at {self.now_s} s, the ledger gone since {self.outages[-1]}"
        if envelope.sequence not in push.calls:
            push.sent += targets
        push.calls[envelope.sequence].append(self._at_work)
        self.sent.append(Sent(self.now_s, targets))
        return ALL_SENT

    def _upkeep(self) -> None:
        """Do the work of publishers, folder and housekeeper."""
        if self.now_s >= self._fold_s:
            self._fold_s = self.now_s + FOLD_S
            self._top_up()
            self.fold_all()
        if self.reachable and self.now_s >= self._house_s:
            self._house_s = self.now_s + HOUSEKEEPING_S
            self.advance(0)
            for members in self._asked.due_claims().values():
                self.outcomes.publish("housekeeping", ClaimsEnded(RECORD_FORMAT, members), lambda _: None)

    def _top_up(self) -> None:
        kept = KEPT_TARGETS + self.caps["total"]
        for push in self.pushes.values():
            short = kept - (push.published - push.sent)
            if push.standing and short > kept // 4:
                self.more(push, -(-short // self.size))

    def fold_all(self) -> None:
        if self.folding:
            self.advance(0)
            self.fold_outcomes()

    # ------------------------------------------------------------- what the law is asserted of
    def calls_within(self, from_s: float, to_s: float) -> Counter[str]:
        """By worker."""
        return Counter(
            call.worker for call in self.lease_calls[self._place(self.lease_calls, from_s) :] if call.at_s < to_s
        )

    def sent_within(self, from_s: float, to_s: float) -> Iterator[Sent]:
        for sent in self.sent[self._place(self.sent, from_s) :]:
            if sent.at_s >= to_s:
                return
            yield sent

    def _place(self, log: list[Call] | list[Sent], from_s: float) -> int:
        return bisect_left(log, from_s, key=lambda entry: entry.at_s)

    def finish(self, within_s: float = 40.0) -> None:
        """All is sealed and sent, whatever it takes."""
        for push in self.pushes.values():
            push.standing = False
            self.write(sealed(push.name, push.published))
        end_s = self.now_s + within_s
        while any(self.counts(push.name)["sent"] < push.published for push in self.pushes.values()):
            assert self.now_s < end_s, f"not sent: {self.explain()}"
            self.run_for(0.5)
