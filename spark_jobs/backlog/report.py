"""What the report on the backlog says. Times are ms (UTC), spans are seconds, rates are targets/s."""

import msgspec

from dispatcher.model.service_settings import SHARED_BY
from spark_jobs.backlog.series import AGE_BANDS_S

FORMAT = 1


class Waits(msgspec.Struct, frozen=True):
    """What the journal tells of the targets done: how long half of them, and all but a twentieth, had waited (from
    published or due to recorded); which parts were sent at a further attempt, and were invalid or failed."""

    done: int = 0
    p50_s: float | None = None
    p95_s: float | None = None
    retried: float = 0.0
    lost: float = 0.0


class BacklogGroup(msgspec.Struct, frozen=True):
    """The backlog of a tier, app or channel, or all of it. tasks: that have one. held: the part of it that may not be
    sent now. arrival_rate: published of late; service_rate: sent, invalid and failed. oldest_s: how long its oldest
    target has waited. drain_s: backlog divided by service rate, None if nothing is sent. done_s: until the last of it
    that may be sent now is sent, foreseen for the present rate of all; done_at_capacity_s: for the capacity asked.
    held_back: part of the time of late by what held it back (spark_jobs.backlog.causes)."""

    dimension: str
    name: str
    tasks: int
    backlog: int
    held: int
    arrival_rate: float
    service_rate: float
    oldest_s: float | None
    drain_s: float | None
    done_s: float | None
    done_at_capacity_s: float | None
    held_back: dict[str, float]
    waits: Waits | None = None


class TaskBacklog(msgspec.Struct, frozen=True):
    """As Group, of one task. consumers: attached to its lane, as its broker last told, None if it did not. entries: in
    its lane. retrying: envelopes of which something is to be tried again. why: ms by cause, as the ledger counts."""

    task: str
    app: str
    tier: str
    channel: str
    state: str
    held_by: str
    weight: float
    cap: int
    backlog: int
    in_flight: int | None
    retrying: int
    arrival_rate: float
    service_rate: float
    oldest_s: float | None
    drain_s: float | None
    done_s: float | None
    done_at_capacity_s: float | None
    held_back: dict[str, float]
    why: dict[str, int]
    consumers: int | None
    entries: int | None
    waits: Waits | None = None


class AgeBand(msgspec.Struct, frozen=True):
    """Targets that have waited at least from_s and less than until_s (None: any time). drain_s: until they and all
    older ones are sent, at the rate of late."""

    from_s: int
    until_s: int | None
    backlog: int
    drain_s: float | None

    @property
    def label(self) -> str:
        if self.until_s is None:
            return f"{span(self.from_s)} and more"
        return f"up to {span(self.until_s)}" if not self.from_s else f"{span(self.from_s)} to {span(self.until_s)}"


class Growth(msgspec.Struct, frozen=True):
    """What grew, by how much, and since when it has not been so small."""

    dimension: str
    name: str
    backlog: int
    grew: int
    since_ms: int


class Skew(msgspec.Struct, frozen=True):
    """A lane of which one partition holds far more than its part. times: its backlog by that of a mean partition.
    consumers: the least that any partition has."""

    lane: str
    partitions: int
    entries: int
    partition: int
    most: int
    times: float
    consumers: int


class Share(msgspec.Struct, frozen=True):
    """A tier's share in a pool of late: what its weight among the tiers with a backlog wanted, what it got of all that
    was done, and how many targets these were."""

    pool: str
    tier: str
    cap: int
    backlog: int
    wanted: float
    got: float
    done: int


class MissingSnapshots(msgspec.Struct, frozen=True):
    """No snapshot was taken in between: nothing is known."""

    from_ms: int
    until_ms: int


class ReportSeries(msgspec.Struct, frozen=True):
    """What pictures are drawn of. times_ms: of the snapshots; backlog: by dimension and name; wanted, got: shares by
    tier in the stretch before each time, None where not known; service, arrival: targets/s in it.
    heat_ms, heat: targets by age band at some of the times. wait_ms, waits_p95_s: of each stretch from then on, by app.
    """

    times_ms: list[int] = []
    backlog: dict[str, dict[str, list[int]]] = {}
    wanted: dict[str, list[float | None]] = {}
    got: dict[str, list[float | None]] = {}
    service: list[float | None] = []
    arrival: list[float | None] = []
    heat_ms: list[int] = []
    heat: list[list[int]] = []
    wait_ms: list[int] = []
    waits_p95_s: dict[str, list[float | None]] = {}


class ServiceStatus(msgspec.Struct, frozen=True):
    """How the service stood at the last snapshot. capacity: targets/s, 0 for unlimited; asked_capacity: the one that
    done_at_capacity_s is for, 0 for none."""

    capacity: int
    asked_capacity: int
    workers: int
    tier_weights: dict[str, float]
    sharing: str = SHARED_BY[0]
    measured_every_s: int | None = None


class BacklogReport(msgspec.Struct, frozen=True):
    """recent_s: of how much of the past what is "of late" is. journal_rows: outcomes that were read; None where there
    is no journal. growing: whether more arrives than is done, so that it is never drained. scheduled: targets of tasks
    whose start time has not come; they are in no age band."""

    format: int
    made_ms: int
    from_ms: int
    until_ms: int
    recent_s: float
    snapshots: int
    journal_rows: int | None
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

    @property
    def growing(self) -> bool:
        return self.total.arrival_rate > self.total.service_rate and self.total.backlog > 0


def age_bands(targets: dict[int, int], rate: float) -> list[AgeBand]:
    """targets: by place of the band."""
    edges = [0, *AGE_BANDS_S, None]
    bands: list[AgeBand] = []
    older = 0
    for place in range(len(AGE_BANDS_S), -1, -1):
        count = targets.get(place, 0)
        older += count
        drain_s = 0.0 if not count else older / rate if rate > 0 else None
        bands.append(AgeBand(edges[place] or 0, edges[place + 1], count, drain_s))
    return bands[::-1]


def span(seconds: float | None) -> str:
    """A span of time in words: 45 s, 12 min, 3.5 h, 2.1 d."""
    if seconds is None:
        return "never"
    if 0 < seconds < 0.05:
        return "< 0.1 s"
    for limit, size, unit in ((60, 1, "s"), (3_600, 60, "min"), (129_600, 3_600, "h")):
        if seconds < limit:
            number = seconds / size
            return f"{number:.1f} {unit}" if number < 10 and number != int(number) else f"{number:.0f} {unit}"
    return f"{seconds / 86_400:.3g} d"
