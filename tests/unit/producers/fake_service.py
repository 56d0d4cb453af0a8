"""Pulsar and Redis of a submission as lists: what is stored in them, and the faults to be had of them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from msgspec import Raw, structs

from backends.redis.epochs import Epochs
from backends.redis.registry import registry as real
from backends.redis.registry.control_view import ControlView
from backends.redis.registry.submissions import SubmissionTable
from backends.redis.registry.tasks import TaskTable
from dispatcher.clock import VirtualClock
from dispatcher.model.errors import Unreachable
from dispatcher.model.view import Admission, HoldAction, InFlight, SubmitLease
from dispatcher.ports import StoredRecord
from dispatcher.wire.control import (
    ControlChange,
    ControlRecord,
    Restated,
    Sealed,
    TaskRecord,
    decode_control,
    encode_control,
)
from dispatcher.wire.envelope import Envelope, decode_envelope
from dispatcher.wire.submission import Submission, submitter_at, with_record
from dispatcher.wire.topics import Topics
from producers.ports import CheckpointPace, LaneWriter, LeasePace, Services, WindowPace
from producers.submit.cutter import Block, Cutter, Slab
from producers.submit.history import KnownSubmissions
from producers.submit.intake import Intake
from producers.submit.validation import Refusal
from tests.contract.registry_records import position
from tests.records import finished
from tests.unit.consumers.fakes import Topic

ALWAYS = CheckpointPace(first_s=0, shortest_s=0, longest_s=0, envelopes=0)
"""A checkpoint after every block."""


class Died(Exception):
    """The submitting process is gone."""


LEASE_MS = 5_000
Step = Callable[[str], None]


@dataclass
class View:
    """Redis, as far as submissions go: what was applied, up to where the control topic is folded, and leases."""

    rows: dict[str, Submission] = field(default_factory=dict)
    folded: int = 0
    leases: dict[str, tuple[str, SubmitLease]] = field(default_factory=dict)
    sealed_at: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class FakeService:
    """fault: called with the name of every step; it may raise. first: the envelopes the last lane was opened with.
    ready: whether the view is complete; else all that is known is read back from the control topic."""

    log: list[bytes] = field(default_factory=list)
    lanes: dict[str, list[bytes]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    fault: Step = lambda step: None
    first: Sequence[bytes] = ()
    redis_gone: bool = False
    in_flight: list[InFlight] = field(default_factory=list)
    """Answers of the registry, in turn."""
    admission: Admission = field(default_factory=Admission)
    ready: bool = False
    view: View = field(default_factory=View)
    clock: VirtualClock = field(default_factory=VirtualClock)
    applying: threading.Lock = field(default_factory=threading.Lock)
    """A script of Redis runs alone."""

    def step(self, name: str) -> None:
        self.fault(name)
        self.steps.append(name)

    def services(
        self, pace: CheckpointPace = ALWAYS, windows: WindowPace = WindowPace(), step: Step | None = None
    ) -> Services:
        """step: of this submitter, instead of the world's."""
        numbers = count(1)
        step = step or self.step
        registry = Registry(self, step)
        return Services(
            control=Control(self, step),
            registry=registry,
            known=KnownSubmissions(registry, Readiness(self), lambda after: self.topic().open(after)),
            lanes=Lanes(self, step),
            topics=Topics(),
            clock=self.clock,
            new_id=lambda: f"made-{next(numbers)}",
            pace=pace,
            windows=windows,
            leases=LeasePace(renew_s=3_600, poll_s=0, redis_s=0),
        )

    def topic(self) -> Topic:
        """Return the control topic as it is now."""
        return Topic([StoredRecord(position(number), body) for number, body in enumerate(self.log)])

    def fold(self, upto: int | None = None) -> None:
        """Applies the control topic to the view, up to a number of records."""
        end = len(self.log) if upto is None else upto
        for number in range(self.view.folded, end):
            record = decode_control(self.log[number])
            self.apply(position(number), record)
        self.view.folded = max(self.view.folded, end)

    def apply(self, position: str, record: ControlRecord) -> None:
        """As the scripts do."""
        with self.applying:
            self._apply(position, record)

    def _apply(self, position: str, record: ControlRecord) -> None:
        task = getattr(record, "task", "")
        row = self.view.rows.get(task)
        if isinstance(record, Sealed) and row is not None and record.submitter:
            holder = self.view.leases.get(task, ("", None))[0]
            current = submitter_at(row.record, row.entries, position)
            if record.submitter not in (holder, current):
                return
            record = structs.replace(record, submitter="")
        known = with_record(row, position, record)
        if known is not None:
            self.view.rows[task] = known
        if isinstance(record, Sealed):
            self.view.leases.pop(task, None)
            self.view.sealed_at.setdefault(task, position)

    def empty_redis(self) -> None:
        self.view, self.ready = View(), False

    def fail_at(self, at: str, error: BaseException | None = None, *, lose_redis: bool = False) -> None:
        """At every step of this name the error is raised, or Redis goes away for good."""

        def fault(step: str) -> None:
            if step == at:
                self.redis_gone = self.redis_gone or lose_redis
                if error is not None:
                    raise error

        self.fault = fault

    def recover(self) -> None:
        self.redis_gone, self.fault = False, lambda step: None

    @property
    def records(self) -> list[ControlRecord]:
        return [decode_control(body) for body in self.log]

    def envelopes(self, lane: str) -> list[Envelope]:
        return [decode_envelope(body) for body in self.lanes[lane]]

    def cancel(self, task: str) -> None:
        self.log.append(encode_control(ControlChange(1, task, "cancelled", "1", 0)))

    def restated(self) -> list[bytes]:
        """All that the control topic has, as it is restated."""
        return [encode_control(Restated(1, position(number), Raw(body))) for number, body in enumerate(self.log)]

    def finish(self, task: str, state: str = "completed") -> None:
        self.log.append(encode_control(finished(task, state=state, at_ms=0)))


@dataclass
class Control:
    _world: FakeService
    _step: Step

    def append(self, record: ControlRecord) -> str:
        self._step(f"append {type(record).__name__}")
        self._world.log.append(encode_control(record))
        return position(len(self._world.log) - 1)

    def append_many(self, records: Sequence[ControlRecord]) -> list[str]:
        return [self.append(record) for record in records]


class Registry(real.Registry):
    """Knows what was applied, if the view is ready; unless it is, all is read back from the control topic."""

    def __init__(self, world: FakeService, step: Step) -> None:
        self.control = Applied(world, step)
        self.submissions = Leases(world, step)
        self.tasks = Tasks(world, step)


@dataclass
class Part:
    """A part of the registry."""

    _world: FakeService
    _step: Step

    def _meet(self) -> None:
        if self._world.redis_gone:
            raise Unreachable("Redis is away.")


class Applied(Part, ControlView):
    def apply(self, position: str, record: ControlRecord) -> None:
        self._meet()
        self._step(f"apply {type(record).__name__}")
        self._world.apply(position, record)

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        for at, record in records:
            self.apply(at, record)

    def cursor(self) -> str | None:
        return position(self._world.view.folded - 1) if self._world.view.folded else None


class Tasks(Part, TaskTable):
    def in_flight(self, tasks: Sequence[str]) -> dict[str, InFlight]:
        self._step("in flight")
        return {task: self._world.in_flight.pop(0) for task in tasks if self._world.in_flight}


class Leases(Part, SubmissionTable):
    def admit(self, record: TaskRecord, who: str = "") -> Admission:
        self._meet()
        if self._world.admission.reached:
            return self._world.admission
        known = "known" if self._world.ready and record.task in self._world.view.rows else ""
        return Admission(known, lease=self.hold_submission("take", record.task, record.submitter, who))

    def hold_submission(self, action: HoldAction, task: str, submitter: str, who: str = "") -> SubmitLease:
        self._meet()
        return self._take(task, submitter, who) if action == "take" else self._kept(action, task, submitter)

    def _take(self, task: str, by: str, who: str) -> SubmitLease:
        """A lease that another holds is asked for again and again: that is no step."""
        leases = self._world.view.leases
        holder, lease = leases.get(task, ("", SubmitLease()))
        if holder not in ("", by) and lease.until_ms > self._world.clock.wall_ms():
            self._world.clock.advance(0.1)
            return structs.replace(lease, state="held")
        self._step("take")
        holder, lease = leases.get(task, ("", SubmitLease()))
        now_ms = self._world.clock.wall_ms()
        if holder not in ("", by) and lease.until_ms > now_ms:
            return structs.replace(lease, state="held")
        state = "fresh" if self._world.ready and not holder else "again"
        taken = SubmitLease(state, who, max(now_ms, lease.since_ms + 1), now_ms + LEASE_MS)
        leases[task] = by, taken
        return taken

    def _kept(self, what: HoldAction, task: str, by: str) -> SubmitLease:
        self._step(what)
        leases = self._world.view.leases
        if task not in leases:
            return SubmitLease("gone")
        holder, lease = leases[task]
        if holder != by:
            return structs.replace(lease, state="held")
        until_ms = 0 if what == "release" else self._world.clock.wall_ms() + LEASE_MS
        leases[task] = by, structs.replace(lease, until_ms=until_ms)
        return structs.replace(lease, state="ours")

    def start_submission(self, position: str, record: TaskRecord, by: str) -> tuple[SubmitLease, Submission | None]:
        lease = self.hold_submission("renew", record.task, by)
        Applied(self._world, self._step).apply(position, record)
        return lease, self.submission(record.task)

    def seal_submission(self, position: str, seal: Sealed) -> bool:
        self._meet()
        self._step("apply Sealed")
        sealed_at = self._world.view.sealed_at.get(seal.task)
        if sealed_at is not None:
            return sealed_at == position
        if self._world.view.leases.get(seal.task, ("", None))[0] != seal.submitter:
            return False
        self._world.apply(position, seal)
        return True

    def submission(self, task: str) -> Submission | None:
        self._meet()
        return self._world.view.rows.get(task) if self._world.ready else None


class Readiness(Epochs):
    def __init__(self, world: FakeService) -> None:
        self._world = world

    def ready(self) -> bool:
        return self._world.ready


@dataclass
class Lanes:
    _world: FakeService
    _step: Step

    def create(self, topic: str, partitions: int) -> None:
        self._step("create")
        self._world.lanes.setdefault(topic, [])

    def open(self, record: TaskRecord, first: Sequence[bytes] = ()) -> LaneWriter:
        self._step("open")
        self._world.first = first
        return Writer(self._step, self._world.lanes.setdefault(record.lane, []))


class Writer:
    """Stores at once."""

    def __init__(self, step: Step, lane: list[bytes]) -> None:
        self._step = step
        self._lane = lane
        self._count = 0

    def send_many(self, bodies: Sequence[bytes]) -> None:
        self._step("send")
        self._lane.extend(bodies)
        self._count += len(bodies)

    def confirmed(self) -> int:
        return self._count

    def flush(self) -> None:
        self._step("flush")

    def close(self) -> None:
        pass


class Slabbed:
    """An audience that comes in slabs of given sizes."""

    def __init__(self, items: Sequence[object], sizes: list[int]) -> None:
        self._items, self._sizes = list(items), sizes

    def slabs(self, unit: int) -> Iterator[Slab]:
        start = 0
        for size in [*self._sizes, len(self._items)]:
            if start < len(self._items):
                yield Slab(self._items[start : start + size], start + 1)
            start += size


def cut(audience: object, cutter: Cutter, on_refusals: Callable[[list[Refusal]], None]) -> Iterator[Block]:
    """Blocks of an audience."""
    intake = Intake(audience, on_refusals, lambda: 0.0)  # type: ignore[arg-type]
    for accepted in intake.accepted(cutter.chunk):
        yield from cutter.add(accepted)
    yield from cutter.rest()
