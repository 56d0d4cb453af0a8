"""Changes of the service's settings on the command line, and their effects on the present tasks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from fairlane.cli.base.connect import client_of
from fairlane.cli.base.options import F, with_options
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from dispatcher.analysis.situation import Situation
    from fairlane.figures.what_if import Effect
    from producers.client import PushClient
    from producers.control.service_controls import ServiceControls

SHOWN = 20
"""Default number of rows in a table of affected tasks."""


@dataclass(frozen=True)
class Trial:
    """How a change is tried or made."""

    dry_run: bool
    """Whether the change is only tried."""
    limit: int | None
    """Number of affected tasks to show. None: SHOWN, all as JSON."""
    output: Output
    """How they are shown."""


def dry_run_option(command: F) -> F:
    """Give a command --dry-run, --limit and -o, passed to it as `trial`."""

    @wraps(command)
    def called(*args: Any, dry_run: bool, limit: int | None, output: Output, **rest: Any) -> Any:
        return command(*args, trial=Trial(dry_run, limit, output), **rest)

    dry = click.option(
        "--dry-run",
        is_flag=True,
        help="Change nothing; show the estimated finish of each task with and without the change.",
    )
    return with_options(dry, limit_option, output_option)(called)  # type: ignore[return-value]  # it has these options


limit_option = click.option(
    "--limit",
    type=click.IntRange(1),
    help=f"Maximum number of affected tasks shown.  [default: {SHOWN}; all with -o json]",
)


def change_service(ctx: click.Context, trial: Trial, change: "Callable[[ServiceControls], None]", done: str) -> None:
    """Change settings of the service and print `done`; with --dry-run only show what the change would do."""
    with client_of(ctx) as client:
        if not trial.dry_run:
            lacks_redis = client.change_service(change)
            say("\n".join(filter(None, (done, lacks_redis))))
            return
        before = situation(client)
        after = before._replace(settings=client.globals(after=change))
    show_effects(trial.output, before, after, trial.limit)


def situation(client: "PushClient") -> "Situation":
    """Return the live tasks, the settings, and the present send rates."""
    from backends.system_clock import SystemClock
    from dispatcher.analysis.situation import Situation, sent_rate

    return Situation(client.live_tasks(), client.globals(), sent_rate(client.workers()), SystemClock().wall_ms())


def effect_fields(before: "Situation", after: "Situation", limit: int | None) -> dict[str, Any]:
    """Return the most affected tasks for JSON: their finish times before and after."""
    from fairlane.figures.what_if import effects

    return _fields(effects(before, after), len(after.tasks), limit)


def show_effects(output: Output, before: "Situation", after: "Situation", limit: int | None) -> None:
    """Show the most affected tasks: their finish times before and after."""
    from fairlane.figures.what_if import effects

    changed, count = effects(before, after), len(after.tasks)
    if not (before.settings.capacity or before.measured_rate):
        say("the capacity is unlimited and nothing is being sent: finish times are known only for capped tasks")
    output.emit(_fields(changed, count, limit), lambda: _table(changed[: limit or SHOWN], len(changed)))
    if not output.as_json:
        say(f"{len(changed):,} of {count:,} live tasks would finish at another time; nothing was changed")


def _fields(effects: "Sequence[Effect]", count: int, limit: int | None) -> dict[str, Any]:
    rows = [_row(effect) for effect in effects[:limit]]
    return {"affected": len(effects), "unaffected": count - len(effects), "tasks": rows}


def _row(effect: "Effect") -> dict[str, Any]:
    times = {"eta_s": effect.eta_s, "eta_after_s": effect.eta_after_s}
    return {
        "id": effect.task,
        "app": effect.app,
        "tier": effect.tier,
        "pending": effect.pending,
        **{name: None if seconds is None else round(seconds, 1) for name, seconds in times.items()},
    }


def _table(effects: "Sequence[Effect]", count: int) -> Any:
    from fairlane.screen.table import Column, table_of

    more = f"and {count - len(effects):,} more" if count > len(effects) else ""
    times = (Column("eta_s", "done in"), Column("eta_after_s", "would be"))
    return table_of(map(_row, effects), ("id", "app", "tier", "pending", *times), ("app", "tier", "pending"), more)
