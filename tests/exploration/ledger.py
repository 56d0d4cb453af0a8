"""The ledger and its fold as a machine: states of the real in-memory view, what each operation makes of them."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import msgspec

from dispatcher.clock import VirtualClock
from dispatcher.control import ControlRecord, encode_control
from dispatcher.lease import LeaseAnswer, LeaseRequest, Status
from dispatcher.memory import claims
from dispatcher.memory.fold import MemoryFold
from dispatcher.memory.ledger import MemoryLedger
from dispatcher.memory.view import Epoch, MemoryView
from dispatcher.outcome import EpochMark
from dispatcher.topics import Topics
from tests.exploration.digest import digest
from tests.exploration.envelopes import TASK
from tests.exploration.machine import WorkerState
from tests.exploration.worker import NAME

Name = tuple[int, int]
"""Of a claim: worker, number."""


def claim_of(name: Name) -> str:
    return f"{NAME}{name[0]}.{name[1]}"


def name_of(claim: str) -> Name:
    worker, _, rest = claim.removeprefix(NAME).partition(".")
    return int(worker), int(rest.partition("|")[0])


@dataclass(frozen=True)
class ViewState:
    """What the world sees of the view. claims: live ones; names: all it mentions. last: by
    worker, the number of the call whose answer it keeps."""

    id: int
    ready: bool
    claims: tuple[Name, ...]
    names: frozenset[Name]
    last: dict[int, int]
    complete: bool
    closable: bool
    ended: bool
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Granted:
    """An answer. claimed: it grants something, or has it recorded; sends: it grants something."""

    key: bytes
    answer: LeaseAnswer
    ready: bool
    claimed: bool
    sends: bool


class _Writer(pickle.Pickler):
    """A view as bytes, from which copies are made. shared: what is not copied."""

    def __init__(self, shared: Sequence[object]) -> None:
        self._bytes = BytesIO()
        super().__init__(self._bytes, pickle.HIGHEST_PROTOCOL)
        self._places = {id(thing): place for place, thing in enumerate(shared)}

    def persistent_id(self, thing: object) -> int | None:
        return self._places.get(id(thing))

    def written(self, view: MemoryView) -> bytes:
        self.dump(view)
        return self._bytes.getvalue()


class _Reader(pickle.Unpickler):
    def __init__(self, written: bytes, shared: Sequence[object]) -> None:
        super().__init__(BytesIO(written))
        self._shared = shared

    def persistent_load(self, place: int) -> object:
        return self._shared[place]

    def view(self) -> MemoryView:
        view: MemoryView = self.load()
        return view


class LedgerMachine:
    def __init__(self, topics: Topics) -> None:
        self.states: list[ViewState] = []
        self._views: list[bytes] = []
        self._clock = VirtualClock()
        self._topics = topics
        self._shared = (self._clock, topics)
        self._known: dict[bytes, int] = {}
        self._moves: dict[Any, Any] = {}
        self._answers: dict[bytes, Granted] = {}

    # ------------------------------------------------------------- operations
    def empty(self, epoch: int) -> int:
        """A view just begun, in an empty Redis. Epoch 0 is ready at once."""
        known = self._moves.get(("empty", epoch))
        if known is None:
            view = MemoryView(self._clock, self._topics)
            if epoch:
                view.begin_epoch(str(epoch), 0)
            known = self._moves["empty", epoch] = self._note(view)
        return int(known)

    def lease(self, state: int, worker: int, asks: WorkerState, number: int, lost: bool) -> tuple[int, Granted]:
        """The answer to a worker's call, which from now on has this number."""
        key = ("lease", state, worker, asks.request_key, number, lost)
        if key not in self._moves:
            assert asks.request is not None
            self._moves[key] = self._lease(state, worker, asks.request, number, lost)
        result: tuple[int, Granted] = self._moves[key]
        return result

    def _lease(self, state: int, worker: int, request: LeaseRequest, number: int, lost: bool) -> tuple[int, Granted]:
        view = self._copy(state)
        name = f"{NAME}{worker}"
        given = [msgspec.structs.replace(one, claim=name + one.claim.removeprefix(NAME)) for one in request.given_back]
        asked = msgspec.structs.replace(request, worker=name, number=number, given_back=given)
        answer = MemoryLedger(view).lease(asked)
        if not lost:
            view.calls.pop(name, None)
        return self._note(view), self._granted(answer)

    def _granted(self, answer: LeaseAnswer) -> Granted:
        plain = msgspec.structs.replace(answer, number=0)
        key = msgspec.msgpack.encode(plain)
        if key not in self._answers:
            statuses = {piece.status for lane in answer.lanes for want in lane for piece in want}
            sends = Status.GRANTED in statuses
            claimed = sends or bool(statuses & {Status.CANCELLED, Status.EXPIRED})
            self._answers[key] = Granted(key, answer, answer.ready, claimed, sends)
        return self._answers[key]

    def fold(self, state: int, body: bytes) -> int:
        def apply(view: MemoryView) -> None:
            cursor = view.cursors.get(0)
            assert MemoryFold(view).apply(0, cursor, "0", [body]).applied

        return self._do(("fold", state, body), state, apply)

    def control(self, state: int, record: ControlRecord) -> int:
        return self._do(("control", state, encode_control(record)), state, lambda view: view.apply(record))

    def mark(self, state: int, epoch: int) -> int:
        """The control topic has been read to its mark."""
        return self.control(state, EpochMark(1, str(epoch)))

    def end_claim(self, state: int, name: Name) -> int:
        """Time passes for one claim, and housekeeping sees it."""

        def end(view: MemoryView) -> None:
            member = claims.member(claim_of(name), TASK)
            view.due[member] = view.now_ms()
            assert MemoryLedger(view).due_claims() == {0: [member]}

        return self._do(("end", state, name), state, end)

    def gone(self, state: int, worker: int) -> int:
        """A worker's process is gone; the next one has a name of its own, so that its calls are nobody's repetition."""
        return self._do(("gone", state, worker), state, lambda view: view.calls.pop(f"{NAME}{worker}", None))

    def swap(self, state: int) -> int:
        """The same with the two workers' names exchanged."""
        return self._do(("swap", state), state, _swap)

    # ------------------------------------------------------------- states
    def _do(self, key: Any, state: int, change: Callable[[MemoryView], object]) -> int:
        known = self._moves.get(key)
        if known is None:
            view = self._copy(state)
            change(view)
            known = self._moves[key] = self._note(view)
        return int(known)

    def _copy(self, state: int) -> MemoryView:
        return _Reader(self._views[state], self._shared).view()

    def _note(self, view: MemoryView) -> int:
        view.stats.clear()
        view.demand.clear()
        view.debts.clear()
        if view.epoch.ready:
            view.epoch = Epoch(partitions=view.epoch.partitions)
        name = digest(view)
        state = self._known.get(name)
        if state is None:
            state = self._known[name] = len(self.states)
            self._views.append(_Writer(self._shared).written(view))
            self.states.append(describe(view, state))
        return state


def describe(view: MemoryView, state: int) -> ViewState:
    task = view.tasks.get(TASK)
    live = tuple(sorted(name_of(member) for member in view.claims))
    opened = [] if task is None else [envelope.claim for envelope in task.open.values() if envelope.claim]
    calls = [(int(worker.removeprefix(NAME)), answer.number) for worker, answer in view.calls.items()]
    return ViewState(
        state,
        view.grants,
        live,
        frozenset((*live, *map(name_of, opened), *calls)),
        dict(calls),
        task is not None and task.complete,
        view.grants and bool(MemoryLedger(view).closable()),
        task is not None and bool(task.ended),
        () if task is None else tuple(task.counts),
    )


def _swap(view: MemoryView) -> None:
    def other(claim: str) -> str:
        return f"{NAME}{1 - int(claim[len(NAME)])}{claim[len(NAME) + 1 :]}"

    view.claims = {other(name): claim for name, claim in sorted(view.claims.items(), key=lambda item: other(item[0]))}
    view.due = {other(name): due for name, due in view.due.items()}
    view.calls = {other(name): answer for name, answer in view.calls.items()}
    for task in view.tasks.values():
        for envelope in task.open.values():
            envelope.claim = other(envelope.claim) if envelope.claim else ""
