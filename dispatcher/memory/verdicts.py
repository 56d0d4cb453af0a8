"""What the ledger says of an envelope before quotas: final, claimed, recorded, cancelled, waiting, or grantable."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dispatcher.control import MAIN_WRITER
from dispatcher.lease import LaneAsk, LaneKind, Status, Want
from dispatcher.memory.pools import Pool
from dispatcher.memory.view import MemoryTask, MemoryView, OpenEnvelope
from dispatcher.tier import MILLI, Tier
from dispatcher.topics import side_of_lane

GRANTABLE = -1
"""Not on the wire: becomes GRANTED, NO_CREDIT or MOVE by quota."""
NO_CREDIT = Status.NO_CREDIT
OWN, RETRY, SHARED = LaneKind.OWN, LaneKind.RETRY, LaneKind.SHARED
"""Looked up once: an enumeration's member costs ten times a name's look-up, and these are asked of every lane."""


@dataclass(slots=True)
class Segment:
    """Consecutive envelopes of a want with the same verdict. granted: how many of them by quota so far; waits: what the
    others get. marked: as claimed, before it is known how many are granted."""

    status: int
    want: Want
    first: int
    count: int
    attempt: int = 0
    open_positions: Sequence[int] = ()
    lane: str = ""
    granted: int = 0
    waits: int = NO_CREDIT
    marked: bool = False

    def joins(self, other: "Segment") -> bool:
        return (
            self.status == other.status
            and self.status != Status.REPUBLISH
            and self.lane == other.lane
            and self.first + self.count == other.first
        )


@dataclass(slots=True)
class LaneCall:
    """One lane in one call. wants: for each want its segments. tier is empty where the lane has no part in the sharing
    (its task is unknown). parked: the lane's own task may not be sent now. app, channel: of all that is in the lane;
    empty where it is of many. part: its weight within its app. pools, bound: names of the pools that bind it, and the
    pools. queue: what is grantable and not granted yet. asked: targets wanted, announced or grantable. waiting: nobody
    is attached to the lane: its demand is known from the registry. idle: it had no demand; waited: it had, and nobody
    held it."""

    ask: LaneAsk
    name: str
    tier: str
    weight: int
    cap: int
    parked: bool
    cap_burst: int = 0
    app: str = ""
    channel: str = ""
    part: int = 0
    pools: tuple[str, ...] = ()
    bound: Sequence[Pool] = ()
    wants: list[list[Segment]] = field(default_factory=list)
    queue: list[Segment] = field(default_factory=list)
    asked: int = 0
    waiting: bool = False
    idle: bool = False
    waited: bool = False


def is_own(task: MemoryTask, lane: str) -> bool:
    """Whether the lane is the task's own."""
    return task.record is not None and task.record.lane == lane and not task.record.shared


def lane_call(view: MemoryView, ask: LaneAsk) -> LaneCall:
    """Tier, weight and caps of a lane at present."""
    name, kind = ask.lane, ask.kind
    if kind == RETRY:
        return LaneCall(ask, name, ask.tier, MILLI, 0, False)
    if kind == SHARED:
        return LaneCall(ask, name, Tier.LOW, view.lane_weight(name) or MILLI, 0, False)
    if kind != OWN:
        app, channel = side_of_lane(name) or ("", "")
        return LaneCall(ask, name, Tier.LOW, MILLI, 0, channel in view.paused_channels, app=app, channel=channel)
    task = view.tasks.get(name.rpartition("/")[2])
    if task is None or task.record is None:
        return LaneCall(ask, name, "", MILLI, 0, True)
    parked = bool(task.ended) or task.closed or gate(view, task, name)[0] != GRANTABLE
    record = task.record
    return LaneCall(
        ask, name, task.tier, max(task.weight, 1), task.cap, parked, task.cap_burst, record.app, record.channel
    )


def way_out(view: MemoryView, task: MemoryTask) -> str:
    """The lane to which a task's envelopes leave a shared or retry lane: its own, or a side lane."""
    record = task.record
    assert record is not None
    if not record.shared:
        return record.lane
    lane = view.topics.side_lane(record.app, record.channel)
    view.sides.add(lane)
    return lane


def gate(view: MemoryView, task: MemoryTask, lane: str) -> tuple[int, str]:
    """What a task's state says of its unclaimed envelopes in a lane: GRANTABLE, or the status (and lane to move to)."""
    record = task.record
    assert record is not None
    expired = record.expires_ms > 0 and record.expires_ms <= view.now_ms()
    stopped = record.channel in view.paused_channels
    scheduled = record.start_ms > 0 and record.start_ms > view.now_ms()
    waits = task.paused or scheduled or (record.hold_until_sealed and not task.sealed)
    if not (task.called_off or expired or waits or stopped):
        return GRANTABLE, ""
    if is_own(task, lane):
        return Status.PARKED, ""
    if not record.shared:
        return Status.MOVE, record.lane
    if task.called_off:
        return Status.CANCELLED, ""
    if expired:
        return Status.EXPIRED, ""
    return (Status.MOVE, way_out(view, task)) if stopped and not side_of_lane(lane) else (Status.PARKED, "")


def gate_of_first(view: MemoryView, task: MemoryTask, lane: str) -> tuple[int, str]:
    """The same for a first attempt: a task that was given a lane of its own leaves the lanes of others, whatever its
    state."""
    record = task.record
    assert record is not None
    if not record.shared and record.lane != lane:
        return Status.MOVE, record.lane
    return gate(view, task, lane)


def verdict(view: MemoryView, task: MemoryTask | None, lane: str, want: Want, sequence: int) -> Segment:
    """The word on one envelope, before quotas."""
    if task is None or task.record is None:
        return Segment(Status.UNKNOWN, want, sequence, 1)
    if task.ended or task.closed or sequence in task.finals_of(want.writer):
        return Segment(Status.DROP, want, sequence, 1)
    status = _writer(task, want.writer)
    if status is not None:
        return Segment(status, want, sequence, 1)
    envelope = task.open.get((want.writer, sequence))
    if envelope is not None and envelope.recorded >= want.attempt:
        return Segment(Status.REPUBLISH, want, sequence, 1, envelope.recorded, list(envelope.positions))
    if _claimed(task, envelope, want, sequence):
        return Segment(Status.HELD, want, sequence, 1)
    gated, target = (gate_of_first if want.attempt == 0 else gate)(view, task, lane)
    return Segment(gated, want, sequence, 1, lane=target)


def _writer(task: MemoryTask, writer: str) -> Status | None:
    if task.sealed and task.writers:
        return None if writer in task.writers else Status.DROP
    return None if writer == MAIN_WRITER else Status.HELD


def _claimed(task: MemoryTask, envelope: OpenEnvelope | None, want: Want, sequence: int) -> bool:
    """Claimed elsewhere, or of an attempt the fold has not come to yet."""
    if want.attempt == 0:
        return sequence in task.touched_of(want.writer)
    return envelope is None or envelope.recorded < want.attempt - 1 or envelope.claimed >= 0
