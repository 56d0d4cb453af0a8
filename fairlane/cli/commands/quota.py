"""`fairlane quota cap | join | leave | list`."""

import click

from dispatcher.model.pools import CapUnit
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.options import app_names, channel_names
from fairlane.cli.base.output import output_option
from fairlane.cli.commands.changes import HANDLERS, Change, cap_argument, dry_run_options

_group = click.argument("group", metavar="GROUP")
_channel = click.argument("channel", metavar="CHANNEL", shell_complete=channel_names)
_app = click.argument("app", metavar="APP", shell_complete=app_names)


@click.group(cls=Noun, handlers=HANDLERS)
def quota() -> None:
    """Quota groups: apps on channels that share one limit of their provider, such as the apps of an FCM project."""


@quota.command("cap", cls=Change, done="quota group {group}: {cap}")
@_group
@cap_argument
@click.option(
    "--unit",
    type=click.Choice([str(unit) for unit in CapUnit]),
    default=str(CapUnit.TARGET),
    show_default=True,
    help="What RATE and BURST count.",
)
@dry_run_options
def cap_quota() -> None:
    """Limit a quota group to RATE targets, or requests, per second; `none` as RATE removes the cap.

    The provider sees at most 60 times RATE in any minute, and 1.05 times RATE in any second. After a minute of rest
    the group begins at a sixtieth of RATE and reaches it within a minute. With BURST, that many may be sent at once.
    A request of fcm and apns has one target; that of http, and of your own channels unless they say otherwise, an
    envelope.
    """


@quota.command("join", cls=Change, done="app {app} on channel {channel} is in quota group {group}")
@_group
@_channel
@_app
@dry_run_options
def join_quota() -> None:
    """Add what APP sends on CHANNEL to quota group GROUP, creating it if needed, and remove it from any other group."""


@quota.command("leave", cls=Change, done="app {app} on channel {channel} is in no quota group")
@_channel
@_app
@dry_run_options
def leave_quota() -> None:
    """Remove what APP sends on CHANNEL from its quota group. An empty group keeps its cap and has no effect."""


@quota.command("list")
@output_option
def list_quotas() -> None:
    """List the quota groups: apps that share one cap, shown as CHANNEL/APP."""
