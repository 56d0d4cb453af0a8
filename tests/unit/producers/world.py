"""Pulsar and Redis of a submission as lists: what is stored in them, and the faults to be had of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from msgspec import Raw

from backends.task_rows import SubmissionRow
from dispatcher.clock import VirtualClock
from dispatcher.control import (
    ControlChange,
    ControlRecord,
    Finished,
    Restated,
    TaskRecord,
    decode_control,
    encode_control,
)
from dispatcher.envelope import Envelope, decode_envelope
from dispatcher.errors import Unreachable
from dispatcher.topics import Topics
from dispatcher.view import Admission
from producers.cutter import Slab
from producers.history import KnownSubmissions
from producers.ports import CheckpointPace, LaneWriter, Services

ALWAYS = CheckpointPace(first_s=0, shortest_s=0, longest_s=0, envelopes=0)
"""A checkpoint after every block."""


class Died(Exception):
    """The submitting process is gone."""


@dataclass
class Stored:
    position: str
    body: bytes


@dataclass
class World:
    """fault: called with the name of every step; it may raise. first: the envelopes the last lane was opened with."""

    log: list[bytes] = field(default_factory=list)
    lanes: dict[str, list[bytes]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    fault: Callable[[str], None] = lambda step: None
    first: Sequence[bytes] = ()
    redis_gone: bool = False
    in_flight: list[tuple[int, int, int]] = field(default_factory=list)
    """What the registry answers in turn: targets, claims, sent."""
    admission: Admission = field(default_factory=Admission)

    def step(self, name: str) -> None:
        self.fault(name)
        self.steps.append(name)

    def services(self, pace: CheckpointPace = ALWAYS) -> Services:
        numbers = count(1)
        return Services(
            control=Control(self),
            registry=KnownSubmissions(Registry(self), Never(), lambda: Reader(self)),
            lanes=Lanes(self),
            topics=Topics(),
            clock=VirtualClock(),
            new_id=lambda: f"made-{next(numbers)}",
            pace=pace,
        )

    @property
    def records(self) -> list[ControlRecord]:
        return [decode_control(body) for body in self.log]

    def envelopes(self, lane: str) -> list[Envelope]:
        return [decode_envelope(body) for body in self.lanes[lane]]

    def cancel(self, task: str) -> None:
        self.log.append(encode_control(ControlChange(1, task, "cancelled", "1", 0)))

    def restated(self) -> list[bytes]:
        """All that the control topic has, as it is restated."""
        return [encode_control(Restated(1, place(number), Raw(body))) for number, body in enumerate(self.log)]

    def finish(self, task: str, state: str = "completed") -> None:
        self.log.append(encode_control(Finished(1, task, state, [0] * 5, 0)))


def place(number: int) -> str:
    """Of a record in the control topic."""
    return f"{number:020d}"


class Control:
    def __init__(self, world: World) -> None:
        self._world = world

    def append(self, record: ControlRecord) -> str:
        self._world.step(f"append {type(record).__name__}")
        self._world.log.append(encode_control(record))
        return place(len(self._world.log) - 1)

    def append_many(self, records: Sequence[ControlRecord]) -> list[str]:
        return [self.append(record) for record in records]


class Registry:
    """Holds nothing, so that all that is known is read back from the control topic."""

    def __init__(self, world: World) -> None:
        self._world = world

    def apply(self, position: str, record: ControlRecord) -> list[str]:
        if self._world.redis_gone:
            raise Unreachable("Redis is away.")
        self._world.step(f"apply {type(record).__name__}")
        return []

    def admit(self, record: TaskRecord) -> Admission:
        if self._world.redis_gone:
            raise Unreachable("Redis is away.")
        return self._world.admission

    def apply_all(self, records: Sequence[tuple[str, ControlRecord]]) -> list[str]:
        return [task for position, record in records for task in self.apply(position, record)]

    def in_flight(self, tasks: Sequence[str]) -> dict[str, tuple[int, int, int]]:
        self._world.step("in flight")
        return {task: self._world.in_flight.pop(0) for task in tasks if self._world.in_flight}

    def submission(self, task: str) -> SubmissionRow | None:
        if self._world.redis_gone:
            raise Unreachable("Redis is away.")
        return None


class Never:
    def ready(self) -> bool:
        return False


class Reader:
    def __init__(self, world: World) -> None:
        self._left = [Stored(place(number), body) for number, body in enumerate(world.log)]

    def read(self, max_records: int, timeout_s: float) -> Sequence[Stored]:
        taken, self._left = self._left[:max_records], self._left[max_records:]
        return taken

    def at_end(self) -> bool:
        return not self._left

    def close(self) -> None:
        pass


class Lanes:
    def __init__(self, world: World) -> None:
        self._world = world

    def create(self, topic: str, partitions: int) -> None:
        self._world.step("create")
        self._world.lanes.setdefault(topic, [])

    def open(self, record: TaskRecord, first: Sequence[bytes] = ()) -> LaneWriter:
        self._world.step("open")
        self._world.first = first
        return Writer(self._world, self._world.lanes.setdefault(record.lane, []))


class Writer:
    """Stores at once."""

    def __init__(self, world: World, lane: list[bytes]) -> None:
        self._world = world
        self._lane = lane
        self._count = 0

    def send_many(self, bodies: Sequence[bytes]) -> None:
        self._world.step("send")
        self._lane.extend(bodies)
        self._count += len(bodies)

    def confirmed(self) -> int:
        return self._count

    def flush(self) -> None:
        self._world.step("flush")

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
