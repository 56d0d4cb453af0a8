"""Effects of a change on the present tasks: when each would finish, with and without it."""

from collections.abc import Sequence

from rich.console import RenderableType

from backends.system_clock import SystemClock
from dispatcher.analysis.situation import Situation
from dispatcher.analysis.what_if import UNKNOWN, WHY_UNKNOWN, FinishChange, effects
from fairlane.cli.base.output import Output, say
from fairlane.cli.commands.changes import SHOWN
from fairlane.figures.rows import effect_fields, effects_fields
from fairlane.screen.table import Column, table_of
from producers.client import PushClient


def situation(client: PushClient) -> Situation:
    """Return the live tasks, the settings, and the present send rates."""
    return Situation.of(client.live_tasks(), client.globals(), client.workers(), SystemClock().wall_ms())


def show_effects(output: Output, before: Situation, after: Situation, limit: int | None) -> None:
    """Show the most affected tasks: their finish times before and after."""
    changed, count = effects(before, after), len(after.tasks)
    if any(0.0 in (effect.eta_s, effect.eta_after_s) for effect in changed):
        say(f"{WHY_UNKNOWN} Set one: fairlane capacity set RATE")
    output.emit(effects_fields(changed, count, limit), lambda: _table(changed[: limit or SHOWN], len(changed)))
    if not output.as_json:
        say(f"{len(changed):,} of {count:,} live tasks would finish at another time; nothing was changed")


def _table(shown: Sequence[FinishChange], count: int) -> RenderableType:
    more = f"and {count - len(shown):,} more" if count > len(shown) else ""
    times = (Column("eta_s", "done in"), Column("eta_after_s", "would be"))
    leaving = ("app", "tier", "pending")
    rows = [effect_fields(effect) for effect in shown]
    for row in rows:
        row |= {time: UNKNOWN for time in ("eta_s", "eta_after_s") if row[time] == 0}
    return table_of(rows, ("id", *leaving, *times), leaving, more)
