"""The contents of a scenario file, validated. Times are seconds from the start of the run."""

from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator

from dispatcher.model.errors import InvalidInput
from dispatcher.model.pools import NO_CAP, Cap, PoolNames, pools_of
from dispatcher.model.task import choose_chunk
from dispatcher.model.tier import DEFAULT_TIER_WEIGHTS, MILLI, TIERS, Tier
from dispatcher.wire.envelope import MAX_CHUNK

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
Part = Annotated[float, Field(ge=0, le=1)]
Moment = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """A section of a scenario file; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _cap(value: Any) -> Cap:
    if isinstance(value, Cap):
        return value
    try:
        return Cap.parse(str(value))
    except InvalidInput as error:
        raise ValueError(error.cause.removeprefix("cap: ")) from error


Limit = Annotated[Cap, PlainValidator(_cap)]
"""`2000` or `"2000:500"`."""


class Tasks(Section):
    """One task, or `count` equal ones."""

    name: str = Field(pattern=NAME)
    tier: Tier = Tier.MEDIUM
    targets: int = Field(ge=1)
    chunk: int = Field(default=0, ge=0, le=MAX_CHUNK)
    """0: the size that a submission would choose."""
    weight: float = Field(default=1.0, gt=0, le=1000)
    cap: Limit = NO_CAP
    app: str = Field(default="app", pattern=NAME)
    channel: str = Field(default="push", pattern=NAME)
    lane: Literal["auto", "own", "shared"] = "auto"
    """`auto`: small low tasks share a lane, as they do in the service."""
    arrives_s: Moment = 0
    """When publishing begins."""
    count: int = Field(default=1, ge=1, le=20_000)
    every_s: Moment = 0
    """The time between the arrivals of two of the `count` tasks."""
    publish_rate: int = Field(default=0, ge=0)
    """Targets/s; 0: all at once."""
    expires_s: Moment = 0
    max_attempts: int = Field(default=5, ge=1, le=20)

    @property
    def envelope_targets(self) -> int:
        return self.chunk or choose_chunk(self.tier, self.targets)

    @property
    def pools(self) -> PoolNames:
        return pools_of(self.app, self.channel)

    def names(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}-{number}" for number in range(self.count)]


class Stall(Section):
    """A stall of the process (SIGSTOP, a long pause of its machine)."""

    at_s: Moment
    for_s: float = Field(gt=0)


class WorkerSpec(Section):
    """A group of `count` equal workers."""

    name: str = Field(default="w", pattern=NAME)
    count: int = Field(default=1, ge=1, le=200)
    joins_s: Moment = 0
    every_s: Moment = 0
    leaves_s: Moment | None = None
    """When the worker drains."""
    dies_s: Moment | None = None
    """When the worker is killed."""
    stalls: list[Stall] = []
    sees: Literal["all"] | list[Tier] | Part = "all"
    """The lanes to hold: "all", those of some tiers, or a fraction.

    With a fraction, each lane is held by that part of these workers, at least one.
    """
    clock_off_s: float = 0
    """The error of its wall clock."""

    def names(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}{number}" for number in range(self.count)]


class Channel(Section):
    """A provider. A call takes call_ms, and target_us for each target."""

    call_ms: float = Field(default=5.0, gt=0)
    target_us: float = Field(default=0.0, ge=0)
    concurrency: int = Field(default=32, ge=1)
    """The number of calls a worker has under way at once."""
    batch_limit: int = Field(default=100, ge=1)
    invalid: Part = 0
    """Fraction of the targets that are invalid."""
    retry: Part = 0
    """Fraction of the targets that are answered with "try again"."""

    @property
    def longest_s(self) -> float:
        return (self.call_ms + self.target_us * 50 * self.batch_limit / 1000) / 1000


PLAIN = Channel()
"""The channel for names that the scenario does not describe."""


class Faults(Section):
    """The faults of a run. Rates are per worker and second."""

    late: Part = 0
    """Fraction of messages that are late by up to late_ms, so that they overtake each other."""
    late_ms: float = Field(default=300, ge=0)
    lost: Part = 0
    """Fraction that is lost of the ledger's calls and answers, and of receipts."""
    doubled: Part = 0
    """Fraction of ledger calls that arrive twice."""
    copies: Part = 0
    """Fraction of a lane's messages that are published twice."""
    crash_rate: float = Field(default=0, ge=0)
    restart_s: float = Field(default=1, ge=0)
    """Time after which a crashed worker is replaced."""
    stall_rate: float = Field(default=0, ge=0)
    stall_s: float = Field(default=3, gt=0)
    until_s: Moment | None = None


class ScenarioChange(Section):
    """A change at at_s: of a task (or of all tasks that match a pattern like `name*`), or of the service."""

    at_s: Moment
    task: str = ""
    weight: float | None = Field(default=None, gt=0)
    tier: Tier | None = None
    cap: Limit | None = None
    paused: bool | None = None
    cancelled: Literal[True] | None = None
    tiers: dict[Tier, float] | None = None
    capacity: Limit | None = None
    channel_paused: dict[str, bool] | None = None

    @model_validator(mode="after")
    def _names_one_thing(self) -> Self:
        of_task = [self.weight, self.tier, self.cap, self.paused, self.cancelled]
        of_service = [self.tiers, self.capacity, self.channel_paused]
        given, other = (of_task, of_service) if self.task else (of_service, of_task)
        if all(value is None for value in given) or any(value is not None for value in other):
            raise ValueError(
                "names a task with weight, tier, cap, paused or cancelled, or no task with tiers, capacity or "
                "channel_paused"
            )
        return self


class Caps(Section):
    """Caps of channels and apps, by name."""

    channel: dict[str, Limit] = {}
    app: dict[str, Limit] = {}
    app_channel: dict[str, Limit] = {}
    """Names are written APP/CHANNEL."""

    def named(self) -> dict[str, Cap]:
        """Return caps by name, as in the ledger: channel/NAME, app/NAME, app_channel/APP/NAME."""
        kinds = {"channel": self.channel, "app": self.app, "app_channel": self.app_channel}
        return {f"{kind}/{name}": cap for kind, caps in kinds.items() for name, cap in caps.items()}


class Scenario(Section):
    """The contents of a scenario file."""

    name: str = "scenario"
    about: str = ""
    duration_s: float = Field(gt=0, le=86_400)
    until: Literal["done", "duration"] = "duration"
    """`done` runs until every target has its outcome, for at most duration_s; then every target must have one.

    `duration` stops after duration_s, even if targets are left.
    """
    window_s: float = Field(default=1.0, gt=0)
    """The window of the printed shares."""
    capacity: Limit = NO_CAP
    tiers: dict[Tier, float] = {tier: weight / MILLI for tier, weight in DEFAULT_TIER_WEIGHTS.items()}
    sharing: Literal["tasks", "apps"] = "tasks"
    app_weights: dict[str, float] = {}
    caps: Caps = Caps()
    channels: dict[str, Channel] = {}
    tasks: list[Tasks] = Field(min_length=1)
    workers: list[WorkerSpec] = Field(min_length=1)
    faults: Faults = Faults()
    changes: list[ScenarioChange] = []
    lease_ms: int = Field(default=2_000, ge=200)
    claim_ms: int = Field(default=13_000, ge=1_000)
    engine: dict[str, float] = {}

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if set(self.tiers) != set(TIERS) or min(self.tiers.values()) <= 0:
            raise ValueError("tiers: give high, medium and low a weight above 0")
        _once("tasks", (name for entry in self.tasks for name in entry.names()))
        _once("workers", (name for entry in self.workers for name in entry.names()))
        self._check_names()
        longest_ms = max((channel.longest_s * 1000 for channel in self.channels.values()), default=5)
        if self.claim_ms < self.lease_ms + longest_ms + self.faults.late_ms:
            raise ValueError("claim_ms: must be longer than lease_ms, the longest call and late_ms together")
        return self

    def _check_names(self) -> None:
        """Check names: a misspelled one would change nothing."""
        tasks = [name for entry in self.tasks for name in entry.names()]
        for change in self.changes:
            if change.task and not any(fnmatchcase(task, change.task) for task in tasks):
                raise ValueError(f"changes: there is no task {change.task}")

    def channel(self, name: str) -> Channel:
        return self.channels.get(name, PLAIN)


def _once(what: str, names: Iterable[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"{what}: the name {twice[0]} is given twice")
