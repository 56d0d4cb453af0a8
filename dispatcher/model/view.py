"""What the registry shows of tasks and workers."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from dispatcher.analysis.send_errors import SendError
from dispatcher.model.service_settings import (
    CAPACITY,
    EVERY_APP,
    NO_CAP,
    SHARED_BY,
    SHARING,
    TIER_WEIGHTS,
    Cap,
    Limits,
    app_weights_of,
    caps_of,
    limits_of,
    paused_of,
    stored_cap,
    tier_weights_of,
)
from dispatcher.model.tier import MILLI

STATES = ("scheduled", "running", "paused", "completed", "cancelled", "expired", "failed")
ENDED_STATES = ("completed", "cancelled", "expired", "failed")


class TargetCounts(msgspec.Struct, frozen=True):
    """Targets of a task by outcome. They add up: total = sent + invalid + failed + expired + cancelled + pending."""

    total: int = 0
    """The audience; before the seal, what is published so far."""
    sent: int = 0
    """The provider has taken them."""
    invalid: int = 0
    """There are no such targets, or not any more."""
    failed: int = 0
    """They were given up."""
    expired: int = 0
    """The task's time to live ran out before they were sent."""
    cancelled: int = 0
    """The task was cancelled or stopped before they were sent."""
    pending: int = 0
    """They have no outcome yet."""


class TaskView(msgspec.Struct, frozen=True):
    """A task as the registry shows it. Times are wall times in ms, 0 for none."""

    id: str
    """Its id."""
    app: str
    """The app that owns it."""
    tier: str
    """As it is now, like weight and cap."""
    channel: str
    """What delivers it."""
    state: str
    """scheduled, running, paused, completed, cancelled, expired or failed."""
    sealed: bool
    """Whether the audience is complete."""
    weight: float
    """Share among the tasks of its tier; 1.0 unless set."""
    cap: int
    """In targets/s; 0 for none."""
    targets: TargetCounts
    """Its targets by outcome."""
    rate: float
    """Targets/s settled recently."""
    eta_s: float | None
    """Seconds until done, by the model of dispatcher/analysis/forecast.py; None where no end can be foreseen."""
    refused: int
    """Targets that the submission rejected."""
    lane: str
    """The topic that its envelopes wait in."""
    shared: bool
    """Whether other tasks are in its lane."""
    chunk: int
    """Targets an envelope."""
    expected_targets: int
    """As submitted; -1 for unknown."""
    created_ms: int
    """When it was accepted."""
    start_ms: int
    """Before this nothing is sent."""
    expires_ms: int
    """After this nothing is sent."""
    first_outcome_ms: int
    """When its first target had an outcome."""
    finished_ms: int
    """When it ended."""
    hold_until_sealed: bool = False
    """Whether sending waits for the whole audience."""
    cap_burst: int = 0
    """In targets; 0 for a quarter of a second of the cap."""
    partitions: int = 0
    """Of the lane's topic; 0 for a plain one."""
    reason: str = ""
    """Why the task failed; empty in every other state."""
    closed: bool = False
    """Whether a cancel, a stop or the end of its ttl gave all open targets their outcome. Nothing more is taken then,
    whether it was sealed or not."""
    last_error: SendError | None = None
    """The last error of its sends, with their number; None if there was none."""

    @property
    def ended(self) -> bool:
        """Every target has an outcome and the tombstone is written."""
        return self.finished_ms > 0


class TierStats(msgspec.Struct, frozen=True):
    """Figures so far of one worker for one tier. wait_counts: envelopes by queue wait (published to sent), one count
    per bucket of WAIT_BUCKETS_MS and one for longer ones. rate: targets/s sent over the last 3 s."""

    granted: int = 0
    sent: int = 0
    envelopes: int = 0
    wait_counts: list[int] = []
    rate: float = 0.0


WAIT_BUCKETS_MS: tuple[float, ...] = (
    1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 75, 100, 150, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000,
    5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 45_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
)  # fmt: skip


class Unrecorded(msgspec.Struct, frozen=True):
    """Outcomes that a worker knows and Pulsar has not stored for some seconds. Its claims are kept meanwhile."""

    since_ms: int
    """Wall time of the oldest."""
    targets: int
    tasks: list[str] = []
    """Whose outcomes they are; with many tasks some of them."""


class WorkerBeat(msgspec.Struct, frozen=True):
    """A worker's heartbeat."""

    id: str
    """Its name."""
    host: str
    """The machine it runs on."""
    pid: int
    """Its process."""
    state: str
    """standby, starting, serving, draining or stopped; by its silence also suspect or lost."""
    started_ms: int
    """Wall time of its start."""
    seen_ms: int
    """Wall time of its last heartbeat."""
    version: str
    """Which Fairlane it is."""
    lanes: int
    """Lanes that it is attached to."""
    in_flight: int
    """Targets that are being sent."""
    buffered: int
    """Targets that are prefetched."""
    rate: float
    """Targets/s sent recently."""
    tiers: dict[str, TierStats]
    """By tier name, since the worker started."""
    metrics_port: int = 0
    """Where it serves metrics; 0: nowhere."""
    extra: dict[str, Any] = {}
    """More of it, by name."""
    form: int = 1
    """The form of the views that it keeps (dispatcher.model.view_form); 0.1.0 does not say."""

    @property
    def is_live(self) -> bool:
        """Return whether the worker takes new work, or is about to."""
        return self.state in ("starting", "serving")

    @property
    def channels(self) -> frozenset[str] | None:
        """Return the channels that the worker has; None if it does not say (0.2.0 and older), so it may have any."""
        names = self.extra.get("channels")
        return frozenset(map(str, names)) if isinstance(names, list) else None

    @property
    def unrecorded(self) -> Unrecorded | None:
        """Return the outcomes whose records are late; None if there are none or it does not say (0.2.0 and older)."""
        try:
            return msgspec.convert(self.extra.get("unrecorded"), Unrecorded | None)
        except msgspec.ValidationError:
            return None


class Globals(msgspec.Struct, frozen=True):
    """Settings of the service."""

    capacity: int
    """In targets/s; 0: unlimited."""
    tier_weights: dict[str, float]
    """By tier name, as `set_tiers` takes them."""
    burst: int = 0
    """In targets; 0: a quarter of a second of the capacity."""
    caps: dict[str, Cap] = {}
    """By pool name (`channel/NAME`, `app/NAME`, `app_channel/APP/NAME`); pools without one are left out."""
    paused_channels: frozenset[str] = frozenset()
    """Names of the channels on which nothing is sent."""
    sharing: str = SHARED_BY[0]
    """`tasks` or `apps`: what shares within a tier."""
    app_weights: dict[str, float] = {}
    """By app, as `weigh_app` takes them; 1 where an app is left out."""
    limits: dict[str, Limits] = {}
    """By app; `*` for every app without one of its own."""

    @property
    def tier_milli(self) -> dict[str, int]:
        """The weights of the tiers in thousandths."""
        return _milli(self.tier_weights)

    @property
    def app_milli(self) -> dict[str, int]:
        """The weights of the apps in thousandths."""
        return _milli(self.app_weights)

    def cap(self, pool: str) -> Cap:
        """The cap of a pool."""
        return self.caps.get(pool, NO_CAP)

    def app_weight(self, app: str) -> float:
        """The app's share among the apps of a tier."""
        return self.app_weights.get(app, 1.0)

    def limits_of(self, app: str) -> Limits:
        """Each limit of the app's own where there is one, otherwise that of every app."""
        own, others = self.limits.get(app, Limits()), self.limits.get(EVERY_APP, Limits())
        return Limits(own.tasks or others.tasks, own.targets or others.targets)


def _milli(weights: Mapping[str, float]) -> dict[str, int]:
    return {name: round(weight * MILLI) for name, weight in weights.items()}


def _shares(milli: Mapping[str, int]) -> dict[str, float]:
    return {name: weight / MILLI for name, weight in milli.items()}


def globals_of(fields: Mapping[str, str]) -> Globals:
    """Parse stored settings. Missing fields, and those that make no sense, take their defaults."""
    total, sharing = stored_cap(fields.get(CAPACITY) or "0"), fields.get(SHARING)
    return Globals(
        total.rate,
        _shares(tier_weights_of(fields.get(TIER_WEIGHTS, ""))),
        total.burst,
        caps_of(fields),
        paused_of(fields),
        sharing if sharing in SHARED_BY else SHARED_BY[0],
        _shares(app_weights_of(fields)),
        limits_of(fields),
    )


HoldAction = Literal["take", "renew", "release"]


class SubmitLease(msgspec.Struct, frozen=True):
    """The lease of a task's submission. state: `fresh` (the caller has it; nobody had it within a day), `again` (the
    caller has it; another may have had it), `ours` (the caller still has it), `held` (by `who`, until `until_ms` unless
    renewed), `gone` (nobody has it: Redis was emptied), or empty: it was not asked for."""

    state: str = ""
    who: str = ""
    since_ms: int = 0
    until_ms: int = 0


class Admission(msgspec.Struct, frozen=True):
    """Whether one more task of an app is admitted. reached: empty if it is; `known` if there is such a task already;
    `tasks` or `targets`, the limit it would break, with that limit and how many there are; `view` while the view is
    being rebuilt and cannot tell."""

    reached: str = ""
    limit: int = 0
    there: int = 0
    lease: SubmitLease = SubmitLease()


class FeedEntry(msgspec.Struct, frozen=True):
    """One entry of the registry's feed. kind: task (created, sealed, control changed, ended), globals, epoch."""

    kind: str
    task: str = ""
