"""Tasks, workers and settings as the registry shows them."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from dispatcher.analysis.send_errors import SendError
from dispatcher.model.flow_pause import FlowPause, flow_name
from dispatcher.model.pools import EVERY_APP, NO_CAP, Cap, CapUnit, Limits, pools_of, quota_pool
from dispatcher.model.tier import MILLI, SHARED_BY

STATES = ("scheduled", "running", "paused", "completed", "cancelled", "expired", "failed")
ENDED_STATES = ("completed", "cancelled", "expired", "failed")


class TargetCounts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Targets of a task by outcome. They add up: total = sent + invalid + failed + expired + cancelled + pending."""

    total: int = 0
    """The size of the audience; before the seal, the number published so far."""
    sent: int = 0
    """Accepted by the provider."""
    invalid: int = 0
    """Unknown to the provider, or no longer valid."""
    failed: int = 0
    """Given up."""
    expired: int = 0
    """Not sent before the task's time to live ran out."""
    cancelled: int = 0
    """Not sent before the task was cancelled or stopped."""
    pending: int = 0
    """Without an outcome so far."""

    @property
    def not_sent(self) -> int:
        """Targets that ended without being sent."""
        return self.total - self.pending - self.sent

    @property
    def done(self) -> str:
        """The targets with an outcome in words, as in "8 of 10: 5 sent, 3 not sent"."""
        parts = f"{self.sent:,} sent, {self.not_sent:,} not sent" if self.not_sent else f"{self.sent:,} sent"
        return f"{self.total - self.pending:,} of {self.total:,}: {parts}"


class InFlight(NamedTuple):
    """The part of a task that is in flight."""

    targets: int
    """Targets under claims in force."""
    claims: int
    """The number of these claims."""
    sent: int
    """Targets recorded as sent so far."""


class TaskView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A task as the registry shows it. Times are wall times in ms, 0 for none."""

    id: str
    """Id of the task."""
    app: str
    """The app that owns it."""
    tier: str
    """Its current tier. Weight and cap are current as well."""
    channel: str
    """The channel that delivers it."""
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
    """Seconds until done, by the model of dispatcher/analysis/forecast.py; None if no end can be predicted."""
    refused: int
    """Targets that the submission rejected."""
    lane: str
    """The topic that holds its envelopes."""
    shared: bool
    """Whether its lane also holds other tasks."""
    chunk: int
    """Targets per envelope."""
    expected_targets: int
    """As submitted; -1 for unknown."""
    created_ms: int
    """When it was accepted."""
    start_ms: int
    """Nothing is sent before this time."""
    expires_ms: int
    """Nothing is sent after this time."""
    first_outcome_ms: int
    """When its first target got an outcome."""
    finished_ms: int
    """When it ended."""
    hold_until_sealed: bool = False
    """Whether sending waits for the whole audience."""
    cap_burst: int = 0
    """In targets; 0 for a quarter of a second of the cap."""
    partitions: int = 0
    """Partitions of the lane's topic; 0 for a plain topic."""
    reason: str = ""
    """Why the task failed; empty in every other state."""
    closed: bool = False
    """Whether a cancel, a stop or the end of its ttl gave all open targets their outcome. Then no more targets are
    accepted, whether it was sealed or not."""
    last_error: SendError | None = None
    """The last error of its sends, with the number of errors; None if there was none."""
    first: int = 0
    """Targets that are sent before the task waits for a go; 0: it waits for none."""
    waits_for_go: bool = False
    """Whether only these are sent, until it is resumed."""
    last_outcome_ms: int = 0
    """When a target of it last got an outcome; 0 also for an ended task."""

    @property
    def ended(self) -> bool:
        """Whether every target has an outcome and the tombstone is written."""
        return self.finished_ms > 0


class TierStats(msgspec.Struct, frozen=True):
    """Figures of one worker for one tier since its start."""

    granted: int = 0
    sent: int = 0
    envelopes: int = 0
    wait_counts: list[int] = []
    """Envelopes by queue wait (published to sent): a count per bucket of WAIT_BUCKETS_MS, and one for longer waits."""
    rate: float = 0.0
    """Targets/s sent over the last 3 s."""


WAIT_BUCKETS_MS: tuple[float, ...] = (
    1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 75, 100, 150, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000,
    5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 45_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
)  # fmt: skip


SUSPECT_MS = 3_000
"""Age of a heartbeat from which on its worker is suspect."""
UNRECORDED_MS = 5_000
"""Age of the oldest unrecorded outcome that is worth a warning."""


class Unrecorded(msgspec.Struct, frozen=True):
    """Outcomes that a worker knows and Pulsar has not stored for a second. Its claims are kept meanwhile."""

    since_ms: int
    """Wall time of the oldest."""
    targets: int
    tasks: list[str] = []
    """Tasks with such outcomes; only some of them if there are many."""


class WorkerBeat(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's heartbeat."""

    id: str
    """Its name."""
    host: str
    """Its machine."""
    pid: int
    """Its process id."""
    state: str
    """standby, starting, serving, draining or stopped; after missed heartbeats also suspect or lost."""
    started_ms: int
    """Wall time of its start."""
    seen_ms: int
    """Wall time of its last heartbeat."""
    version: str
    """Its Fairlane version."""
    lanes: int = 0
    """Lanes that it is attached to."""
    in_flight: int = 0
    """Targets that are being sent."""
    buffered: int = 0
    """Targets that are prefetched."""
    rate: float = 0.0
    """Targets/s sent recently."""
    tiers: dict[str, TierStats] = {}
    """By tier name, since the worker started."""
    metrics_port: int = 0
    """Port of its metrics; 0: none."""
    extra: dict[str, Any] = {}
    """More fields, by name."""
    form: int = 0
    """The form of the views that it maintains (dispatcher.model.view_form). 0: it names none."""

    @property
    def is_live(self) -> bool:
        """Whether the worker takes new work, or is about to."""
        return self.state in ("starting", "serving")

    @property
    def channels(self) -> frozenset[str] | None:
        """The worker's channels; None if it does not name them, so it may have any."""
        names = self._names("channels")
        return None if names is None else frozenset(names)

    @property
    def holds(self) -> tuple[str, ...] | None:
        """The tiers whose lanes it holds; None if it does not name any, so it holds those of all tiers."""
        return self._names("holds")

    @property
    def newer(self) -> tuple[str, ...]:
        """The lanes that it leaves to workers of a newer version."""
        return self._names("newer") or ()

    def _names(self, field: str) -> tuple[str, ...] | None:
        """Return a list of names in `extra`; None if there is none, or a newer version has something else there."""
        names = self.extra.get(field)
        return tuple(map(str, names)) if isinstance(names, list) else None

    @property
    def unrecorded(self) -> Unrecorded | None:
        """Outcomes that Pulsar has not stored for UNRECORDED_MS; None if it reports none."""
        try:
            unrecorded = msgspec.convert(self.extra.get("unrecorded"), Unrecorded | None)
        except msgspec.ValidationError:
            return None
        return unrecorded if unrecorded and self.seen_ms - unrecorded.since_ms >= UNRECORDED_MS else None


class Globals(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the whole service, parsed."""

    capacity: int
    """In targets/s; 0: unlimited."""
    tier_weights: dict[str, float]
    """By tier name, in the form that `set_tiers` takes."""
    burst: int = 0
    """In targets; 0: a quarter of a second of the capacity."""
    caps: dict[str, Cap] = {}
    """By pool name (`channel/NAME`, `app/NAME`, `app_channel/APP/NAME`, `quota/GROUP`); pools without a cap are left
    out."""
    paused_channels: frozenset[str] = frozenset()
    """Channels on which nothing is sent."""
    flow_pauses: dict[str, FlowPause] = {}
    """Open pauses of one app on a channel, by flow (`CHANNEL/APP`)."""
    quotas: dict[str, str] = {}
    """Quota groups by flow (`CHANNEL/APP`)."""
    quota_units: dict[str, str] = {}
    """The unit that the cap of a quota group counts, by group; `target` for groups that are left out."""
    sharing: str = SHARED_BY[0]
    """Whether `tasks` or `apps` share within a tier."""
    app_weights: dict[str, float] = {}
    """By app, in the form that `weigh_app` takes; 1 for apps that are left out."""
    limits: dict[str, Limits] = {}
    """By app; `*` for every app without a limit of its own."""

    @property
    def tier_milli(self) -> dict[str, int]:
        """Weights of the tiers in thousandths."""
        return _milli(self.tier_weights)

    @property
    def app_milli(self) -> dict[str, int]:
        """Weights of the apps in thousandths."""
        return _milli(self.app_weights)

    def cap(self, pool: str) -> Cap:
        """Return the cap of a pool."""
        return self.caps.get(pool, NO_CAP)

    def unit(self, pool: str) -> CapUnit:
        """Return what the cap of a pool counts."""
        return CapUnit(self.quota_units.get(pool.removeprefix(quota_pool("")), CapUnit.TARGET))

    def flow_pause(self, channel: str, app: str) -> FlowPause | None:
        """Return the pause of an app on a channel."""
        return self.flow_pauses.get(flow_name(channel, app))

    def stops(self, channel: str, app: str) -> bool:
        """Return whether nothing of an app is sent on a channel."""
        return channel in self.paused_channels or flow_name(channel, app) in self.flow_pauses

    def pools_of(self, app: str, channel: str) -> list[str]:
        """Return the pools, besides the total, that cap an app on a channel."""
        group = self.quotas.get(flow_name(channel, app))
        pools = [*pools_of(app, channel), *([quota_pool(group)] if group else [])]
        return [pool for pool in pools if pool in self.caps]

    def app_weight(self, app: str) -> float:
        """Return the app's share among the apps of a tier."""
        return self.app_weights.get(app, 1.0)

    def limits_of(self, app: str) -> Limits:
        """Return the app's limits: for each, its own if there is one, otherwise the limit for every app."""
        own, others = self.limits.get(app, Limits()), self.limits.get(EVERY_APP, Limits())
        return Limits(own.tasks or others.tasks, own.targets or others.targets)


def _milli(weights: Mapping[str, float]) -> dict[str, int]:
    return {name: round(weight * MILLI) for name, weight in weights.items()}


HoldAction = Literal["take", "renew", "release"]


class SubmitLease(msgspec.Struct, frozen=True):
    """Who may submit a task now, and until when."""

    state: str = ""
    """One of:

    - `fresh`: the caller has it; nobody had it within a day.
    - `again`: the caller has it; another client may have had it.
    - `ours`: the caller still has it.
    - `held`: `who` has it, until `until_ms` unless renewed.
    - `gone`: nobody has it, because Redis was emptied.
    - empty: it was not asked for.
    """
    who: str = ""
    since_ms: int = 0
    until_ms: int = 0


class Admission(msgspec.Struct, frozen=True):
    """Whether one more task of an app is admitted."""

    reached: str = ""
    """Empty if it is admitted. `known` if there already is such a task. `tasks` or `targets` if it would break that
    limit. `view` while the view is being rebuilt and cannot tell."""
    limit: int = 0
    """The limit that it would break."""
    current: int = 0
    """The current number of tasks or targets."""
    lease: SubmitLease = SubmitLease()


class FeedEntry(msgspec.Struct, frozen=True):
    """One entry of the registry's feed."""

    kind: str
    """`task` (created, sealed, control changed, ended), `globals` or `epoch`."""
    task: str = ""
