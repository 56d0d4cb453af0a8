"""States of a worker, and what each input makes of them: found out once, then looked up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dispatcher.engine.runs import EnvelopeRun
from dispatcher.engine.sending import PickedBatch
from dispatcher.ports import Delivery
from dispatcher.wire.groups import mask_of
from dispatcher.wire.lease import LeaseRequest, encode
from dispatcher.wire.topics import Topics
from tests.exploration.digest import digest
from tests.exploration.envelopes import Kind, kind_of
from tests.exploration.use_by import UseByCheck
from tests.exploration.variants import Variant
from tests.exploration.worker import Call, Input, LiveWorker, number_of

Plain = tuple[str, tuple[Kind, ...], int, bytes]
"""Something to be stored: lane (empty for an outcome record), envelopes, claim number, record."""


@dataclass(frozen=True)
class CallState:
    """number: of its claim. ahead: its use-by is, or was when it was checked. early: a target of it is not due."""

    number: int
    kinds: tuple[Kind, ...]
    ahead: bool
    checked: bool
    early: bool


@dataclass(frozen=True, kw_only=True)
class WorkerState:
    """State of a worker that the world sees. mask: numbers (bits) of the claims it may still send or record under.
    names: all claim numbers it knows. slots: how many deliveries it holds.
    overdue: time has passed that it has not seen. hurried: its last delivery did not wait until it was due."""

    id: int
    history: tuple[Input, ...]
    mask: int
    request: LeaseRequest | None
    request_key: bytes
    asked: tuple[tuple[Kind, ...], ...]
    fixed: int
    calls: tuple[CallState, ...]
    stores: tuple[Plain, ...]
    acks: tuple[int, ...]
    names: frozenset[int]
    slots: int
    attached: tuple[str, ...]
    overdue: bool
    hurried: bool

    @property
    def idle(self) -> bool:
        return not (self.slots or self.request or self.calls or self.stores or self.acks)


class WorkerMachine:
    """tables: turns an input into what the engine is given."""

    def __init__(self, variant: Variant, topics: Topics) -> None:
        self.states: list[WorkerState] = []
        self._lanes = variant.lanes()
        self._rules = variant.rules
        self._topics = topics
        self._use_by = UseByCheck()
        self._known: dict[bytes, int] = {}
        self._starts: dict[tuple[Input, ...], int] = {}
        self._moves: dict[tuple[int, Input], tuple[int, tuple[int, ...]]] = {}
        self._objects: dict[Any, Any] = {}
        self._other_histories: dict[int, tuple[Input, ...]] = {}

    def start(self, without: Sequence[str] = ()) -> int:
        """A new process."""
        history = (("hold", *(lane.name for lane in self._lanes if lane.name not in without)),)
        state = self._starts.get(history)
        if state is None:
            state = self._starts[history] = self._note(self._live(history), history)
        return state

    def move(self, state: int, event: Input) -> tuple[int, tuple[int, ...]]:
        """Return the state after an input, and for each delivery that it then holds its slot before. Answers
        and reports are named by what `keep` returned."""
        known = self._moves.get((state, event))
        if known is None:
            history = (*self.states[state].history, event)
            worker = self._live(history)
            known = self._moves[state, event] = (self._note(worker, history), worker.moved)
        return known

    def keep(self, key: Any, thing: Any) -> Any:
        """A name for something that an input carries."""
        self._objects.setdefault(key, thing)
        return key

    def _live(self, history: Sequence[Input]) -> LiveWorker:
        worker = LiveWorker(self._lanes, self._topics, self._rules)
        for event in history:
            worker.take(self._resolved(event))
        return worker

    def _resolved(self, event: Input) -> Input:
        match event[0]:
            case "answer":
                return (event[0], self._objects[event[1]], event[2])
            case "sent":
                return (event[0], event[1], [None if name is None else self._objects[name] for name in event[2]])
            case _:
                return event

    def _note(self, worker: LiveWorker, history: tuple[Input, ...]) -> int:
        name = digest_of(worker)
        state = self._known.get(name)
        if state is None:
            state = self._known[name] = len(self.states)
            self.states.append(describe(worker, state, history, self._use_by))
        elif history != self.states[state].history:
            self._other_histories[state] = history
        return state

    def doubts(self, every: int) -> list[tuple[WorkerState, Input]]:
        """Looks whether a state reacts alike whichever way it was reached: at one in `every` moves."""
        found = []
        for place, ((state, event), (after, _)) in enumerate(self._moves.items()):
            if place % every == 0 and state in self._other_histories:
                history = (*self._other_histories[state], event)
                if self._known.get(digest_of(self._live(history))) != after:
                    found.append((self.states[state], event))
        return found


def digest_of(worker: LiveWorker) -> bytes:
    receipts = list(worker.engine._settling._receipts)
    stores = [(store.plain(), receipts.index(store.token())) for store in worker.ports.stores]
    calls = [(call.batch, call.checked) for call in worker.ports.calls]
    whole = (worker.engine, calls, stores, worker.ports.acks, worker.fixed, worker.ports.attached)
    return digest(whole, worker.clock.monotonic_s())


def describe(worker: LiveWorker, number: int, history: tuple[Input, ...], use_by: UseByCheck) -> WorkerState:
    ports = worker.ports
    now_s = worker.clock.monotonic_s()
    request = worker.engine._leases._request
    assert (request is None) == (ports.request is None)
    fixed = worker.fixed
    calls = tuple(_call(call, use_by, now_s, worker.clock.wall_ms()) for call in ports.calls)
    stores = tuple(store.plain() for store in ports.stores)
    lanes = worker.engine._working.lanes.values()
    held = [part for lane in lanes for credit in lane.credit.values() for part in credit.queue]
    in_hand = {call.number for call in calls} | {store[2] for store in stores} | {number_of(p.claim) for p in held}
    given = list(worker.engine._working.given_back) + (list(request.given_back) if request else [])
    in_hand = (in_hand | {fixed}) - {0}
    return WorkerState(
        id=number,
        history=history,
        mask=sum(1 << one for one in in_hand),
        request=request,
        request_key=encode(request),
        asked=_asked(worker),
        fixed=fixed,
        calls=calls,
        stores=stores,
        acks=tuple(ports.acks),
        names=frozenset(in_hand | {number_of(one.claim) for one in given}),
        slots=len(worker.moved),
        attached=tuple(ports.attached),
        overdue=worker.engine._timers.next_s is not None and worker.engine._timers.next_s <= now_s,
        hurried=worker.hurried,
    )


def _asked(worker: LiveWorker) -> tuple[tuple[Kind, ...], ...]:
    """For each lane of the request, the first envelope of each want."""
    parts = [lane.asked for lane in worker.engine._leases._asked]
    return tuple(tuple(kind_of(part.deliveries[0].envelope) for part in asked) for asked in parts)


def _call(call: Call, use_by: UseByCheck, now_s: float, wall_ms: int) -> CallState:
    ahead = call.checked or use_by.allows(call.batch, now_s)
    assert isinstance(call.batch, PickedBatch)
    return CallState(
        number=number_of(call.batch.claim),
        kinds=call.kinds(),
        ahead=ahead,
        checked=call.checked,
        early=any(_is_early(*both, wall_ms) for both in zip(call.batch.parts, call.batch.deliveries, strict=False)),
    )


def _is_early(part: EnvelopeRun, delivery: Delivery, wall_ms: int) -> bool:
    """Return whether a target that is not due is sent. A run with groups has one delivery."""
    sent = mask_of(delivery.envelope.open_positions)
    waiting = [
        group for group in part.groups or () if group.due_ms > wall_ms and not (part.reopened and group.waits_for_flow)
    ]
    return any(mask_of(group.positions) & sent for group in waiting)
