"""`fairlane task`: submit, show and change push tasks."""

import click

from dispatcher.model.tier import Tier
from dispatcher.model.view import STATES
from fairlane.cli.base.arguments import DURATION, TIME, Assignment
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.options import app_names, channel_names, task_argument, task_filters, task_ids, with_options
from fairlane.cli.base.output import output_option, rows_option
from fairlane.cli.commands.changes import limit_option
from producers.control.task_changes import LIVE_STATES

CONTROLS = ("weight", "tier", "cap", "paused")
"""Fields of `task set`."""
_SUBMIT = "fairlane.cli.handlers.submit"
_WHY = "fairlane.cli.handlers.why"
_CHANGE = "fairlane.cli.handlers.change_tasks"
_asked = with_options(
    task_filters("Live", LIVE_STATES),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation when filters select the tasks."),
    click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
    limit_option,
    output_option,
)
_many = with_options(click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=task_ids), _asked)
_no_wait = click.option("--no-wait", is_flag=True, help="Do not wait for the outcomes of the targets in flight.")
_reason = click.option("--reason", required=True, metavar="TEXT", help="Reason, shown with the state of the task.")


def _ids_and_fields(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    fields = Assignment(*CONTROLS).shell_complete(ctx, param, incomplete)
    return [str(field.value) for field in fields] + task_ids(ctx, param, incomplete)


@click.group(cls=Noun, handlers="fairlane.cli.handlers.task")
def task() -> None:
    """Submit, inspect and change push tasks."""


@task.command(handlers=_SUBMIT)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option("--id", "task_id", help="Id of the task; submitting it again with the same targets is safe.")
@click.option("--app", help="The app that owns the task.", shell_complete=app_names)
@click.option("--tier", type=click.Choice([str(tier) for tier in Tier]), default="medium", help="How urgent it is.")
@click.option(
    "--channel",
    shell_complete=channel_names,
    help="Channel that delivers it: fcm, apns, http or your own; for trials log or null, which send nothing.",
)
@click.option("--title", help="Title of the message.")
@click.option("--body", help="Body of the message.")
@click.option("--collapse", metavar="TEXT", help="A device shows only the last message with the same text here.")
@click.option("--category", metavar="NAME", help="Notification channel (Android) or category (APNs).")
@click.option(
    "--provider-ttl",
    type=DURATION,
    help="How long the provider keeps the message for an unreachable device.  [default: what is left of --ttl]",
)
@click.option(
    "--options", metavar="FILE|JSON", help='Further fields of the provider\'s message: {"fcm": {"android": {…}}}.'
)
@click.option(
    "--locales", metavar="FILE|JSON", help='Texts by language, chosen by a column `lang`: {"de": {"title": "Hallo"}}.'
)
@click.option(
    "--targets",
    metavar="FILE|-",
    help="CSV (a column `target` or `token`; other columns become variables), JSON (an array, or one value per line), "
    "or one target per line; - is standard input.",
)
@click.option(
    "--format",
    type=click.Choice(["auto", "csv", "json", "lines"]),
    default="auto",
    help="Format of --targets; `auto` decides by the name and the first line.",
)
@click.option("--unique", is_flag=True, help="Remove duplicate targets; takes 110 bytes of memory per target.")
@click.option("--allow-empty", is_flag=True, help="Allow a task without targets, which is refused otherwise.")
@click.option(
    "--expected",
    type=click.IntRange(0),
    help="Expected number of targets; decides the size of envelopes, and whether a small low task shares a lane.  "
    "[default: counted for a file]",
)
@click.option(
    "--chunk",
    type=click.IntRange(1, 500),
    help="Targets per envelope (one Pulsar message).  [default: chosen from tier and expected targets]",
)
@click.option("--ttl", type=DURATION, help="Targets not sent after this time expire: 90s, 1h, 2d.")
@click.option("--at", type=TIME, help="Start time: ISO 8601 (local time unless it names a zone), or +15m from now.")
@click.option("--weight", type=float, help="Relative share of capacity among the tasks of its tier.  [default: 1]")
@click.option("--cap", metavar="RATE[:BURST]", help="Rate limit of this task in targets/s, and the size of a burst.")
@click.option(
    "--unknown",
    type=click.Choice(["retry", "give_up"]),
    default="retry",
    show_default=True,
    help="What to do if the provider may have taken a target but did not answer: try it again (it may come twice), or "
    "let it fail.",
)
@click.option(
    "--retry-for",
    type=DURATION,
    help="Try a target again for at most this long after its first call; pauses do not count.  [default: no limit]",
)
@click.option("--hold", is_flag=True, help="Start sending only once all targets are stored.")
@click.option(
    "--first",
    type=click.IntRange(1),
    metavar="N",
    help="Send to the first N targets and wait for `fairlane task resume`. With --hold, start this only once all are "
    "stored.",
)
@click.option("--strict", is_flag=True, help="Refuse tasks whose channel no live worker serves; without it, only warn.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Create nothing: read and check the whole audience and print what would be accepted. Needs no server.",
)
@click.option(
    "--sample",
    type=click.IntRange(1, 1_000),
    metavar="N",
    help="With --dry-run: print the requests of the first N targets of each language, but for the credentials.",
)
@click.option("--target", metavar="T", help="With --dry-run: print the request of this target.")
@output_option
def submit() -> None:
    """Submit tasks: from YAML or JSON FILEs, or one task from the options.

    A FILE has the fields of one task (id, app, tier, message, ttl_s, ..., targets), or a list of such under `tasks`.

    \b
    fairlane task submit examples/tasks.yaml
    fairlane task submit --app shop --tier high --channel fcm --title Hi --body "50 % off" --targets devices.csv
    fairlane task submit sale.yaml --dry-run --sample 1
    """


@task.command("list")
@task_filters("Only", STATES)
@click.option("--limit", type=click.IntRange(1), default=100, help="Maximum number of tasks.")
@click.option("--cursor", help="Continue where an earlier list ended (it printed the cursor on stderr).")
@click.option("--all", "everything", is_flag=True, help="No limit.")
@output_option
def list_tasks() -> None:
    """List tasks, newest first, including those that ended in the last 16 days."""


@task.command()
@task_argument
@output_option
def show() -> None:
    """Show one task: state, controls, targets by outcome, rate, ETA and present message."""


@task.command()
@task_argument
@click.option("--timeout", type=DURATION, help="Give up after this long (exit code 4); the task goes on.")
@click.option("--fail-on-failures", is_flag=True, help="Exit code 1 also if targets of a completed task failed.")
@output_option
def wait() -> None:
    """Wait until every target has an outcome. Shows progress on a terminal.

    Exit code 0 if the task completed, even if targets of it failed; 1 if it was cancelled, expired or failed (`reason`
    says why). With --fail-on-failures, targets that are invalid (no such address any more) do not count as failed.
    """


@task.command(handlers=_WHY)
@task_argument
@output_option
def why() -> None:
    """Show where the task's time went: the time of each cause, and what would reduce it. The times add up to the
    task's age."""


@task.command()
@task_argument
@click.option("--by-reason", is_flag=True, help="Count the failures of each reason, with an example.")
@rows_option
@output_option
def failures() -> None:
    """List the targets that failed or are invalid, with the reason."""


@task.command()
@task_argument
@click.option("--target", help="Only the outcome of this target, if records name it.")
@rows_option
@output_option
def outcomes() -> None:
    """List the final outcomes of the targets, with the provider's id of each message where it is known.

    They come from the outcome records of the last 14 days. These always name invalid targets, and others only if the
    workers' setting journal.targets is all. Writer, sequence and position say which target of the task it is. Ids of
    FCM are there if the workers' setting channels.fcm.keep_ids is on. A target may be listed twice: the first counts.
    """


@task.command(handlers=_CHANGE)
@_many
def pause() -> None:
    """Pause tasks until `resume`: either the given ids, or all live tasks that match the filters."""


@task.command(handlers=_CHANGE)
@_many
def resume() -> None:
    """Resume paused tasks: either the given ids, or all that match the filters."""


@task.command(handlers=_CHANGE)
@_no_wait
@_many
def cancel() -> None:
    """Cancel tasks: targets not sent yet end as cancelled. Prints the number of targets in flight."""


@task.command(handlers=_CHANGE)
@_reason
@_no_wait
@_many
def stop() -> None:
    """Stop tasks and record why: like `cancel`, but they end as failed."""


@task.command(handlers=_CHANGE)
@_reason
@_no_wait
@_many
def close() -> None:
    """Force stuck tasks to end, for example if envelopes were lost. `fairlane doctor` lists them.

    Also works after a cancel or a stop. Within 30 s the open targets end as cancelled, and the task as failed.
    """


@task.command("set", handlers=_CHANGE)
@click.argument("words", metavar="[ID]... FIELD=VALUE...", nargs=-1, required=True, shell_complete=_ids_and_fields)
@_asked
def set_controls() -> None:
    """Change running tasks: weight=2 tier=high cap=100 (targets/s; cap=100:20 allows 20 at once, cap=none removes it)
    paused=yes.

    \b
    fairlane task set ID weight=3
    fairlane task set --app shop --tier low weight=0.5 --yes
    """


@task.command()
@task_argument
@click.option("--message", required=True, metavar="FILE|JSON|TEXT", help="A JSON file, a JSON object, or a text.")
@output_option
def edit() -> None:
    """Change the message for all targets of a task not sent yet, retries included. A plain text becomes the body.

    \b
    fairlane task edit ID --message '{"title": "Sale", "body": "60 % off"}'
    fairlane task edit ID --message new.json
    """
