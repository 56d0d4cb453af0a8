"""Draws a sample with rich."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dispatcher.view import Globals, TaskView, WorkerBeat
from fairlane.screen.sample import Sample, TierFigures

COLORS = {"high": "red", "medium": "yellow", "low": "blue"}
STATE_COLORS = {
    "running": "green", "paused": "magenta", "failed": "red", "completed": "bright_black", "cancelled": "bright_black",
}  # fmt: skip


def percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.1%}"


def seconds(value: float | None) -> str:
    """A duration as a person would say it."""
    if value is None:
        return "-"
    whole_s, whole_m = round(value), round(value / 60)
    if whole_s < 60:
        return f"{whole_s} s"
    if whole_s < 3600:
        return f"{whole_s // 60} m {whole_s % 60:02} s"
    return f"{whole_m // 60} h {whole_m % 60:02} m"


def short_seconds(value: float | None) -> str:
    """The same, where parts of a second matter."""
    return seconds(value) if value is None or value >= 10 else f"{value:.2f} s"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        left = name in ("tier", "task", "worker", "state", "")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    return table


def tiers_table(tiers: list[TierFigures], longest_waits_s: Mapping[str, float | None] | None = None) -> Table:
    """longest_waits_s: by tier, for a column of its own."""
    names = ("tier", "weight", "wanted", "actual", "targets/s", "backlog", "drained in")
    table = _table(*names) if longest_waits_s is None else _table(*names, "longest wait")
    for tier in tiers:
        waits = [] if longest_waits_s is None else [short_seconds(longest_waits_s[tier.tier])]
        table.add_row(
            Text(tier.tier, style=COLORS[tier.tier]),
            f"{tier.weight / 1000:g}",
            percent(tier.wanted),
            percent(tier.actual),
            f"{tier.rate:,.0f}",
            f"{tier.backlog:,}",
            seconds(tier.drain_s),
            *waits,
        )
    return table


def tasks_table(tasks: list[TaskView], limit: int) -> Table:
    table = _table("task", "tier", "state", "", "done", "total", "targets/s", "ETA", "weight")
    for task in tasks[:limit]:
        done = task.targets.total - task.targets.pending
        table.add_row(
            task.id,
            Text(task.tier, style=COLORS[task.tier]),
            Text(task.state, style=STATE_COLORS.get(task.state, "")),
            ProgressBar(total=max(task.targets.total, 1), completed=done, width=24),
            f"{done:,}",
            f"{task.targets.total:,}" + ("" if task.sealed or task.ended else "+"),
            f"{task.rate:,.0f}",
            seconds(task.eta_s),
            f"{task.weight:g}",
        )
    if len(tasks) > limit:
        table.add_row(Text(f"… and {len(tasks) - limit:,} more", style="dim"))
    return table


def workers_table(workers: list[WorkerBeat]) -> Table:
    table = _table("worker", "state", "lanes", "buffered", "in flight", "targets/s")
    for worker in workers:
        table.add_row(
            worker.id,
            worker.state,
            f"{worker.lanes:,}",
            f"{worker.buffered:,}",
            f"{worker.in_flight:,}",
            f"{worker.rate:,.0f}",
        )
    return table


def screen(sample: Sample, title: str, notes: list[str], task_limit: int = 30) -> RenderableType:
    """The whole live view."""
    capacity = f"{sample.capacity:,} targets/s" if sample.capacity else "unlimited"
    head = Text.assemble((title, "bold"), f"   capacity {capacity}   now {sample.rate:,.0f} targets/s")
    alive = [worker for worker in sample.workers if worker.state not in ("stopped", "lost")]
    parts: list[RenderableType] = [
        head,
        *restraints(sample.settings),
        Text(),
        tiers_table(sample.tiers),
        Text(),
        tasks_table(sample.tasks, task_limit),
        Text(),
        workers_table(alive),
    ]
    parts += [Text()] if notes else []
    parts += [Text(f"· {note}", style="cyan") for note in notes]
    return Group(*parts)


def restraints(settings: Globals) -> list[Text]:
    """Caps and paused channels, a line each if there are any."""
    caps = ", ".join(f"{pool} {cap.rate:,}" for pool, cap in sorted(settings.caps.items())[:8])
    more = f" and {len(settings.caps) - 8} more" if len(settings.caps) > 8 else ""
    lines = [Text(f"caps: {caps}{more}", style="dim")] if caps else []
    if settings.paused_channels:
        lines.append(Text(f"paused channels: {', '.join(sorted(settings.paused_channels))}", style="magenta"))
    return lines


def line(sample: Sample) -> str:
    """One line for logs and pipes."""
    shares = " ".join(f"{t.tier} {percent(t.actual)} (wanted {percent(t.wanted)})" for t in sample.tiers)
    pending = sum(task.targets.pending for task in sample.tasks)
    return f"{sample.rate:>7,.0f} targets/s  {shares}  {len(sample.tasks)} tasks, {pending:,} targets pending"
