"""The data of the report on the backlog. Times are ms (UTC), time spans are seconds, rates are targets/s."""

import msgspec

from dispatcher.model.tier import SHARED_BY

FORMAT = 2
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


class BacklogGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The backlog of a tier, app or channel, or all of it, and what becomes of it."""

    dimension: str
    name: str
    tasks: int
    """The number of tasks with a backlog."""
    backlog: int
    held: int
    """The part of the backlog that may not be sent now."""
    arrival_rate: float
    """Targets published recently."""
    service_rate: float
    """Targets recently sent, invalid or failed."""
    oldest_s: float | None
    """How long its oldest target has waited."""
    done_s: float | None
    """The time until the last target that may be sent now is sent, forecast for the present total rate."""
    done_at_capacity_s: float | None
    """The same, forecast for the capacity asked for."""
    held_back: dict[str, float]
    """Parts of the waiting in the last time span of `ReportSeries.waiting`, by cause (spark_jobs.backlog.causes)."""
    waits: Waits | None = None


class TaskWaits(msgspec.Struct, frozen=True, kw_only=True):
    """A task that waited in the period, whether it has ended or not."""

    task: str
    app: str
    tier: str
    channel: str
    state: str
    held_by: str
    targets: int
    """The number published."""
    backlog: int
    service_rate: float
    begun_ms: int
    """When it was created, or its start time if that is later."""
    ended_ms: int | None
    """None while it is live."""
    target_hours: float
    """How much it waited: a million targets for an hour, or one for a million hours."""
    held_back: dict[str, float]
    """Parts of target_hours by cause."""
    done_s: float | None
    done_at_capacity_s: float | None
    waits: Waits | None = None


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


class MissingSnapshots(msgspec.Struct, frozen=True):
    """A time span without snapshots, about which nothing is known."""

    from_ms: int
    until_ms: int


class ReportSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The series that pictures are drawn from."""

    times_ms: list[int] = []
    """The times of the snapshots."""
    backlog: dict[str, list[int]] = {}
    """Backlogs by tier."""
    wanted: dict[str, list[float | None]] = {}
    """Shares wanted, by tier, in the time span before each time; None where not known."""
    got: dict[str, list[float | None]] = {}
    """Shares got, by tier, in the same time spans."""
    service: list[float | None] = []
    """Targets/s sent in the same time spans."""
    arrival: list[float | None] = []
    """Targets/s arrived in the same time spans."""
    step_ms: int = 0
    """The length of the time spans below."""
    spans_ms: list[int] = []
    """Their starts: round times, such as full hours."""
    waiting: dict[str, dict[str, list[float]]] = {}
    """The mean number of waiting targets in each time span, by app and cause, without those scheduled for later."""
    waits_p95_s: dict[str, list[float | None]] = {}
    """The wait that 95 % of the targets done in each time span did not exceed, by app."""


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
    tasks: list[TaskWaits]
    """Those that waited most."""
    ages: list[AgeBand]
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
    """Format a time span: 20 ms, 45 s, 12 min, 3.5 h, 2.1 d."""
    if seconds is None:
        return "never"
    if 0 < seconds < 1:
        return f"{max(1, seconds * 1000):.0f} ms"
    for limit, size, unit in ((60, 1, "s"), (3_600, 60, "min"), (129_600, 3_600, "h")):
        if seconds < limit:
            number = seconds / size
            return f"{number:.1f} {unit}" if number < 10 and number != int(number) else f"{number:.0f} {unit}"
    return f"{seconds / 86_400:.3g} d"
