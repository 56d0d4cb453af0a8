"""Where a task's time went: the causes that held it back, in ms, which add up to its age."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dispatcher.analysis.send_errors import SendError
from dispatcher.analysis.served import Served
from dispatcher.analysis.task_times import (
    COVERED_MS,
    NO_PULSAR,
    NO_WORKER,
    PROVIDER,
    RETRY_WAIT,
    Counted,
    Switch,
    TimeSpan,
)
from dispatcher.model.flow_pause import FlowPause
from dispatcher.model.pools import Pool
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from dispatcher.model.view_form import GONE

SCHEDULED, PAUSED, HELD, UNKNOWN = "scheduled", "paused", "held_until_sealed", "unknown"
CHANNEL_PAUSED = "channel_paused"
FLOW_PAUSED = "flow_paused"
NO_CHANNEL = "no_channel"
NO_WORKER_RUNS = "no_worker_runs"
NO_REDIS = "no_redis"
AUDIENCE, LAST_TARGETS = "audience", "last_targets"
MEANINGS = {
    SCHEDULED: "its start time had not come",
    PAUSED: "it was paused",
    HELD: "it waits for its whole audience",
    CHANNEL_PAUSED: "its channel was paused",
    FLOW_PAUSED: "its app was paused on its channel",
    NO_WORKER_RUNS: "no worker was running",
    NO_CHANNEL: "no worker had its channel",
    NO_REDIS: "workers did not reach Redis, or it had come back and claims made before had to end",
    NO_PULSAR: "its outcomes waited to be stored: workers did not reach Pulsar, or it did not answer",
    "tier_share": "the capacity went to other tiers, which had their shares",
    "task_weight": "the capacity went to other tasks of its tier, by their weights",
    "app_weight": "the capacity went to other apps, by their weights",
    "task_cap": "its own cap held it back",
    "cap_total": "it had its part of the capacity and was sent at that pace",
    NO_WORKER: "no worker had taken it up",
    RETRY_WAIT: "all its remaining targets waited for a retry",
    "sending": "no limit held it back: it was sent as fast as the workers could",
    PROVIDER: "its targets were in the channel: they waited for the provider",
    AUDIENCE: "all that had been submitted was done: it waited for more of its audience",
    LAST_TARGETS: "its last targets were in the channel, or their outcomes on their way",
    UNKNOWN: "not measured: it was between lane, worker and provider",
}
"""Cause -> text for people. `cap:<pool>` is the cap of a pool."""
_KINDS_OF_POOLS = {
    "channel": "its channel",
    "app": "its app",
    "app_channel": "its app on its channel",
    "quota": "its quota group",
}
"""Pools without their names, for callers who may not know them."""


def pool_text(cause: str) -> str:
    """Return the pool of a cause `cap:POOL` in words."""
    pool = cause.removeprefix("cap:")
    return str(Pool.parse(pool) or _KINDS_OF_POOLS.get(pool, pool))


class CauseShare(NamedTuple):
    """One cause and its part of the task's age."""

    cause: str
    ms: int

    @property
    def meaning(self) -> str:
        """The cause in words."""
        if self.cause.startswith("cap:"):
            return f"the cap of {pool_text(self.cause)} held it back"
        return MEANINGS.get(self.cause, self.cause)


class UnrecordedBy(NamedTuple):
    """A worker that holds outcomes of the task that Pulsar has not stored."""

    worker: str
    """Its id."""
    since_ms: int
    """Wall time of its oldest unstored outcome, of this task or another."""


class Why(NamedTuple):
    """Where a task's time went, by cause, and what holds it back now."""

    task: str
    """Its id."""
    state: str
    """As in TaskView."""
    age_ms: int
    """From the task's acceptance to now, or to its end."""
    parts: list[CauseShare]
    """The causes, the largest first. They add up to the age."""
    now: str
    """The cause that holds it back now, as far as the registry, the settings and the workers show. Empty if there is
    none, or if it has ended."""
    channel: str = ""
    """The task's channel."""
    app: str = ""
    """The task's app."""
    flow_pause: FlowPause | None = None
    """The pause of its app on its channel, if it is open."""
    last_error: SendError | None = None
    """The last error of its sends, with the number of errors; None if there was none."""
    unrecorded: Sequence[UnrecordedBy] = ()
    """Workers that hold outcomes of it that Pulsar has not stored for some seconds."""
    waits_for_go: int = 0
    """If it waits for a go, the number of its first targets, which alone are sent until then."""
    last: str = ""
    """The cause that was counted last, if that was in the last seconds: why it is not sent faster. Empty otherwise."""


class HeldUp(NamedTuple):
    """Times when a task could not be sent, as known to the registry."""

    pauses: Sequence[Switch] = ()
    """When it was paused and resumed, in order."""
    channel_pauses: Sequence[Switch] = ()
    """When its channel was paused and resumed, in order."""
    flow_pauses: Sequence[Switch] = ()
    """When its app was paused on its channel, and when that ended, in order."""
    no_worker_runs: Sequence[TimeSpan] = ()
    no_channel: Sequence[TimeSpan] = ()
    """When no worker had its channel."""
    outages: Sequence[TimeSpan] = ()
    """When no worker reached Redis, or nothing had been granted yet after that."""


def unrecorded_by(task: str, beats: Iterable[WorkerBeat]) -> list[UnrecordedBy]:
    """Return the workers that report outcomes of the task that Pulsar has not stored."""
    late = ((beat.id, beat.unrecorded) for beat in beats if beat.state not in GONE)
    return [UnrecordedBy(worker, outcomes.since_ms) for worker, outcomes in late if outcomes and task in outcomes.tasks]


def why(
    task: TaskView,
    counted: Counted,
    held_up: HeldUp,
    settings: Globals,
    now_ms: int,
    served: Served | None = None,
) -> Why:
    """Add up where a task's time went.

    Times known to the registry are exact and come first. Then come the time before the ledger counted and the time
    after it. If the sum exceeds the age (clocks, simultaneous causes), the counted times are cut in proportion.
    """
    age = TimeSpan(task.created_ms, max(task.created_ms, task.finished_ms or now_ms))
    age_ms = age.to_ms - age.from_ms
    known = _by_span(_spans_by_cause(task, counted, held_up, age), age)
    known |= _cut(counted.causes, age_ms - sum(known.values()), known)
    rest_ms = age_ms - sum(known.values())
    known |= {UNKNOWN: known.get(UNKNOWN, 0) + rest_ms}
    parts = [CauseShare(cause, ms) for cause, ms in known.items() if ms > 0]
    parts.sort(key=lambda part: (part.cause == UNKNOWN, -part.ms))
    now = held_now(task, settings, served) or _sent_now(task, counted, now_ms)
    return Why(
        task=task.id,
        state=task.state,
        age_ms=age_ms,
        parts=parts,
        now=now,
        last=counted.last if not task.ended and now_ms - counted.span.to_ms <= COVERED_MS else "",
        channel=task.channel,
        app=task.app,
        flow_pause=settings.flow_pause(task.channel, task.app),
        last_error=task.last_error,
        waits_for_go=task.first if task.waits_for_go else 0,
    )


def _sent_now(task: TaskView, counted: Counted, now_ms: int) -> str:
    """Return the wait of a task that may be sent: its next attempt, the provider, or nothing known."""
    error = task.last_error
    if task.ended or not task.targets.pending:
        return ""
    is_recent = now_ms - counted.span.to_ms <= COVERED_MS
    if error is not None and error.retry_ms > now_ms and (counted.span.to_ms <= error.last_ms or not is_recent):
        return RETRY_WAIT
    return counted.last if is_recent and counted.last in (PROVIDER, NO_PULSAR) else ""


def _spans_by_cause(
    task: TaskView, counted: Counted, held_up: HeldUp, age: TimeSpan
) -> Iterable[tuple[str, Sequence[TimeSpan]]]:
    """Yield the causes whose times are known. Where two overlap, the earlier one counts."""
    yield SCHEDULED, [TimeSpan(age.from_ms, task.start_ms)]
    yield PAUSED, _paused(held_up.pauses, age)
    yield CHANNEL_PAUSED, _paused(held_up.channel_pauses, age)
    yield FLOW_PAUSED, _paused(held_up.flow_pauses, age)
    yield NO_WORKER_RUNS, held_up.no_worker_runs
    yield NO_CHANNEL, held_up.no_channel
    yield NO_REDIS, held_up.outages
    starts = [ms for ms in (counted.span.from_ms, task.first_outcome_ms) if ms]
    taken_up_ms = min(starts, default=age.to_ms)
    if task.hold_until_sealed and (starts or not (task.sealed or task.ended)):
        yield HELD, [TimeSpan(age.from_ms, taken_up_ms)]  # workers take up no lane, and count nothing, before the seal
    if not (starts or task.sealed or task.ended or task.targets.total):
        yield AUDIENCE, [age]
    yield NO_WORKER, [TimeSpan(age.from_ms, taken_up_ms)]
    yield from _after(task, counted, TimeSpan(max(taken_up_ms, counted.span.to_ms), age.to_ms))


def _after(task: TaskView, counted: Counted, span: TimeSpan) -> Iterable[tuple[str, Sequence[TimeSpan]]]:
    """Yield the causes of the time since the ledger last counted."""
    if task.ended:
        yield LAST_TARGETS, [span]
        return
    error = task.last_error
    if error is not None and error.retry_ms > span.from_ms:
        yield PROVIDER, [TimeSpan(span.from_ms, min(error.last_ms, span.from_ms + COVERED_MS))]
        yield RETRY_WAIT, [TimeSpan(max(span.from_ms, error.last_ms), error.retry_ms)]
    if not task.sealed and not task.targets.pending:
        yield AUDIENCE, [span]
    elif span.to_ms - span.from_ms <= COVERED_MS:
        yield counted.last or LAST_TARGETS, [span]


def _by_span(spans: Iterable[tuple[str, Sequence[TimeSpan]]], within: TimeSpan) -> dict[str, int]:
    """Return the ms of each cause, without those that belong to an earlier cause."""
    ms_by_cause: dict[str, int] = {}
    covered: list[TimeSpan] = []
    before_ms = 0
    for cause, cause_spans in spans:
        covered += (
            TimeSpan(max(cause_span.from_ms, within.from_ms), min(cause_span.to_ms, within.to_ms))
            for cause_span in cause_spans
        )
        covered_ms = _covered_ms(covered, within.from_ms)
        ms_by_cause[cause] = ms_by_cause.get(cause, 0) + covered_ms - before_ms
        before_ms = covered_ms
    return ms_by_cause


def _cut(counted: Mapping[str, int], rest_ms: int, known: Mapping[str, int]) -> dict[str, int]:
    """Return the counted times, at most `rest_ms` of them, plus the known times of the same causes."""
    total = sum(ms for ms in counted.values() if ms > 0)
    return {
        cause: known.get(cause, 0) + (ms if total <= rest_ms else ms * max(0, rest_ms) // total)
        for cause, ms in counted.items()
        if ms > 0
    }


def _paused(switches: Sequence[Switch], age: TimeSpan) -> list[TimeSpan]:
    """Return the spans from each pause to its resume; a pause without a resume lasts until the end."""
    spans: list[TimeSpan] = []
    since: int | None = None
    for at_ms, paused in [*switches, Switch(age.to_ms, paused=False)]:
        if paused and since is None:
            since = at_ms
        elif not paused and since is not None:
            spans.append(TimeSpan(since, at_ms))
            since = None
    return spans


def _covered_ms(spans: Sequence[TimeSpan], begin_ms: int) -> int:
    """Return the total time that the spans cover."""
    total, until = 0, begin_ms
    for first, last in sorted(spans):
        total += max(0, last - max(first, until))
        until = max(until, last)
    return total


def held_now(task: TaskView, settings: Globals, served: Served | None = None) -> str:
    """Return what holds a task back now, as far as the registry, the settings and (if known) the workers show. Empty if
    nothing does."""
    is_open = not (task.sealed or task.closed)
    if task.ended or not (task.targets.pending or is_open):
        return ""
    if task.state in (SCHEDULED, PAUSED):
        return task.state
    if is_open and (task.hold_until_sealed or not task.targets.pending):
        return HELD if task.hold_until_sealed else AUDIENCE
    if settings.stops(task.channel, task.app):
        return CHANNEL_PAUSED if task.channel in settings.paused_channels else FLOW_PAUSED
    if served is not None and not served.workers:
        return NO_WORKER_RUNS
    return NO_CHANNEL if served is not None and served.lacks(task.channel) else ""
