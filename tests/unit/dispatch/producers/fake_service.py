"""Pulsar and Redis of a submission as lists: what is stored in them, and the faults to be had of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from itertools import count
from typing import TypeVar

from msgspec import Raw

from backends.redis.epochs import Epochs
from backends.redis.registry.registry import ControlView, Registry, SubmissionTable
from backends.redis.registry.tasks import TaskTable
from dispatcher.model.view import Admission, HoldAction, InFlight, SubmitLease
from dispatcher.ports import StoredRecord
from dispatcher.wire.control import ControlRecord, Restated, Sealed, TaskRecord, decode_control, encode_control
from dispatcher.wire.envelope import Envelope, decode_envelope
from dispatcher.wire.submission import Submission
from dispatcher.wire.topics import Topics
from producers.ports import CheckpointPace, LaneWriter, LeasePace, Services, WindowPace
from producers.submit.cutter import Block, Cutter, Slab
from producers.submit.history import KnownSubmissions
from producers.submit.intake import Intake
from producers.submit.validation import Refusal
from tests.contract.registry_records import change, position
from tests.records import finished
from tests.unit.dispatch.consumers.fakes import Topic
from tests.unit.views import LostRedis, view_of
from tests.virtual_clock import VirtualClock

T = TypeVar("T")
LANE = Topics().own_lane("t")


class Died(Exception):
    """The submitting process is gone."""


Step = Callable[[str], None]


@dataclass(kw_only=True)
class FakeService:
    """fault: called with the name of every step; it may raise.
    ready: whether the view is complete; else all that is known is read back from the control topic."""

    log: list[bytes] = field(default_factory=list)
    lanes: dict[str, list[bytes]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    fault: Step = lambda step: None
    in_flight: list[InFlight] = field(default_factory=list)
    """Answers of the registry, in turn."""
    admission: Admission = field(default_factory=Admission)
    ready: InitVar[bool] = False
    clock: VirtualClock = field(default_factory=VirtualClock)

    def __post_init__(self, ready: bool) -> None:
        self.redis = LostRedis(self.clock.wall_ms)
        self.view = view_of(self.redis)
        self.registry, self.epochs = Registry(self.view), Epochs(self.view)
        if ready:
            self.complete_view(first=True)

    def step(self, name: str) -> None:
        self.fault(name)
        self.steps.append(name)

    def services(self, windows: WindowPace = WindowPace(), step: Step | None = None) -> Services:
        """step: of this submitter, instead of the world's."""
        numbers = count(1)
        step = step or self.step
        registry = Steps(self, step)
        return Services(
            control=Control(self, step),
            registry=registry,
            known=KnownSubmissions(registry, self.epochs, lambda after: self.topic().open(after)),
            lanes=Lanes(self, step),
            topics=Topics(),
            clock=self.clock,
            new_id=lambda: f"made-{next(numbers)}",
            pace=CheckpointPace(first_s=0, shortest_s=0, longest_s=0, envelopes=0),  # a checkpoint after every block
            windows=windows,
            leases=LeasePace(renew_s=3_600, poll_s=0, redis_s=0),
        )

    def topic(self) -> Topic:
        """Return the control topic as it is now."""
        return Topic([StoredRecord(position(number), body) for number, body in enumerate(self.log)])

    def fold(self) -> None:
        """Apply the control topic to the view."""
        records = [(position(number), record) for number, record in enumerate(self.records)]
        self.registry.control.apply_all(records)
        if records:
            self.view.command("HSET", self.view.keys.control, "cursor", records[-1][0])

    def complete_view(self, *, first: bool = False) -> None:
        """Mark the view as complete. first: no view was lost before it."""
        now_ms = self.clock.wall_ms()
        fields = ("id", "e", "ready", 1, "first", int(first), "grants_after_ms", now_ms, "started_ms", now_ms)
        self.view.command("HSET", self.view.keys.epoch, *fields, "announced", 1, "marked", 1, "partitions", 4)

    def fail_at(self, at: str, error: BaseException | None = None, *, lose_redis: bool = False) -> None:
        """At every step of this name the error is raised, or Redis goes away for good."""

        def fault(step: str) -> None:
            if step == at:
                self.redis.gone = self.redis.gone or lose_redis
                if error is not None:
                    raise error

        self.fault = fault

    def die_after(self, steps: int) -> None:
        """The process dies after this number of steps."""
        left = iter(range(steps))

        def fault(_: str) -> None:
            if next(left, None) is None:
                raise Died

        self.fault = fault

    def recover(self) -> None:
        self.redis.gone, self.fault = False, lambda step: None

    @property
    def records(self) -> list[ControlRecord]:
        return [decode_control(body) for body in self.log]

    def records_of(self, kind: type[T]) -> list[T]:
        return [record for record in self.records if isinstance(record, kind)]

    def envelopes(self, lane: str) -> list[Envelope]:
        return [decode_envelope(body) for body in self.lanes[lane]]

    def cancel(self, task: str) -> None:
        self.log.append(encode_control(change(task, "cancelled", "1")))

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


class Steps(Registry):
    """The registry, of which every call is a step."""

    def __init__(self, world: FakeService, step: Step) -> None:
        self.control = Applied(world, step)
        self.submissions = Leases(world, step)
        self.tasks = Tasks(world, step)


class Applied(ControlView):
    def __init__(self, world: FakeService, step: Step) -> None:
        super().__init__(world.view)
        self._step = step

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> None:
        for one in records:
            self._step(f"apply {type(one[1]).__name__}")
            super().apply_all([one])


class Tasks(TaskTable):
    def __init__(self, world: FakeService, step: Step) -> None:
        super().__init__(world.view)
        self._world, self._step = world, step

    def in_flight(self, tasks: Sequence[str]) -> dict[str, InFlight]:
        self._step("in flight")
        return {task: self._world.in_flight.pop(0) for task in tasks if self._world.in_flight}


class Leases(SubmissionTable):
    def __init__(self, world: FakeService, step: Step) -> None:
        super().__init__(world.view)
        self._world, self._step = world, step

    def admit(self, record: TaskRecord, who: str = "") -> Admission:
        if self._world.admission.reached:
            return self._world.admission
        self._wait("take", record.task, record.submitter)
        return super().admit(record, who)

    def hold_submission(self, action: HoldAction, task: str, submitter: str, who: str = "") -> SubmitLease:
        self._wait(action, task, submitter)
        return super().hold_submission(action, task, submitter, who)

    def _wait(self, action: HoldAction, task: str, submitter: str) -> None:
        """A lease that another holds is asked for again and again: that takes time and is no step."""
        view, clock, until_ms = self._world.view, self._world.clock, 0
        if action == "take":
            holder, held_ms = view.command("HMGET", view.keys.submitting(task), "id", "until_ms")
            until_ms = int(held_ms) if holder not in (None, submitter.encode()) else 0
        if until_ms > clock.wall_ms():
            clock.advance(0.1)
        if until_ms <= clock.wall_ms():
            self._step(action)

    def start_submission(self, position: str, record: TaskRecord, by: str) -> tuple[SubmitLease, Submission | None]:
        """Others may come between the steps."""
        lease = self.hold_submission("renew", record.task, by)
        Applied(self._world, self._step).apply(position, record)
        return lease, self.submission(record.task)

    def seal_submission(self, position: str, seal: Sealed) -> bool:
        self._step("apply Sealed")
        return super().seal_submission(position, seal)

    def submission(self, task: str) -> Submission | None:
        found = super().submission(task)
        return found if self._world.epochs.ready() else None


@dataclass
class Lanes:
    _world: FakeService
    _step: Step

    def create(self, topic: str, partitions: int) -> None:
        self._step("create")
        self._world.lanes.setdefault(topic, [])

    def open(self, record: TaskRecord) -> LaneWriter:
        self._step("open")
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


def slabs(items: Sequence[object], size: int) -> Slabbed:
    """An audience in small slabs, so that a short one has many blocks."""
    return Slabbed(items, [size] * (len(items) // size))


Make = Callable[[Sequence[object]], object]
MAKES: dict[str, Make] = {"list": list, "stream": iter, "file": lambda items: slabs(items, 3)}
"""The forms of an audience."""


def breaking(items: Iterable[T], error: BaseException) -> Iterator[T]:
    """A stream that ends with an error."""
    yield from items
    raise error


def cut(audience: object, cutter: Cutter, on_refusals: Callable[[list[Refusal]], None]) -> Iterator[Block]:
    """Blocks of an audience."""
    intake = Intake(audience, on_refusals, lambda: 0.0)  # type: ignore[arg-type]
    for accepted in intake.accepted(cutter.chunk):
        yield from cutter.add(accepted)
    yield from cutter.rest()
