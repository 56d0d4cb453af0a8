"""Ledger and fold as a machine: states of the view, and what the scripts that ship make of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import msgpack

from backends.redis.keys import COUNT_FIELDS
from backends.redis.workers import Workers
from dispatcher.clock import VirtualClock
from dispatcher.model.view import WorkerBeat
from dispatcher.model.view_form import FORM
from dispatcher.wire.control import ControlRecord, encode_control
from dispatcher.wire.lease import LeaseAnswer, LeaseRequest, Status
from dispatcher.wire.topics import Topics
from simulator.redis.server import MemoryRedis
from simulator.redis.store import Hash, SortedSet, Store, Text
from simulator.world import World, view_in
from tests.exploration.envelopes import TASK
from tests.exploration.machine import WorkerState
from tests.exploration.worker import NAME
from tests.exploration.world import UNRECORDED

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
    worker, the number of the call whose answer it keeps. held: workers that have yet to record what they sent before
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
        answer = self._world.ledger.lease(asked)
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
            self._store.make(_key("claims"), SortedSet).put(member.encode(), self._clock.wall_ms())
            assert member in self._world.ledger.due_claims()[0]

        return self._do(("end", state, name), state, end)

    def report(self, state: int, worker: int) -> int:
        """A heartbeat reports outcomes that no topic has, known before this view granted anything."""
        extra = {"unrecorded": {"since_ms": STARTED_MS - 1, "targets": 1, "tasks": [TASK]}}
        beat = WorkerBeat(
            id=f"{NAME}{worker}",
            host="",
            pid=1,
            state="serving",
            started_ms=0,
            seen_ms=0,
            version="",
            lanes=0,
            in_flight=0,
            buffered=0,
            rate=0.0,
            tiers={},
            extra=extra,
        )

        def report() -> None:
            Workers(self._world.view).beat(beat)
            self._store.delete(_key("workers"))  # the world knows who lives

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
        return blake2b(repr(_ordered(self._store.contents())).encode(), digest_size=16).digest()

    def _described(self, state: int) -> ViewState:
        task = {name.decode(): value for name, value in (self._store.get(_key("task", TASK), Hash) or {}).items()}
        claims = self._store.get(_key("claims"), SortedSet)
        live = tuple(sorted(name_of(member.decode()) for member in claims.scores)) if claims else ()
        opened = [msgpack.decode(packed)[4] for packed in (self._store.get(OPEN, Hash) or {}).values()]
        answered = {worker: self._store.get(_call(worker), Hash) for worker in (0, 1)}
        calls = {worker: int(call[b"number"]) for worker, call in answered.items() if call}
        unrecorded: Mapping[bytes, bytes] = self._store.get(_key("unrecorded"), Hash) or {}
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
            held=tuple(worker for worker in (0, 1) if f"|{NAME}{worker}|".encode() in holds),
        )

    def _epoch(self) -> Hash:
        return self._store.make(_key("epoch"), Hash)

    def _swap(self) -> None:
        claims = self._store.get(_key("claims"), SortedSet)
        held = dict(claims.scores) if claims else {}
        packed = {member: self._store.get(_key("claim", member.decode()), Text) for member in held}
        for member in held:
            self._store.delete(_key("claim", member.decode()))
        self._store.delete(_key("claims"))
        for member, ends_ms in held.items():
            other = _other(member.decode())
            self._store.make(_key("claims"), SortedSet).put(other.encode(), ends_ms)
            self._store.put(_key("claim", other), packed[member] or Text())
        answered = [self._store.get(_call(worker), Hash) for worker in (1, 0)]
        for worker, call in enumerate(answered):
            self._store.delete(_call(worker))
            if call is not None:
                self._store.put(_call(worker), call)
        holds = self._store.get(_key("unrecorded"), Hash) or Hash()
        for field, value in holds.items():
            holds[field] = _listed([_other(worker) for worker in value.decode().split("|")[1:-1]])
        opened = self._store.get(OPEN, Hash) or Hash()
        for field, value in opened.items():
            *rest, claim = msgpack.decode(value)
            opened[field] = msgpack.encode([*rest, _other(claim) if claim else ""])


def plain(store: Store) -> None:
    """Forgets what tells states apart that go on alike: sums, demand, times, positions, feed and cursors."""
    for key in list(store.live_keys()):
        store.persist(key)
        if key.startswith(FORGOTTEN):
            store.delete(key)
        elif key.startswith(BITMAPS):
            bits = store.get(key, Text) or Text()
            store.put(key, Text(bits.rstrip(b"\0")))
            store.tidy(key, store.get(key, Text) or Text())
    claims = store.get(_key("claims"), SortedSet)
    for member in list(claims.scores) if claims else ():
        store.make(_key("claims"), SortedSet).put(member, LATER_MS)
    epoch = store.make(_key("epoch"), Hash)
    if epoch[b"ready"] == b"1":
        epoch.clear()
        epoch.update(READY)
    holds = store.get(_key("unrecorded"), Hash) or Hash()
    for field, workers in holds.items():
        holds[field] = _listed(workers.decode().split("|")[1:-1])
    control = store.get(_key("control"), Hash) or Hash()
    control.update(dict.fromkeys(control, BEFORE))
    task = store.get(_key("task", TASK), Hash) or Hash()
    for field in list(task):
        if field in FIGURES or (field in SUMS and task[field] == b"0"):
            del task[field]
        elif field.endswith(b"_pos"):
            task[field] = BEFORE


def _ordered(contents: Mapping[bytes, tuple[Any, Any]]) -> list[Any]:
    """In an order that says nothing of how it came about."""
    found = []
    for key, (value, _) in sorted(contents.items()):
        if isinstance(value, dict):
            value = sorted(value.items())
        found.append((key, sorted(value) if isinstance(value, frozenset) else value))
    return found


def _listed(workers: Iterable[str]) -> bytes:
    return f"|{'|'.join(sorted(workers))}|".encode()


def _key(*parts: str) -> bytes:
    return ":".join((PREFIX, *parts)).encode()


def _call(worker: int) -> bytes:
    return _key("call", f"{NAME}{worker}")


def _other(claim: str) -> str:
    return f"{NAME}{1 - int(claim[len(NAME)])}{claim[len(NAME) + 1 :]}"


def scripts_folder() -> Path | None:
    """The ledger's scripts; None: those that ship."""
    return None


PREFIX = "x"
LATER_MS = 1e13
"""When claims end that have not been made to end."""
BEFORE = b"0"
"""The position of all that has been read."""
OPEN = _key("open", TASK)
BITMAPS = (_key("touched:"), _key("final:"))
FORGOTTEN = tuple(
    map(_key, ("feed", "version", "stats", "demand", "pool:", "vt:", "parts", "fold:", "served", "worker"))
)
STARTED_MS = VirtualClock().wall_ms()
READY = {
    b"id": b"ready", b"ready": b"1", b"started_ms": b"%d" % STARTED_MS, b"grants_after_ms": b"0", b"partitions": b"1",
    b"form": b"%d" % FORM,
}  # fmt: skip
SUMS = {b"claims", b"finals", *(field.encode() for field in COUNT_FIELDS)}
FIGURES = {b"rate", b"rate_n", b"rate_ms", b"why", b"why_ms", b"why_from", b"pauses", b"first_outcome_ms"}
