"""One worker as a machine: the real engine, every port call of which is answered by an input of its own.

The engine is deterministic, so what it does in a state on an input is found out once and remembered. A state is known
by its digest; to react to a new input it is made again from the inputs that led to it first.
"""

import queue
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dispatcher.engine.engine import Engine
from dispatcher.engine.events import BatchSent, LaneReady, LanesChanged, LeaseAnswered
from dispatcher.engine.runs import EnvelopeRun
from dispatcher.engine.sending import PickedBatch
from dispatcher.engine.settings import EngineSettings
from dispatcher.engine.shared import EnginePorts
from dispatcher.model.errors import NotFound, Unreachable
from dispatcher.ports import Batch, Delivery, Done, LaneInfo
from dispatcher.retry import Backoff
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest
from dispatcher.wire.outcome import OutcomeRecord, Outcomes, Report
from dispatcher.wire.topics import Topics
from tests.exploration.envelopes import REOPENED, Kind, TaskRules, envelope_of, kind_of, stripped
from tests.virtual_clock import VirtualClock

NAME = "w"
"""Every worker's own name. The world distinguishes the workers."""
UNASKED = 1
"""The number of a call that the ledger has not carried out yet; then the world gives it one that no claim has."""
STALL_S = 1_000.0
"""Longer than any lease."""
NEVER_S = 1e9
AT_ONCE = EngineSettings(
    worker=NAME,
    held=Backoff(0.0, 0.0),
    parked_s=0.0,
    period_s=0.0,
    spacing_s=0.0,
    calls_per_s=1e9,
    repeat=Backoff(0.0, 0.0),
    settle_linger_s=0.0,
    store_again=Backoff(0.0, 0.0),
    attach_again_s=NEVER_S,  # nothing to these ports
)
"""The engine gets at once whatever it waits for: the exploration itself lets it happen at any later time. Leases and
claims have their real lengths; time passes only for a worker that stalls."""

_RETRY_STEP = re.compile(r"-\d+s$")
"""One retry lane represents those of all delays."""
Input = tuple[Any, ...]


class Call(msgspec.Struct):
    """A batch on its way. checked: its use-by was ahead when it was looked at."""

    batch: Batch
    sent: Callable[[Batch, Sequence[Report | None]], None]
    checked: bool = False

    def deliveries(self) -> list[Delivery]:
        """Return the deliveries, each with all its targets."""
        assert isinstance(self.batch, PickedBatch)
        return [delivery for part in self.batch.parts for delivery in part.deliveries]

    def kinds(self) -> tuple[Kind, ...]:
        return tuple(kind_of(delivery.envelope) for delivery in self.batch.deliveries)


class Store(msgspec.Struct):
    """Something published. lane: empty for an outcome record."""

    lane: str
    envelopes: list[Kind]
    claim: str
    record: bytes
    done: Done

    def plain(self) -> tuple[Any, ...]:
        return (self.lane, tuple(self.envelopes), number_of(self.claim), self.record)

    def token(self) -> int:
        """The engine's name for it."""
        cells = dict(zip(self.done.__code__.co_freevars, self.done.__closure__ or (), strict=True))
        return int(cells["token"].cell_contents)


def number_of(claim: str) -> int:
    """0 of what has no claim."""
    return int(claim.rpartition(".")[2] or 0)


class Ports:
    """All ports of one engine: they keep what was asked of them. acks: slots."""

    def __init__(self) -> None:
        self.attached: list[str] = []
        self.offered: dict[str, list[Delivery]] = {}
        self.request: LeaseRequest | None = None
        self.calls: list[Call] = []
        self.stores: list[Store] = []
        self.acks: list[int] = []
        self.reopens = False

    # ---- Lanes
    def attach(self, lane: LaneInfo, prefetch_targets: int) -> None:
        if lane.name not in self.attached:
            self.attached.append(lane.name)

    def detach(self, lane: str) -> None:
        self.attached.remove(lane)

    def drain(self, lane: str, max_targets: int) -> tuple[list[Delivery], bool]:
        return self.offered.pop(lane, []), True

    def ack(self, lane: str, deliveries: Sequence[Delivery]) -> None:
        self.acks += [delivery.handle for delivery in deliveries]

    def give_back(self, lane: str, deliveries: Sequence[Delivery]) -> None:
        raise AssertionError("Nothing that is explored gives messages back.")

    # ---- LeaseCaller
    def ask(self, request: LeaseRequest, answered: Callable[[LeaseAnswer | None, Exception | None], None]) -> None:
        self.request = request

    # ---- Courier
    def send(self, batch: Batch, sent: Callable[[Batch, Sequence[Report | None]], None]) -> None:
        self.calls.append(Call(batch, sent))

    def flow(self, channel: str, _app: str, /) -> str:
        return channel

    def batch_limit(self, channel: str) -> int:
        return 100

    # ---- pauses
    def is_reopened(self, flow: str) -> bool:
        return self.reopens

    # ---- OutcomeLog, EnvelopePublisher
    def recorded(self, _task: str, record: OutcomeRecord, done: Done) -> None:
        assert isinstance(record, Outcomes)
        claim, body = stripped(record)
        self.stores.append(Store("", [], claim, body, done))

    def moved_on(self, lane: str, envelopes: Sequence[Envelope], done: Done) -> None:
        lane = _RETRY_STEP.sub("-1s", lane)
        self.stores.append(Store(lane, [kind_of(envelope) for envelope in envelopes], "", b"", done))


class Publishing:
    """A port with this one call."""

    def __init__(self, publish: Callable[..., None]) -> None:
        self.publish = publish


def stored_at_once(_letter: object, done: Done) -> None:
    """Dead letters come before the record, and change nothing that is explored."""
    done(None)


class LiveWorker:
    """An engine and what it has asked of its ports."""

    def __init__(self, lanes: Sequence[LaneInfo], topics: Topics, rules: TaskRules) -> None:
        self._rules = rules
        self.clock = VirtualClock()
        self.inbox: queue.Queue[Any] = queue.Queue()
        self.ports = Ports()
        ports = EnginePorts(
            lanes=self.ports,
            courier=self.ports,
            leases=self.ports,
            outcomes=Publishing(self.ports.recorded),
            publisher=Publishing(self.ports.moved_on),
            dead_letters=Publishing(stored_at_once),
            topics=topics,
            is_reopened=self.ports.is_reopened,
        )
        self.hurried = False
        self.engine = Engine(AT_ONCE, ports, self.clock, self.inbox)
        self.moved: tuple[int, ...] = ()
        """By slot of a delivery: which slot it had before the last input."""
        self._lanes = {lane.name: lane for lane in lanes}
        self.take(("hold", *self._lanes))

    def take(self, event: Input) -> None:
        self.engine._leases._number, self.hurried = 0, False
        getattr(self, "_" + event[0])(*event[1:])
        while not self.inbox.empty():
            self.engine.step(self.inbox.get())
        self._tidy()

    @property
    def fixed(self) -> int:
        """The number of the call that is made again, if the ledger has carried it out and its answer was lost; or 0."""
        request = self.engine._leases._request
        return request.number if request is not None and request.number != UNASKED else 0

    def deliveries(self) -> list[Delivery]:
        """All it holds, but those of which only the ack is under way."""
        found: list[Delivery] = []
        for lane in self.engine._working.lanes.values():
            parts: list[EnvelopeRun] = [*lane.waiting, *lane.asked]
            parts += [part for credit in lane.credit.values() for part in credit.queue]
            found += [delivery for part in parts for delivery in part.deliveries]
        found += [delivery for part in self._held() for delivery in part.deliveries]
        found += [delivery for call in self.ports.calls for delivery in call.deliveries()]
        found += [delivery for receipt in self._receipts() for delivery in receipt.job.acks]
        return list({id(delivery): delivery for delivery in found}.values())

    def _held(self) -> list[EnvelopeRun]:
        """Return the runs that wait for a timer."""
        calls = [call for _, _, call in sorted(self.engine._timers._heap, key=lambda entry: entry[:2])]
        cells = [cell.cell_contents for call in calls for cell in getattr(call, "__closure__", None) or ()]
        return [part for part in cells if isinstance(part, EnvelopeRun)]

    def _receipts(self) -> list[Any]:
        return list(self.engine._settling._receipts.values())

    def _tidy(self) -> None:
        """Sort what is under way and unname deliveries, so that states that differ only in these are one."""
        ports, receipts = self.ports, self.engine._settling._receipts
        ports.calls.sort(key=lambda call: (number_of(call.batch.claim), call.kinds()))
        ports.stores.sort(key=Store.plain)
        ordered = {store.token(): receipts[store.token()] for store in ports.stores}
        receipts.clear()
        receipts.update(ordered)
        deliveries = self.deliveries()
        acks = sorted(set(ports.acks))
        self.moved = (*(delivery.handle for delivery in deliveries), *acks)
        for slot, delivery in enumerate(deliveries):
            delivery.handle = slot
        ports.acks = [len(deliveries) + place for place in range(len(acks))]

    def _hold(self, *names: str) -> None:
        self.engine.step(LanesChanged([self._lanes[name] for name in names]))

    def _receive(self, lane: str, deliveries: Sequence[tuple[int, Kind, int]]) -> None:
        now_s, rules = self.clock.monotonic_s(), self._rules
        later_ms = self.clock.wall_ms() + 600_000
        offered = [
            Delivery(envelope_of(kind, turn, rules, later_ms if turn == REOPENED else 0), slot, now_s)
            for slot, kind, turn in deliveries
        ]
        self.ports.offered[lane] = offered
        self.engine.step(LaneReady(lane))
        self.ports.offered.pop(lane, None)
        if REOPENED in {turn for _, _, turn in deliveries}:
            self._reopen(lane)

    def _reopen(self, lane: str) -> None:
        """A pause of the flow is ended."""
        self.ports.reopens, working = True, self.engine._working
        working.hurry()
        self.ports.reopens = False
        self.hurried = any(part.reopened for part in working.lanes[lane].waiting)
        self.engine.advance()

    def _answer(self, answer: LeaseAnswer, number: int) -> None:
        self._number(number)
        self.ports.request = None
        self.engine.step(LeaseAnswered(number, answer))

    def _lost(self, number: int) -> None:
        """number: 0 if the ledger has not carried it out."""
        if number:
            self._number(number)
        request, self.ports.request = self.ports.request, None
        assert request is not None
        self.engine.step(LeaseAnswered(number or request.number, None, Unreachable("lost")))

    def _number(self, number: int) -> None:
        leases = self.engine._leases
        assert leases._request is not None
        leases._request = msgspec.structs.replace(leases._request, number=number)

    def _check(self, index: int) -> None:
        self.ports.calls[index].checked = True

    def _sent(self, index: int, reports: Sequence[Report | None]) -> None:
        call = self.ports.calls.pop(index)
        self.engine.step(BatchSent(call.batch, list(reports)))

    def _stored(self, index: int) -> None:
        self.ports.stores.pop(index).done(None)

    def _unconfirmed(self, index: int) -> None:
        self.ports.stores.pop(index).done(Unreachable("lost"))

    def _refused(self, index: int) -> None:
        self.ports.stores.pop(index).done(NotFound("no such lane"))

    def _acked(self, index: int) -> None:
        self.ports.acks.pop(index)

    def _stall(self) -> None:
        self.clock.advance(STALL_S)

    def _tick(self) -> None:
        self.engine.advance()
