"""The data of the report on the backlog. Times are ms (UTC), time spans are seconds, rates are targets/s."""

import msgspec

from dispatcher.model.tier import SHARED_BY

FORMAT = 1
AGE_BANDS_S = (10, 60, 300, 900, 3_600, 14_400, 86_400)
"""The upper bounds of all age bands but the last."""


class Waits(msgspec.Struct, frozen=True):
    """Statistics of the journal on the targets done."""

    done: int = 0
    p50_s: float | None = None
    """How long half of them had waited, from published or due to recorded."""
    p95_s: float | None = None
    """How long 95 % of them had waited, at most."""
    retried: float = 0.0
    """The part that was sent at a further attempt."""
    lost: float = 0.0
    """The part that was invalid or failed."""


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """The backlog of something, and what becomes of it."""

    backlog: int
    arrival_rate: float
    """Targets published recently."""
    service_rate: float
    """Targets recently sent, invalid or failed."""
    oldest_s: float | None
    """How long its oldest target has waited."""
    drain_s: float | None
    """The backlog divided by the service rate; None if nothing is sent."""
    done_s: float | None
    """The time until the last target that may be sent now is sent, forecast for the present total rate."""
    done_at_capacity_s: float | None
    """The same, forecast for the capacity asked for."""
    held_back: dict[str, float]
    """Parts of the recent time by the reason that held it back (spark_jobs.backlog.causes)."""
    waits: Waits | None = None


class BacklogGroup(Backlog, frozen=True, kw_only=True):
    """The backlog of a tier, app or channel, or all of it."""

    dimension: str
    name: str
    tasks: int
    """The number of tasks with a backlog."""
    held: int
    """The part of the backlog that may not be sent now."""


class TaskBacklog(Backlog, frozen=True, kw_only=True):
    """The backlog of one task."""

    task: str
    app: str
    tier: str
    channel: str
    state: str
    held_by: str
    weight: float
    cap: int
    in_flight: int | None
    retrying: int
    """Envelopes with targets that will be tried again."""
    why: dict[str, int]
    """Milliseconds by cause, as the ledger counts them."""
    consumers: int | None
    """Consumers attached to its lane, by its broker's last answer; None if it did not answer."""
    entries: int | None
    """Entries in its lane."""


class AgeBand(msgspec.Struct, frozen=True):
    """Targets that have waited at least from_s and less than until_s (None: without a bound)."""

    from_s: int
    until_s: int | None
    backlog: int
    drain_s: float | None
    """The time until they and all older ones are sent, at the recent rate."""

    @property
    def label(self) -> str:
        if self.until_s is None:
            return f"{span(self.from_s)} and more"
        return f"up to {span(self.until_s)}" if not self.from_s else f"{span(self.from_s)} to {span(self.until_s)}"


class Growth(msgspec.Struct, frozen=True):
    """A task or group that grew, by how much, and since when it has not been this small."""

    dimension: str
    name: str
    backlog: int
    grew: int
    since_ms: int


class Skew(msgspec.Struct, frozen=True, kw_only=True):
    """A lane with one partition that holds far more entries than the others."""

    lane: str
    partitions: int
    entries: int
    partition: int
    most: int
    times: float
    """The partition's backlog divided by that of the mean partition."""
    consumers: int
    """The smallest number of consumers of any partition."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A tier's recent share in a pool."""

    pool: str
    tier: str
    cap: int
    backlog: int
    wanted: float
    """The share by its weight among the tiers with a backlog."""
    got: float
    """Its share of all targets done."""
    done: int
    """The number of its targets done."""


class MissingSnapshots(msgspec.Struct, frozen=True):
    """A time span without snapshots, about which nothing is known."""

    from_ms: int
    until_ms: int


class ReportSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The series that pictures are drawn from."""

    times_ms: list[int] = []
    """The times of the snapshots."""
    backlog: dict[str, dict[str, list[int]]] = {}
    """Backlogs by dimension and name."""
    wanted: dict[str, list[float | None]] = {}
    """Shares wanted, by tier, in the time span before each time; None where not known."""
    got: dict[str, list[float | None]] = {}
    """Shares got, by tier, in the same time spans."""
    service: list[float | None] = []
    """Targets/s sent in the same time spans."""
    arrival: list[float | None] = []
    """Targets/s arrived in the same time spans."""
    heat_ms: list[int] = []
    """The times of the heat map: some of times_ms."""
    heat: list[list[int]] = []
    """Targets by age band at each of these times."""
    wait_ms: list[int] = []
    """The starts of the time spans of waits_p95_s."""
    waits_p95_s: dict[str, list[float | None]] = {}
    """The wait that 95 % did not exceed in each time span, by app."""


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the service at the last snapshot."""

    capacity: int
    """Targets/s; 0 for unlimited."""
    asked_capacity: int
    """The capacity that done_at_capacity_s is for; 0 for none."""
    workers: int
    tier_weights: dict[str, float]
    sharing: str = SHARED_BY[0]
    measured_every_s: int | None = None


class BacklogReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report."""

    format: int
    made_ms: int
    from_ms: int
    until_ms: int
    recent_s: float
    """The length of the time span that "recent" covers."""
    snapshots: int
    journal_rows: int | None
    """The number of outcomes that were read; None where there is no journal."""
    service: ServiceStatus
    total: BacklogGroup
    tiers: list[BacklogGroup]
    apps: list[BacklogGroup]
    channels: list[BacklogGroup]
    tasks: list[TaskBacklog]
    ages: list[AgeBand]
    grew: list[Growth]
    shares: list[Share]
    skewed: list[Skew]
    gaps: list[MissingSnapshots]
    series: ReportSeries
    scheduled: int = 0
    """Targets of tasks whose start time has not come; they are in no age band."""

    @property
    def growing(self) -> bool:
        """Return whether more arrives than is done, so that the backlog never drains."""
        return self.total.arrival_rate > self.total.service_rate and self.total.backlog > 0


def age_bands(targets: dict[int, int], rate: float) -> list[AgeBand]:
    """Return the age bands. targets: by index of the band."""
    edges = [0, *AGE_BANDS_S, None]
    bands: list[AgeBand] = []
    older = 0
    for index in range(len(AGE_BANDS_S), -1, -1):
        count = targets.get(index, 0)
        older += count
        drain_s = 0.0 if not count else older / rate if rate > 0 else None
        bands.append(AgeBand(edges[index] or 0, edges[index + 1], count, drain_s))
    return bands[::-1]


def span(seconds: float | None) -> str:
    """Format a time span: 45 s, 12 min, 3.5 h, 2.1 d."""
    if seconds is None:
        return "never"
    if 0 < seconds < 0.05:
        return "< 0.1 s"
    for limit, size, unit in ((60, 1, "s"), (3_600, 60, "min"), (129_600, 3_600, "h")):
        if seconds < limit:
            number = seconds / size
            return f"{number:.1f} {unit}" if number < 10 and number != int(number) else f"{number:.0f} {unit}"
    return f"{seconds / 86_400:.3g} d"
