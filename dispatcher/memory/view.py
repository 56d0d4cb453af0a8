"""The view of the truth that Redis holds, in memory: tasks, controls, claims, bits and demand."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from dispatcher.clock import Clock
from dispatcher.control import (
    MAIN_WRITER,
    Announced,
    Checkpoint,
    ControlChange,
    ControlRecord,
    EpochStarted,
    Finished,
    GlobalChange,
    Restated,
    Sealed,
    TakenOver,
    TaskRecord,
)
from dispatcher.lease import LeaseAnswer
from dispatcher.memory.pools import TOTAL, Bucket, Pool, depth_of
from dispatcher.outcome import EpochMark, Outcome
from dispatcher.tier import DEFAULT_TIER_WEIGHTS, TIERS
from dispatcher.topics import Topics

OUTCOMES = len(Outcome)


@dataclass(slots=True)
class OpenEnvelope:
    """An envelope that is recorded and has open targets. positions: those still open. claim: who holds the attempt
    `claimed` (-1: nobody)."""

    recorded: int
    size: int
    positions: list[int]
    claimed: int = -1
    claim: str = ""


@dataclass(slots=True)
class MemoryTask:
    """What the view knows of a task. record is None as long as only its outcomes or controls have been read. counts: by
    Outcome value. closed: a CloseTask record gave all open targets their outcome. guessed: no seal was read before
    that, so the total is what was known to be published."""

    id: str
    record: TaskRecord | None = None
    moved_lane: str = ""
    """A lane of its own that it was given after it was accepted into a shared one."""
    override: str = ""
    tier: str = ""
    weight: int = 0
    cap: int = 0
    cap_burst: int = 0
    cap_known: bool = False
    paused: bool = False
    cancelled: bool = False
    stopped: str = ""
    """Reason for which it was stopped for good."""
    sealed: bool = False
    guessed: bool = False
    total: int = 0
    published: int = 0
    writers: tuple[str, ...] = ()
    closed: bool = False
    ended: str = ""
    counts: list[int] = field(default_factory=lambda: [0] * OUTCOMES)
    claims: int = 0
    first_outcome_ms: int = 0
    bucket: Bucket | None = None
    open: dict[tuple[str, int], OpenEnvelope] = field(default_factory=dict)
    final: dict[str, set[int]] = field(default_factory=dict)
    touched: dict[str, set[int]] = field(default_factory=dict)

    @property
    def finals(self) -> int:
        """Targets that have an outcome."""
        return sum(self.counts)

    @property
    def called_off(self) -> bool:
        """Return whether it was cancelled or stopped, so that nothing more is sent."""
        return self.cancelled or self.stopped != ""

    @property
    def complete(self) -> bool:
        """Every target has an outcome, and the end is not yet written. (More have than there are where it was closed
        unsealed, and the seal came after all and leaves writers out.)"""
        return self.record is not None and self.sealed and not self.ended and self.finals >= self.total

    def cap_bucket(self, now_us: int) -> Bucket | None:
        """The bucket of the task's cap at present; None without one."""
        if self.cap <= 0:
            return None
        if self.bucket is None:
            self.bucket = Bucket(depth_of(self.cap, self.cap_burst), now_us, self.cap)
        self.bucket.refill(now_us, self.cap, self.cap_burst)
        return self.bucket

    def leave_shared_lane(self) -> None:
        """Once both are known: the record, and the lane of its own."""
        if self.record is not None and self.moved_lane:
            self.record = msgspec.structs.replace(self.record, lane=self.moved_lane, shared=False)

    def finals_of(self, writer: str) -> set[int]:
        found = self.final.get(writer)
        if found is None:
            found = self.final[writer] = set()
        return found

    def touched_of(self, writer: str) -> set[int]:
        found = self.touched.get(writer)
        if found is None:
            found = self.touched[writer] = set()
        return found


@dataclass(slots=True)
class ClaimRun:
    """Consecutive sequences under a claim, of `size` targets each. paid: the tier whose credit paid for it; empty: it
    was claimed without a lease."""

    writer: str
    attempt: int
    first: int
    count: int
    size: int
    paid: str


@dataclass(slots=True)
class Claim:
    """What one lease call holds of one task. lease_end_ms: until then what is given back is refunded."""

    end_ms: int
    lease_end_ms: int
    runs: list[ClaimRun]


@dataclass(slots=True)
class Demand:
    """Announced demand of a lane: the largest announced of late, until `targets_until_ms`. held_until_ms: until then a
    worker holds the lane, as far as is known. app: whose part of the tier it has, where apps share; part: by what
    weight within it. waiting: it was last announced with nobody attached to it."""

    tier: str
    weight: int
    targets: int
    targets_until_ms: int
    until_ms: int
    held_until_ms: int
    pools: tuple[str, ...]
    app: str
    part: int
    waiting: bool


@dataclass(slots=True)
class Epoch:
    """grants_after_ms: no grants before (claims of before the epoch end by then). claim_ms: the longest claim made."""

    id: str = "memory"
    ready: bool = True
    grants_after_ms: int = 0
    partitions: int = 4
    read: set[str] = field(default_factory=set)
    claim_ms: int = 0


def read_cap(text: str) -> tuple[int, int]:
    """`RATE` or `RATE:BURST`: targets/s (0: none), and targets (0: a quarter of a second)."""
    rate, _, burst = text.partition(":")
    return int(rate), int(burst or 0)


class MemoryView:
    """Everything the ledger and the fold share. Fill it with `apply` (records of the control topic) or by the methods
    below; by default its epoch is ready and the capacity unlimited."""

    def __init__(self, clock: Clock, topics: Topics | None = None) -> None:
        self.clock = clock
        self.topics = topics or Topics()
        self.epoch = Epoch(partitions=self.topics.outcome_partitions)
        self.capacity = 0
        self.capacity_burst = 0
        self.caps: dict[str, tuple[int, int]] = {}
        self.paused_channels: set[str] = set()
        self.sharing = "tasks"
        self.app_weights: dict[str, int] = {}
        self.limits: dict[str, int] = {}
        self.sides: set[str] = set()
        self.tier_weights: dict[str, int] = {tier: DEFAULT_TIER_WEIGHTS[tier] for tier in TIERS}
        self.tasks: dict[str, MemoryTask] = {}
        self.claims: dict[str, Claim] = {}
        self.due: dict[str, int] = {}
        self.beats: dict[str, int] = {}
        """When each worker was last heard of, where anybody says so."""
        self.pools: dict[str, Pool] = {}
        self.demand: dict[str, Demand] = {}
        self.debts: dict[str, tuple[int, tuple[str, ...]]] = {}
        self.app_parts: Counter[tuple[str, str]] = Counter()
        self.calls: dict[str, LeaseAnswer] = {}
        self.cursors: dict[int, str] = {}
        self.stats: Counter[str] = Counter()
        self.causes: dict[str, Counter[str]] = {}
        """Of each task the ms that its time went to, by cause."""
        self.counted_until_ms: dict[str, int] = {}

    def now_ms(self) -> int:
        return self.clock.wall_ms()

    @property
    def grants(self) -> bool:
        """Whether the view is complete and claims of before it have ended."""
        return self.epoch.ready and self.now_ms() >= self.epoch.grants_after_ms

    def task(self, task: str) -> MemoryTask:
        """The task's state, made if need be (outcomes may be read before the task's record)."""
        found = self.tasks.get(task)
        if found is None:
            found = self.tasks[task] = MemoryTask(task)
        return found

    def add_task(self, record: TaskRecord) -> None:
        """Registers an accepted task; a second record under the same id changes nothing."""
        task = self.task(record.task)
        if task.record is not None:
            return
        task.record = record
        task.leave_shared_lane()
        task.tier, task.weight = task.tier or str(record.tier), task.weight or record.weight
        if not task.cap_known:
            task.cap, task.cap_burst = record.cap, record.cap_burst

    def checkpoint(self, task: str, published: int) -> None:
        """So many targets are confirmed as published."""
        state = self.task(task)
        state.published = max(state.published, published)

    def seal(self, task: str, targets: int, writers: Iterable[str] = (MAIN_WRITER,)) -> None:
        """The audience is complete; the first seal counts."""
        state = self.task(task)
        if state.sealed and not state.guessed:
            return
        state.sealed, state.guessed, state.total, state.writers = True, False, targets, tuple(writers)

    def control(self, task: str, name: str, value: str) -> None:
        """Changes a control: weight (thousandths), cap, tier, paused or cancelled ("1"/"0"), stopped (the
        reason), lane, override."""
        state = self.task(task)
        if name == "weight":
            state.weight = int(value)
        elif name == "cap":
            state.cap, state.cap_burst = read_cap(value)
            state.cap_known = True
            if state.bucket is not None and state.cap:
                state.bucket.rate = min(state.bucket.rate, state.cap)
        elif name == "tier":
            state.tier = value
        elif name == "paused":
            state.paused = value == "1"
        elif name == "cancelled":
            state.cancelled = state.cancelled or value == "1"
        elif name == "stopped":
            state.stopped = state.stopped or value
        elif name == "lane":
            state.moved_lane = value
            state.leave_shared_lane()
        elif name == "override":
            state.override = value
        else:
            raise ValueError(f"no control {name}")

    def set_global(self, name: str, value: str) -> None:
        """Sets one field of GlobalChange."""
        kind, _, of = name.partition(":")
        if name == "capacity":
            self.capacity, self.capacity_burst = read_cap(value)
            self._note_rate(TOTAL, self.capacity)
        elif name == "tiers":
            self.tier_weights = dict(zip(TIERS, map(int, value.split(":")), strict=True))
        elif name == "sharing":
            self.sharing = value
        elif kind == "cap":
            pool = of.replace(":", "/", 1)
            self.caps[pool] = read_cap(value)
            self._note_rate(pool, self.caps[pool][0])
        elif kind == "channel_paused":
            (self.paused_channels.add if value == "1" else self.paused_channels.discard)(of)
        elif kind == "app_weight":
            self.app_weights[of] = int(value)
        elif kind == "limit":
            self.limits[of] = int(value)
        else:
            raise ValueError(f"no global {name}")

    def _note_rate(self, pool: str, rate: int) -> None:
        """A cap's rate was changed: the pool keeps the lowest."""
        if pool in self.pools and rate:
            self.pools[pool].capacity = min(self.pools[pool].capacity, rate)

    def pools_of(self, app: str, channel: str) -> tuple[str, ...]:
        """Names of the pools, besides the total, that tasks of this app on this channel share with others."""
        if not self.caps:
            return ()
        names = (f"channel/{channel}", f"app/{app}", f"app_channel/{app}/{channel}")
        return tuple([name for name in names if name in self.caps and self.caps[name][0] > 0])

    def finish(self, task: str, state: str) -> None:
        """Writes a task's end; nothing of its envelopes is kept."""
        ended = self.task(task)
        ended.ended = state
        for kept in (ended.open, ended.final, ended.touched):
            kept.clear()

    def apply(self, record: ControlRecord) -> list[str]:
        """Applies a record of the control topic; returns the task if by it its last target has an outcome."""
        match record:
            case TaskRecord():
                self.add_task(record)
            case Checkpoint():
                self.checkpoint(record.task, record.targets)
            case Sealed():
                self.seal(record.task, record.targets, record.writers)
            case ControlChange():
                self.control(record.task, record.field, record.value)
            case GlobalChange():
                self.set_global(record.field, record.value)
            case Finished():
                self.finish(record.task, record.state)
            case EpochMark():
                self.mark_read("control", record.epoch)
            case EpochStarted() | Restated() | Announced() | TakenOver():  # logs in memory forget nothing
                pass
        task = getattr(record, "task", "")
        return [task] if task and self.tasks[task].complete else []

    def begin_epoch(self, epoch: str, grants_after_ms: int) -> None:
        """An empty view is to be filled from the topics' beginnings; no grants until all are read to the mark."""
        self.epoch = Epoch(epoch, False, grants_after_ms, self.topics.outcome_partitions)

    def mark_read(self, topic: str, epoch: str) -> None:
        """`control`, or the number of an outcome partition, has been read to the mark of an epoch."""
        if epoch != self.epoch.id:
            return
        self.epoch.read.add(topic)
        wanted = {"control", *(str(partition) for partition in range(self.epoch.partitions))}
        self.epoch.ready = self.epoch.ready or wanted <= self.epoch.read

    def lane_weight(self, lane: str) -> int:
        """A shared lane's weight: the sum of its live tasks' weights, in thousandths; 0 if it has none."""
        live = (task for task in self.tasks.values() if task.record is not None and not task.ended)
        return sum(task.weight for task in live if task.record and task.record.shared and task.record.lane == lane)

    def outcomes(self, task: str) -> Mapping[str, int]:
        """The task's counts by outcome name, for tests."""
        return {outcome.name.lower(): self.tasks[task].counts[outcome] for outcome in Outcome}
