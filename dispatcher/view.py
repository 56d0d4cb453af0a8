"""What the registry shows of tasks and workers."""

from typing import Any

import msgspec

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
    rate: targets/s settled of late; eta_s: seconds until done at the present share, None if not known.
    refused: targets the submission rejected. *_ms: wall times, 0 for none."""

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

    @property
    def ended(self) -> bool:
        """Every target has an outcome and the tombstone is written."""
        return self.finished_ms > 0


class TierStats(msgspec.Struct, frozen=True):
    """Figures so far of one worker for one tier. wait_counts: envelopes by queue wait (published to sent), one count
    per bucket of WAIT_BUCKETS_MS and one for longer ones."""

    granted: int = 0
    sent: int = 0
    envelopes: int = 0
    wait_counts: list[int] = []


WAIT_BUCKETS_MS: tuple[float, ...] = (
    1, 2, 5, 10, 20, 35, 50, 75, 100, 150, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000,
    20_000, 30_000, 45_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
)  # fmt: skip


class WorkerBeat(msgspec.Struct, frozen=True):
    """A worker's heartbeat. state: starting, serving, draining, stopped (suspect and lost are the reader's word).
    rate: targets/s sent of late. tiers: by tier name, cumulative since the worker started."""

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


class Globals(msgspec.Struct, frozen=True):
    """Settings of the service. capacity in targets/s, 0 = unlimited. tier_weights: in thousandths by tier name."""

    capacity: int
    tier_weights: dict[str, int]


class Change(msgspec.Struct, frozen=True):
    """One entry of the registry's feed. kind: task (created, sealed, control changed, ended), globals, epoch."""

    kind: str
    task: str = ""
