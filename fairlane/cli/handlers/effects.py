"""Effects of a change on the present tasks: when each would finish, with and without it."""

from collections.abc import Sequence

from rich.console import RenderableType

from backends.system_clock import SystemClock
from dispatcher.analysis.rates import sent_rate
from dispatcher.analysis.situation import Situation
from dispatcher.analysis.what_if import FinishChange, effects
from fairlane.cli.base.output import Output, say
from fairlane.cli.commands.changes import SHOWN
from fairlane.figures.rows import effect_fields, effects_fields
from fairlane.screen.table import Column, table_of
from producers.client import PushClient


def situation(client: PushClient) -> Situation:
    """Return the live tasks, the settings, and the present send rates."""
    return Situation(client.live_tasks(), client.globals(), sent_rate(client.workers()), SystemClock().wall_ms())


def show_effects(output: Output, before: Situation, after: Situation, limit: int | None) -> None:
    """Show the most affected tasks: their finish times before and after."""
    changed, count = effects(before, after), len(after.tasks)
    if not (before.settings.capacity or before.measured_rate):
        say("the capacity is unlimited and nothing is being sent: finish times are known only for capped tasks")
    output.emit(effects_fields(changed, count, limit), lambda: _table(changed[: limit or SHOWN], len(changed)))
    if not output.as_json:
        say(f"{len(changed):,} of {count:,} live tasks would finish at another time; nothing was changed")


def _table(shown: Sequence[FinishChange], count: int) -> RenderableType:
    more = f"and {count - len(shown):,} more" if count > len(shown) else ""
    times = (Column("eta_s", "done in"), Column("eta_after_s", "would be"))
    leaving = ("app", "tier", "pending")
    return table_of(map(effect_fields, shown), ("id", *leaving, *times), leaving, more)
