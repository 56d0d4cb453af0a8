"""Ledger and fold as a machine: states of the view, and what the scripts that ship make of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import msgpack

from backends.redis.keys import COUNT_FIELDS
from backends.redis.workers import Workers
from dispatcher.wire.control import ControlRecord, encode_control
from dispatcher.wire.groups import mask_of
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest, Status, StatusRun
from dispatcher.wire.topics import Topics
from lab.simulator.redis.server import MemoryRedis
from lab.simulator.redis.store import Hash, SortedSet, Text
from lab.simulator.world import World, view_in
from tests.exploration.envelopes import TASK, due_at
from tests.exploration.machine import WorkerState
from tests.exploration.plain_view import CLAIM, OPEN, PREFIX, STARTED_MS, key_of, listed, ordered, other_claim, plain
from tests.exploration.worker import NAME
from tests.exploration.world import UNRECORDED
from tests.records import beat
from tests.virtual_clock import VirtualClock

T = TypeVar("T")
Name = tuple[int, int]
"""Worker and number of a claim."""


def claim_of(name: Name) -> str:
    return f"{NAME}{name[0]}.{name[1]}"


def member_of(name: Name) -> str:
    """Return the name of an ended claim in the outcome topic."""
    worker, number = name
    return f"{claim_of((worker, number if number != UNRECORDED else STARTED_MS))}|{TASK}"


def name_of(claim: str) -> Name:
    worker, _, rest = claim.removeprefix(NAME).partition(".")
    return int(worker), int(rest.partition("|")[0])


@dataclass(frozen=True, kw_only=True)
class ViewState:
    """State of the view that the world sees. claims: live ones; names: all it mentions. last: by
    worker, the number of the call whose answer it keeps. open: positions (bits) of the envelopes that are recorded, by
    name. held: workers that have yet to record what they sent before
    this view."""

    id: int
    ready: bool
    claims: tuple[Name, ...]
    names: frozenset[Name]
    last: dict[int, int]
    complete: bool
    closable: bool
    ended: bool
    counts: tuple[int, ...]
    open: Mapping[str, int]
    held: tuple[int, ...]


@dataclass(frozen=True)
class Granted:
    """An answer. claimed: it grants something, or has it recorded; sends: it grants something."""

    key: bytes
    answer: LeaseAnswer
    ready: bool
    claimed: bool
    sends: bool


class LedgerMachine:
    """A state forgets what should make no difference (`plain`). Each is kept a second time with nothing forgotten since
    the start; moves are made from there too, and `doubts` names those that did not lead to the same."""

    def __init__(self, topics: Topics, doubts: int) -> None:
        """doubts: one in this number of moves is made twice, and all that lead to a new state."""
        self.states: list[ViewState] = []
        self.doubts: list[str] = []
        self._every = doubts
        self._stores: list[object] = []
        self._whole: list[object] = []
        self._clock = VirtualClock()
        server = MemoryRedis(self._clock.wall_ms)
        self._store = server.store
        self._world = World(self._clock, topics, view_in(server, PREFIX), scripts_folder())
        self._known: dict[bytes, int] = {}
        self._moves: dict[Any, Any] = {}
        self._answers: dict[bytes, Granted] = {}

    # ------------------------------------------------------------- operations
    def empty(self, epoch: int) -> int:
        """A view just begun, in an empty Redis. Epoch 0 is ready at once."""
        known = self._moves.get(("empty", epoch))
        if known is None:
            self._store.clear()
            self._world.begin_view(str(epoch))
            self._epoch()[b"grants_after_ms"] = b"%d" % STARTED_MS  # the world knows what it waits for
            if not epoch:
                self._epoch()[b"ready"] = b"1"
            self._whole.append(self._store.snapshot())
            known = self._moves["empty", epoch] = self._note()
        return int(known)

    def lease(self, state: int, worker: int, asks: WorkerState, number: int, lost: bool) -> tuple[int, Granted]:
        """The answer to a worker's call, which from now on has this number."""
        request = asks.request
        assert request is not None
        key = ("lease", state, worker, asks.request_key, number, lost)
        return self._move(key, state, lambda: self._lease(worker, request, number, lost))

    def _lease(self, worker: int, request: LeaseRequest, number: int, lost: bool) -> Granted:
        name = f"{NAME}{worker}"
        given = [msgspec.structs.replace(one, claim=name + one.claim.removeprefix(NAME)) for one in request.given_back]
        asked = msgspec.structs.replace(request, worker=name, number=number, given_back=given)
        answer = _in_time_of(asked, self._world.ledger.lease(asked))
        if not lost:
            self._store.delete(_call(worker))
        return self._granted(answer)

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
        def apply() -> None:
            assert self._world.fold.apply(0, self._world.fold.cursor(0), self._position(), [body]).applied

        return self._do(("fold", state, body), state, apply)

    def control(self, state: int, record: ControlRecord) -> int:
        def apply() -> None:
            self._world.read_control(self._position(), record)

        return self._do(("control", state, encode_control(record)), state, apply)

    def mark(self, state: int, epoch: int) -> int:
        """The control topic has been read to its mark."""
        registry = self._world.registry

        def read() -> None:
            assert registry.control.move_cursor(registry.control.cursor(), self._position(), str(epoch), marked=True)

        return self._do(("mark", state, epoch), state, read)

    def end_claim(self, state: int, name: Name) -> int:
        """Time passes for one claim, and housekeeping sees it."""

        def end() -> None:
            member = f"{claim_of(name)}|{TASK}"
            self._store.make(key_of("claims"), SortedSet).put(member.encode(), self._clock.wall_ms())
            assert member in self._world.ledger.due_claims()[0]

        return self._do(("end", state, name), state, end)

    def report(self, state: int, worker: int) -> int:
        """A heartbeat reports outcomes that no topic has, known before this view granted anything."""
        extra = {"unrecorded": {"since_ms": STARTED_MS - 1, "targets": 1, "tasks": [TASK]}}

        def report() -> None:
            Workers(self._world.view).beat(beat(f"{NAME}{worker}", extra=extra))
            self._store.delete(key_of("workers"))  # the world knows who lives

        return self._do(("report", state, worker), state, report)

    def end_hold(self, state: int, worker: int) -> int:
        """Housekeeping sees that it no longer reports them."""

        def end() -> None:
            assert member_of((worker, UNRECORDED)) in self._world.ledger.due_claims()[0]

        return self._do(("end hold", state, worker), state, end)

    def gone(self, state: int, worker: int) -> int:
        """A worker's process is gone; the next one has a name of its own, so that its calls are nobody's repetition."""
        return self._do(("gone", state, worker), state, lambda: self._store.delete(_call(worker)))

    def swap(self, state: int) -> int:
        """The same with the two workers' names exchanged."""
        return self._do(("swap", state), state, self._swap)

    # ------------------------------------------------------------- states
    def _do(self, key: Any, state: int, change: Callable[[], object]) -> int:
        return self._move(key, state, change)[0]

    def _move(self, key: Any, state: int, change: Callable[[], T]) -> tuple[int, T]:
        """The state after a change of this one, and what the change returned."""
        if key not in self._moves:
            self._store.restore(self._stores[state])
            result = change()
            self._moves[key] = self._note(), result
            if len(self._whole) < len(self.states) or len(self._moves) % self._every == 0:
                self._make_again(key, state, change)
        known: tuple[int, T] = self._moves[key]
        return known

    def _make_again(self, key: Any, state: int, change: Callable[[], object]) -> None:
        """Make a move from where nothing was forgotten, too."""
        self._store.restore(self._whole[state])
        result = change()
        if len(self._whole) < len(self.states):
            self._whole.append(self._store.snapshot())
        if (self._known.get(self._digest()), result) != self._moves[key]:
            self.doubts.append(repr(key))

    def _position(self) -> str:
        """A place in a topic after all before it."""
        return f"{len(self._moves):09}"

    def _note(self) -> int:
        """The number of what the store holds now."""
        name = self._digest()
        state = self._known.get(name)
        if state is None:
            state = self._known[name] = len(self.states)
            self._stores.append(self._store.snapshot())
            self.states.append(self._described(state))
        return state

    def _digest(self) -> bytes:
        """The name of what the store holds now, less what it is made to forget."""
        plain(self._store)
        return blake2b(repr(ordered(self._store.contents())).encode(), digest_size=16).digest()

    def _described(self, state: int) -> ViewState:
        task = {name.decode(): value for name, value in (self._store.get(key_of("task", TASK), Hash) or {}).items()}
        claims = self._store.get(key_of("claims"), SortedSet)
        live = tuple(sorted(name_of(member.decode()) for member in claims.scores)) if claims else ()
        states = {name: msgpack.decode(packed) for name, packed in (self._store.get(OPEN, Hash) or {}).items()}
        opened = [fields[CLAIM] for fields in states.values()]
        answered = {worker: self._store.get(_call(worker), Hash) for worker in (0, 1)}
        calls = {worker: int(call[b"number"]) for worker, call in answered.items() if call}
        unrecorded: Mapping[bytes, bytes] = self._store.get(key_of("unrecorded"), Hash) or {}
        holds = unrecorded.get(TASK.encode(), b"")
        counts = tuple(int(task.get(field, 0)) for field in COUNT_FIELDS) if task else ()
        ready, ended = self._epoch()[b"ready"] == b"1", bool(task.get("ended"))
        sealed = "lane" in task and task.get("sealed") == b"1"
        return ViewState(
            id=state,
            ready=ready,
            claims=live,
            names=frozenset((*live, *(name_of(claim) for claim in opened if claim), *calls.items())),
            last=calls,
            complete=sealed and not ended and sum(counts) >= int(task["total"]),
            closable=ready and bool(self._world.ledger.closable()),
            ended=ended,
            counts=counts,
            open={name.decode(): mask_of(fields[2]) for name, fields in states.items()},
            held=tuple(worker for worker in (0, 1) if f"|{NAME}{worker}|".encode() in holds),
        )

    def _epoch(self) -> Hash:
        return self._store.make(key_of("epoch"), Hash)

    def _swap(self) -> None:
        claims = self._store.get(key_of("claims"), SortedSet)
        held = dict(claims.scores) if claims else {}
        packed = {member: self._store.get(key_of("claim", member.decode()), Text) for member in held}
        for member in held:
            self._store.delete(key_of("claim", member.decode()))
        self._store.delete(key_of("claims"))
        for member, ends_ms in held.items():
            other = other_claim(member.decode())
            self._store.make(key_of("claims"), SortedSet).put(other.encode(), ends_ms)
            self._store.put(key_of("claim", other), packed[member] or Text())
        answered = [self._store.get(_call(worker), Hash) for worker in (1, 0)]
        for worker, call in enumerate(answered):
            self._store.delete(_call(worker))
            if call is not None:
                self._store.put(_call(worker), call)
        holds = self._store.get(key_of("unrecorded"), Hash) or Hash()
        for field, value in holds.items():
            holds[field] = listed([other_claim(worker) for worker in value.decode().split("|")[1:-1]])
        opened = self._store.get(OPEN, Hash) or Hash()
        for field, value in opened.items():
            state = msgpack.decode(value)
            state[CLAIM] = other_claim(state[CLAIM]) if state[CLAIM] else ""
            opened[field] = msgpack.encode(state)


def _in_time_of(request: LeaseRequest, answer: LeaseAnswer) -> LeaseAnswer:
    """Return the answer with the due times as the worker sees them: what was not due when it asked is not due yet."""
    lanes = [
        [
            [_piece_in_time_of(want.due_ms, piece) if piece.status == Status.GRANTED else piece for piece in pieces]
            for want, pieces in zip(ask.wants, wanted, strict=True)
        ]
        for ask, wanted in zip(request.lanes, answer.lanes, strict=True)
    ]
    return msgspec.structs.replace(answer, lanes=lanes)


def _piece_in_time_of(turn: int, piece: StatusRun) -> StatusRun:
    groups = [msgspec.structs.replace(group, due_ms=due_at(group.due_ms, turn)) for group in piece.groups]
    return msgspec.structs.replace(piece, groups=groups)


def _call(worker: int) -> bytes:
    return key_of("call", f"{NAME}{worker}")


def scripts_folder() -> Path | None:
    """The ledger's scripts; None: those that ship."""
    return None
