"""`fairlane channel cap | check | list | pause | resume | show`."""

import click

from fairlane.cli.base.arguments import DURATION
from fairlane.cli.base.groups import Noun
from fairlane.cli.base.options import app_names, channel_names
from fairlane.cli.base.output import output_option
from fairlane.cli.commands.changes import HANDLERS, Change, cap_argument, dry_run_options

_name = click.argument("channel", metavar="NAME", shell_complete=channel_names)
_app = click.option(
    "--app", metavar="APP", shell_complete=app_names, help="Only this app on the channel; others stay as they are."
)


@click.group(cls=Noun, handlers=HANDLERS)
def channel() -> None:
    """Channels: their caps, pausing all tasks of a channel, and checking the credentials of apps."""


@channel.command("cap", cls=Change, done="channel {channel}: {cap}")
@_name
@cap_argument
@dry_run_options
def cap_channel() -> None:
    """Cap a channel at RATE targets per second, with bursts of up to BURST targets; `none` as RATE removes the cap."""


@channel.command(handlers="fairlane.cli.handlers.config")
@click.argument("name", metavar="NAME", type=click.Choice(("fcm", "apns")))
@click.option("--app", required=True, help="The app to check; the channel has settings for it.")
@click.option("--target", help="A device token to check, too.")
@output_option
def check() -> None:
    """Check whether an app may send through fcm or apns: credential, token, and a test request.

    FCM validates a message and sends nothing. APNs has no dry run: without --target it is asked about a token that does
    not exist; with --target the device gets a notification without a text, which nobody sees. The exact reason is shown
    if something fails. Asks the provider only, neither Pulsar nor Redis.
    """


@channel.command("list")
@output_option
def list_channels() -> None:
    """List the channels that live tasks use or that are configured.

    `queued` counts the targets that have no outcome yet, those of paused and scheduled tasks included.
    """


@channel.command("pause")
@_name
@_app
@click.option(
    "--for", "for_s", metavar="DURATION", type=DURATION, help="Resume after this time, such as 10m. Only with --app."
)
@click.option("--reason", metavar="TEXT", help="Shown wherever the pause is shown. Only with --app.")
@dry_run_options
def pause_channel() -> None:
    """Pause a channel, or one app on it, until `fairlane channel resume` or until --for has passed.

    Targets already in flight are still sent."""


@channel.command("resume")
@_name
@_app
@click.option(
    "--confirm-dead",
    is_flag=True,
    help="Confirm that the targets are invalid indeed, if a worker paused the app because the provider reported "
    "unusually many: for a day such reports do not pause it again. Only with --app.",
)
@dry_run_options
def resume_channel() -> None:
    """Resume a paused channel, or one app on it, whether an operator or a worker paused it.

    Without --app, an app that is paused on the channel stays paused."""


@channel.command("show")
@_name
@output_option
def show_channel() -> None:
    """Show one channel: whether it or apps on it are paused and why, its cap, and its targets in flight.

    `lowered_caps` has the apps and quota groups that may send less than their cap now, with the reason: halved (the
    provider asked to slow down), growing (after that), resting (a group that was not used begins slowly), ramp (a group
    reaches its cap within a minute after a rest).
    """
