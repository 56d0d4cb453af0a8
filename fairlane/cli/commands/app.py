"""`fairlane app cap | limit | list | show | weight`."""

import click

from dispatcher.model.tier import TIERS
from fairlane.cli.base.arguments import DURATION, LimitText
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.options import app_names, channel_names
from fairlane.cli.base.output import output_option
from fairlane.cli.commands.changes import HANDLERS, Change, cap_argument, dry_run_options

_name = click.argument("app", metavar="NAME", shell_complete=app_names)


@click.group(cls=Noun, handlers=HANDLERS)
def app() -> None:
    """Apps: their caps, their weights, and limits on what they may submit."""


@app.command("cap", cls=Change, done="app {app}{on}: {cap}")
@_name
@cap_argument
@click.option(
    "--channel", metavar="NAME", help="Cap only what the app sends on this channel.", shell_complete=channel_names
)
@dry_run_options
def cap_app() -> None:
    """Cap an app at RATE targets per second, with bursts of up to BURST targets; `none` as RATE removes the cap."""


@app.command("limit")
@_name
@click.option("--tasks", metavar="N", type=LimitText(), help="Maximum number of live tasks; `none` removes the limit.")
@click.option(
    "--targets", metavar="N", type=LimitText(), help="Maximum number of queued targets; `none` removes the limit."
)
def limit_app() -> None:
    """Limit how many live tasks and queued targets an app may have. Submissions over a limit are refused (exit code 5).

    The app '*' (quote it in the shell) means every app without limits of its own.
    """


@app.command("list")
@output_option
def list_apps() -> None:
    """List the apps that live tasks use or that have limits; * means every app without limits of its own.

    `queued` is the number that the limit applies to: targets of live tasks without an outcome (paused and scheduled
    tasks included), and targets that are expected but not published yet.
    """


@app.command("show")
@_name
@output_option
def show_app() -> None:
    """Show one app: its caps, weight and limits, and its tasks and targets."""


@app.command("policy", handlers="fairlane.cli.handlers.access")
@_name
@click.option("--channel", "channels", multiple=True, metavar="NAME", help="A channel that it may use; repeat it.")
@click.option("--tier", type=click.Choice([*map(str, TIERS)]), help="The highest tier of its tasks.")
@click.option("--weight", type=float, help="The largest weight of a task.")
@click.option("--targets", type=click.IntRange(1), help="The largest audience of a task.")
@click.option("--tasks", metavar="N", type=LimitText(), help="Maximum number of live tasks; `none` removes the limit.")
@click.option("--ttl", "ttl_s", type=DURATION, help="The longest time to live of a task, such as 1h.")
@click.option("--requests", "requests_s", type=click.IntRange(1), help="Requests a second over all its keys.")
@output_option
def policy() -> None:
    """Show what an app's keys may ask for, or change it. What is not given stays.

    Without a policy its keys may use fcm and apns, which have credentials by app, any tier, and weights up to 1. The
    number of its live tasks is a limit for every client, and that of `fairlane app limit`.
    """


@app.command("weight", cls=Change, done="app {app} weight={weight:g}")
@_name
@click.argument("weight", metavar="W", type=float)
@dry_run_options
def weigh_app() -> None:
    """Set an app's weight among the apps of each tier to W (1 before it is set). Used while `fairlane tier sharing` is
    `apps`."""
