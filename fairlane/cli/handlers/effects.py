"""Effects of a change on the present tasks: when each would finish, with and without it."""

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType

from backends.system_clock import SystemClock
from dispatcher.analysis.rates import sent_rate
from dispatcher.analysis.situation import Situation
from dispatcher.analysis.what_if import FinishChange, effects
from fairlane.cli.base.output import Output, say
from fairlane.cli.commands.changes import SHOWN
from fairlane.screen.table import Column, table_of
from producers.client import PushClient


def situation(client: PushClient) -> Situation:
    """Return the live tasks, the settings, and the present send rates."""
    return Situation(client.live_tasks(), client.globals(), sent_rate(client.workers()), SystemClock().wall_ms())


def effect_fields(before: Situation, after: Situation, limit: int | None) -> dict[str, Any]:
    """Return the most affected tasks for JSON: their finish times before and after."""
    return _fields(effects(before, after), len(after.tasks), limit)


def show_effects(output: Output, before: Situation, after: Situation, limit: int | None) -> None:
    """Show the most affected tasks: their finish times before and after."""
    changed, count = effects(before, after), len(after.tasks)
    if not (before.settings.capacity or before.measured_rate):
        say("the capacity is unlimited and nothing is being sent: finish times are known only for capped tasks")
    output.emit(_fields(changed, count, limit), lambda: _table(changed[: limit or SHOWN], len(changed)))
    if not output.as_json:
        say(f"{len(changed):,} of {count:,} live tasks would finish at another time; nothing was changed")


def _fields(changed: Sequence[FinishChange], count: int, limit: int | None) -> dict[str, Any]:
    rows = [_row(effect) for effect in changed[:limit]]
    return {"affected": len(changed), "unaffected": count - len(changed), "tasks": rows}


def _row(effect: FinishChange) -> dict[str, Any]:
    times = {"eta_s": effect.eta_s, "eta_after_s": effect.eta_after_s}
    return {
        "id": effect.task,
        "app": effect.app,
        "tier": effect.tier,
        "pending": effect.pending,
        **{name: None if seconds is None else round(seconds, 1) for name, seconds in times.items()},
    }


def _table(shown: Sequence[FinishChange], count: int) -> RenderableType:
    more = f"and {count - len(shown):,} more" if count > len(shown) else ""
    times = (Column("eta_s", "done in"), Column("eta_after_s", "would be"))
    return table_of(map(_row, shown), ("id", "app", "tier", "pending", *times), ("app", "tier", "pending"), more)
