"""`fairlane channel list | show | cap | pause | resume`."""

import click

from dispatcher.model.service_settings import Cap
from fairlane.cli.base.arguments import CapText, cap_words
from fairlane.cli.base.completion import channel_names
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.output import Output, output_option
from fairlane.cli.service.change import Trial, change_service, dry_run_option
from fairlane.cli.service.usage import list_usage, show_usage
from fairlane.figures.usage import channels

COLUMNS = ("channel", "paused", "cap", "cap_burst", "tasks", "queued", "rate")

_name = click.argument("name", metavar="NAME", shell_complete=channel_names)


@click.group(cls=CommandGroup)
def channel() -> None:
    """Channels: their caps, and pausing all tasks of a channel."""


@channel.command("list")
@output_option
@click.pass_context
def list_channels(ctx: click.Context, output: Output) -> None:
    """List the channels that live tasks use or that are configured.

    `queued` counts the targets that have no outcome yet, those of paused and scheduled tasks included.
    """
    list_usage(ctx, output, channels, COLUMNS, leaving=["cap_burst"])


@channel.command()
@_name
@output_option
@click.pass_context
def show(ctx: click.Context, output: Output, name: str) -> None:
    """Show one channel: whether it is paused, its cap, and its targets in flight."""
    show_usage(ctx, output, channels, "channel", name)


@channel.command()
@_name
@click.argument("cap", metavar="RATE[:BURST]", type=CapText())
@dry_run_option
@click.pass_context
def cap(ctx: click.Context, trial: Trial, name: str, cap: Cap) -> None:
    """Limit a channel to RATE targets per second, with bursts of BURST targets; none removes the cap."""
    change_service(ctx, trial, lambda service: service.cap_channel(name, cap), f"channel {name}: {cap_words(cap)}")


@channel.command()
@_name
@dry_run_option
@click.pass_context
def pause(ctx: click.Context, trial: Trial, name: str) -> None:
    """Pause a channel until `fairlane channel resume`. Targets already in flight are still sent."""
    change_service(ctx, trial, lambda service: service.pause_channel(name, paused=True), f"channel {name} paused")


@channel.command()
@_name
@dry_run_option
@click.pass_context
def resume(ctx: click.Context, trial: Trial, name: str) -> None:
    """Resume a paused channel."""
    change_service(ctx, trial, lambda service: service.pause_channel(name, paused=False), f"channel {name} resumed")
