"""Draws a sample with rich."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from dispatcher.channels.names import sends_nothing
from dispatcher.model.values import NOTHING, count, limit, listed, percent
from dispatcher.model.view import Globals, TaskView, WorkerBeat
from dispatcher.model.view_form import GONE
from fairlane.screen.console import BLUE, GREEN, PURPLE, QUIET, RED, STATE_STYLES, TIER_STYLES
from fairlane.screen.fields import Kind
from fairlane.screen.sample import Sample, TierFigures
from fairlane.screen.table import Column, table_of

TIER = Column("tier", style=lambda tier: TIER_STYLES.get(tier, ""))
STATE = Column("state", kind=Kind.ID, style=lambda state: STATE_STYLES.get(state, ""))
_TASK_COLUMNS = (
    "task", TIER, "channel", STATE, Column("progress", kind=Kind.BAR), Column("sent", kind=Kind.FIGURE),
    Column("not_sent", "not sent", Kind.FIGURE), Column("total", kind=Kind.FIGURE), "rate", "eta_s", "weight",
)  # fmt: skip
_WORKER_COLUMNS = ("worker", STATE, "lanes", "in_flight", "buffered", "rate")
MIN_TASKS, MAX_CAPS = 3, 8
_OTHER_LINES = 14
"""Lines of the live view other than tasks and workers: title, tiers, headers, blank lines, notes on omitted rows."""
_MORE_WORKER_COLUMNS = ("sent", "uptime_s", "seen_s_ago", "host", "pid")
_LINE = "━"


@dataclass(frozen=True)
class OutcomeBar:
    """A bar of targets: green for sent ones, red for those that ended unsent, of which a single one is visible."""

    sent: int
    not_sent: int
    total: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = options.max_width / max(self.total, 1)
        # Counts of a view that is rebuilt may not fit.
        red = min(max(0, ceil(self.not_sent * cells)), options.max_width)
        green = min(max(0, int(self.sent * cells)), options.max_width - red)
        yield Text.assemble((_LINE * green, GREEN), (_LINE * red, RED))


def tiers_table(tiers: list[TierFigures], longest_waits_s: Mapping[str, float | None] | None = None) -> RenderableType:
    """Return the table of tiers. `longest_waits_s`: by tier, for an additional column."""
    columns: list[Column | str] = [TIER, "weight", "wanted", "actual", "rate", "backlog", "drain_s"]
    rows = [{**asdict(tier), "longest_wait_s": (longest_waits_s or {}).get(tier.tier)} for tier in tiers]
    return table_of(rows, columns if longest_waits_s is None else [*columns, "longest_wait_s"])


def tasks_table(tasks: Sequence[TaskView], max_rows: int) -> RenderableType:
    """Return a table of the first tasks, and how many more there are."""
    more = f"… and {len(tasks) - max_rows:,} more" if len(tasks) > max_rows else ""
    leaving = ("weight", "progress", "rate", "tier", "eta_s")
    return table_of(map(_task_row, tasks[:max_rows]), _TASK_COLUMNS, leaving, more)


def trials(tasks: Iterable[TaskView]) -> list[str]:
    """Return a line for each channel of the tasks that sends nothing."""
    return [trial for channel in sorted({task.channel for task in tasks}) if (trial := sends_nothing(channel))]


def _task_row(task: TaskView) -> dict[str, object]:
    counts = task.targets
    return {
        "task": task.id,
        "tier": task.tier,
        "channel": task.channel,
        "state": task.state,
        "progress": OutcomeBar(counts.sent, counts.not_sent, counts.total),
        "sent": counts.sent,
        "not_sent": counts.not_sent,
        "total": count(counts.total) + ("" if task.sealed or task.ended else "+"),
        "rate": task.rate,
        "eta_s": None if task.ended else task.eta_s,
        "weight": task.weight,
    }


def workers_table(workers: Sequence[WorkerBeat], more: Sequence[Mapping[str, object]] = ()) -> RenderableType:
    """Return the table of workers. `more`: additional fields of each, for the columns of `fairlane worker list`."""
    rows = list(map(_worker_row, workers))
    if not more:
        return table_of(rows, _WORKER_COLUMNS, ("buffered", "in_flight"))
    leaving = ("host", "pid", "uptime_s", "buffered", "in_flight", "lanes")
    rows = [{**fields, **row} for fields, row in zip(more, rows, strict=True)]
    return table_of(rows, (*_WORKER_COLUMNS, *_MORE_WORKER_COLUMNS), leaving)


def _worker_row(worker: WorkerBeat) -> dict[str, object]:
    return {
        "worker": worker.id,
        "state": worker.state,
        "lanes": worker.lanes,
        "in_flight": worker.in_flight,
        "buffered": worker.buffered,
        "rate": None if worker.state in GONE else worker.rate,
    }


def screen(sample: Sample, title: str, notes: list[str], height: int = 60) -> RenderableType:
    """Return the whole live view. If not all tasks fit in the height, those that have ended are omitted first."""
    capacity = f"{limit(sample.settings.capacity)} targets/s" if sample.settings.capacity else NOTHING
    head = Text.assemble((title, "bold"), f"   capacity {capacity}   now {count(sample.rate)} targets/s")
    alive = [worker for worker in sample.workers if worker.state not in GONE]
    caps = restraints(sample.settings)
    room = max(MIN_TASKS, height - _OTHER_LINES - len(caps) - len(alive) - len(notes))
    tasks = sample.tasks if len(sample.tasks) <= room else sorted(sample.tasks, key=lambda task: task.ended)
    parts: list[RenderableType] = [
        head,
        *caps,
        Text(),
        tiers_table(sample.tiers),
        Text(),
        tasks_table(tasks, room),
        Text(),
        workers_table(alive),
    ]
    parts += [Text()] if notes else []
    parts += [Text(f"· {note}", style=BLUE) for note in notes]
    return Group(*parts)


def restraints(settings: Globals) -> list[Text]:
    """Return caps and paused channels, one line each if there are any."""
    caps = listed([f"{pool} {limit(cap.rate)}" for pool, cap in sorted(settings.caps.items())], MAX_CAPS)
    lines = [Text(f"caps: {caps}", style=QUIET)] if caps else []
    if settings.paused_channels:
        lines.append(Text(f"paused channels: {', '.join(sorted(settings.paused_channels))}", style=PURPLE))
    if settings.flow_pauses:
        shown = (f"{flow} ({pause.kind})" for flow, pause in sorted(settings.flow_pauses.items())[:8])
        lines.append(Text(f"paused apps: {', '.join(shown)}", style=PURPLE))
    return lines


def line(sample: Sample) -> str:
    """Return the sample as one line, for logs and pipes."""
    shares = " ".join(f"{t.tier} {percent(t.actual)} (wanted {percent(t.wanted)})" for t in sample.tiers)
    pending = sum(task.targets.pending for task in sample.tasks)
    return f"{sample.rate:>7,.0f} targets/s  {shares}  {len(sample.tasks)} tasks, {pending:,} targets pending"
