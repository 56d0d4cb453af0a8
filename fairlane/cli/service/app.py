"""`fairlane app list | show | cap | weight | limit`."""

import click

from dispatcher.model.pools import Cap
from fairlane.cli.base.arguments import CapText, LimitText, cap_words
from fairlane.cli.base.completion import app_names, channel_names
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.output import Output, output_option, say
from fairlane.cli.service.change import Trial, change_service, dry_run_option
from fairlane.cli.service.usage import list_usage, show_usage
from fairlane.figures.usage import apps

COLUMNS = (
    *("app", "weight", "cap", "cap_burst", "channel_caps"),
    *("tasks", "task_limit", "queued", "target_limit", "rate"),
)
LEAVING = ("cap_burst", "task_limit", "target_limit", "channel_caps", "weight")
"""Columns that are omitted first if there is no room."""

_name = click.argument("name", metavar="NAME", shell_complete=app_names)


@click.group(cls=CommandGroup)
def app() -> None:
    """Apps: their caps, their weights, and limits on what they may submit."""


@app.command("list")
@output_option
@click.pass_context
def list_apps(ctx: click.Context, output: Output) -> None:
    """List the apps that live tasks use or that have limits; * means every app without limits of its own.

    `queued` is the number that the limit applies to: targets of live tasks without an outcome (paused and scheduled
    tasks included), and targets that are expected but not published yet.
    """
    list_usage(ctx, output, apps, COLUMNS, LEAVING)


@app.command()
@_name
@output_option
@click.pass_context
def show(ctx: click.Context, output: Output, name: str) -> None:
    """Show one app: its caps, weight and limits, and its tasks and targets."""
    show_usage(ctx, output, apps, "app", name)


@app.command()
@_name
@click.argument("cap", metavar="RATE[:BURST]", type=CapText())
@click.option(
    "--channel", metavar="NAME", help="Cap only what the app sends on this channel.", shell_complete=channel_names
)
@dry_run_option
@click.pass_context
def cap(ctx: click.Context, trial: Trial, name: str, cap: Cap, channel: str | None) -> None:
    """Cap an app at RATE targets per second, with bursts of up to BURST targets; `none` as RATE removes the cap."""
    where = f" on channel {channel}" if channel else ""
    done = f"app {name}{where}: {cap_words(cap)}"
    change_service(ctx, trial, lambda service: service.cap_app(name, cap, channel), done)


@app.command()
@_name
@click.argument("number", metavar="W", type=float)
@dry_run_option
@click.pass_context
def weight(ctx: click.Context, trial: Trial, name: str, number: float) -> None:
    """Set an app's weight among the apps of each tier to W (1 before it is set). Used while `fairlane tier sharing` is
    `apps`."""
    change_service(ctx, trial, lambda service: service.weigh_app(name, number), f"app {name} weight={number:g}")


@app.command()
@_name
@click.option("--tasks", metavar="N", type=LimitText(), help="Maximum number of live tasks; `none` removes the limit.")
@click.option(
    "--targets", metavar="N", type=LimitText(), help="Maximum number of queued targets; `none` removes the limit."
)
@click.pass_context
def limit(ctx: click.Context, name: str, tasks: int | None, targets: int | None) -> None:
    """Limit how many live tasks and queued targets an app may have. Submissions over a limit are refused (exit code 5).

    The app '*' (quote it in the shell) means every app without limits of its own.
    """
    if tasks is None and targets is None:
        raise click.UsageError("Give --tasks, --targets or both.")
    with client_of(ctx) as client:
        client.limit_app(name, tasks=tasks, targets=targets)
    limits = {"tasks": tasks, "targets": targets}
    words = [
        f"{kind}={number:,}" if number else f"{kind}=none" for kind, number in limits.items() if number is not None
    ]
    say(f"app {name} limits: {' '.join(words)}")
