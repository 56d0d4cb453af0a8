"""What the registry shows of tasks and workers."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from dispatcher.service_settings import (
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
from dispatcher.tier import MILLI

STATES = ("scheduled", "running", "paused", "completed", "cancelled", "expired", "failed")
ENDED_STATES = ("completed", "cancelled", "expired", "failed")


class TargetCounts(msgspec.Struct, frozen=True):
    """Targets of a task by outcome. They add up: total = sent + invalid + failed + expired + cancelled + pending.
    Before the seal, total is what is published so far."""

    total: int = 0
    sent: int = 0
    invalid: int = 0
    failed: int = 0
    expired: int = 0
    cancelled: int = 0
    pending: int = 0


class TaskView(msgspec.Struct, frozen=True):
    """A task as the registry shows it. weight as the user gives it (1.0 = one share); cap in targets/s, 0 for none;
    cap_burst in targets, 0 for a quarter of a second of the cap; partitions: of the lane, 0 for a plain topic;
    rate: targets/s settled recently; eta_s: seconds until done by the model of
    dispatcher/forecast.py, None where no end can be foreseen.
    refused: targets the submission rejected. *_ms: wall times, 0 for none. reason: why the task failed; empty in every
    other state. sealed: the audience is complete. closed: a cancel, a stop or the end of its ttl gave all open targets
    their outcome; nothing more is taken, whether it was sealed or not."""

    id: str
    app: str
    tier: str
    channel: str
    state: str
    sealed: bool
    weight: float
    cap: int
    targets: TargetCounts
    rate: float
    eta_s: float | None
    refused: int
    lane: str
    shared: bool
    chunk: int
    expected_targets: int
    created_ms: int
    start_ms: int
    expires_ms: int
    first_outcome_ms: int
    finished_ms: int
    hold_until_sealed: bool = False
    cap_burst: int = 0
    partitions: int = 0
    reason: str = ""
    closed: bool = False

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


class WorkerBeat(msgspec.Struct, frozen=True):
    """A worker's heartbeat. state: standby, starting, serving, draining, stopped (suspect and lost are the reader's
    word). rate: targets/s sent recently. tiers: by tier name, cumulative since the worker started."""

    id: str
    host: str
    pid: int
    state: str
    started_ms: int
    seen_ms: int
    version: str
    lanes: int
    in_flight: int
    buffered: int
    rate: float
    tiers: dict[str, TierStats]
    metrics_port: int = 0
    extra: dict[str, Any] = {}
    form: int = 1
    """The form of the views that it keeps (dispatcher.view_form); 0.1.0 does not say."""


class Globals(msgspec.Struct, frozen=True):
    """Settings of the service.

    capacity in targets/s, 0 = unlimited; burst in targets, 0 = a quarter of a second of it. tier_weights: in
    thousandths by tier name. caps: by pool name (`channel/NAME`, `app/NAME`, `app_channel/APP/NAME`); pools without one
    are left out. sharing: `tasks` or `apps`, what shares within a tier. app_weights: in thousandths, 1,000 where an app
    is left out. limits: by app, `*` for every app without one of its own.
    """

    capacity: int
    tier_weights: dict[str, int]
    burst: int = 0
    caps: dict[str, Cap] = {}
    paused_channels: frozenset[str] = frozenset()
    sharing: str = SHARED_BY[0]
    app_weights: dict[str, int] = {}
    limits: dict[str, Limits] = {}

    def cap(self, pool: str) -> Cap:
        return self.caps.get(pool, NO_CAP)

    def app_weight(self, app: str) -> int:
        """In thousandths."""
        return self.app_weights.get(app, MILLI)

    def limits_of(self, app: str) -> Limits:
        """Each limit of the app's own where there is one, otherwise that of every app."""
        own, others = self.limits.get(app, Limits()), self.limits.get(EVERY_APP, Limits())
        return Limits(own.tasks or others.tasks, own.targets or others.targets)


def globals_of(fields: Mapping[str, str]) -> Globals:
    """Parse stored settings. Missing fields, and those that make no sense, take their defaults."""
    total, sharing = stored_cap(fields.get(CAPACITY) or "0"), fields.get(SHARING)
    return Globals(
        total.rate,
        tier_weights_of(fields.get(TIER_WEIGHTS, "")),
        total.burst,
        caps_of(fields),
        paused_of(fields),
        sharing if sharing in SHARED_BY else SHARED_BY[0],
        app_weights_of(fields),
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


class Change(msgspec.Struct, frozen=True):
    """One entry of the registry's feed. kind: task (created, sealed, control changed, ended), globals, epoch."""

    kind: str
    task: str = ""
