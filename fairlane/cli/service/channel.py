"""`fairlane channel list | show | check | cap | pause | resume`."""

import click

from dispatcher.model.pools import Cap
from dispatcher.model.values import duration
from fairlane.cli.base.arguments import DURATION, CapText, cap_words
from fairlane.cli.base.completion import app_names, channel_names
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.invocation import Invocation, pass_invocation
from fairlane.cli.base.output import Output, output_option, say
from fairlane.cli.service.change import Trial, change_service, dry_run_option
from fairlane.cli.service.usage import list_usage, show_usage
from fairlane.figures.usage import channels

COLUMNS = ("channel", "paused", "paused_apps", "cap", "cap_burst", "tasks", "queued", "rate")

_name = click.argument("name", metavar="NAME", shell_complete=channel_names)
_app = click.option(
    "--app", metavar="APP", shell_complete=app_names, help="Only this app on the channel; others stay as they are."
)


@click.group(cls=CommandGroup)
def channel() -> None:
    """Channels: their caps, pausing all tasks of a channel, and checking the credentials of apps."""


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
    """Show one channel: whether it or apps on it are paused and why, its cap, and its targets in flight.

    `lowered_caps` has the apps and quota groups that may send less than their cap now, with the reason: halved (the
    provider asked to slow down), growing (after that), resting (a group that was not used begins slowly), ramp (a group
    reaches its cap within a minute after a rest).
    """
    show_usage(ctx, output, channels, "channel", name)


@channel.command()
@click.argument("name", metavar="NAME", type=click.Choice(("fcm", "apns")))
@click.option("--app", required=True, help="The app to check; the channel has settings for it.")
@click.option("--target", help="A device token to check, too.")
@output_option
@pass_invocation
def check(invocation: Invocation, output: Output, name: str, app: str, target: str | None) -> None:
    """Check whether an app may send through fcm or apns: credential, token, and a test request.

    FCM validates a message and sends nothing. APNs has no dry run: without --target it is asked about a token that does
    not exist; with --target the device gets a notification without a text, which nobody sees. The exact reason is shown
    if something fails. Asks the provider only, neither Pulsar nor Redis.
    """
    import asyncio

    from backends.extras import require_packages

    require_packages("push", "pycurl", "certifi", "google.auth", "cryptography")
    from consumers.delivery.push.check import check_app

    values = invocation.settings().channel_settings().get(name, {})
    result = asyncio.run(check_app(name, values, app, target))
    output.emit_record({field: getattr(result, field) for field in result.__struct_fields__})
    say(f"{app} may send through {name}" + (" to this target" if target else ""))


@channel.command()
@_name
@click.argument("cap", metavar="RATE[:BURST]", type=CapText())
@dry_run_option
@click.pass_context
def cap(ctx: click.Context, trial: Trial, name: str, cap: Cap) -> None:
    """Cap a channel at RATE targets per second, with bursts of up to BURST targets; `none` as RATE removes the cap."""
    change_service(ctx, trial, lambda service: service.cap_channel(name, cap), f"channel {name}: {cap_words(cap)}")


@channel.command()
@_name
@_app
@click.option(
    "--for", "for_s", metavar="DURATION", type=DURATION, help="Resume after this time, such as 10m. Only with --app."
)
@click.option("--reason", metavar="TEXT", help="Shown wherever the pause is shown. Only with --app.")
@dry_run_option
@click.pass_context
def pause(
    ctx: click.Context, trial: Trial, name: str, app: str | None, for_s: float | None, reason: str | None
) -> None:
    """Pause a channel, or one app on it, until `fairlane channel resume` or until --for has passed.

    Targets already in flight are still sent."""
    if app is None:
        if for_s is not None or reason:
            raise click.UsageError("--for and --reason need --app: only the pause of one app has an end and a reason.")
        change_service(ctx, trial, lambda service: service.pause_channel(name, paused=True), f"channel {name} paused")
        return
    until = "" if for_s is None else f" for {duration(for_s)}"
    done = f"app {app} paused on channel {name}{until}"
    change_service(ctx, trial, lambda service: service.pause_flow(name, app, for_s, reason or ""), done)


@channel.command()
@_name
@_app
@click.option(
    "--confirm-dead",
    is_flag=True,
    help="Confirm that the targets are invalid indeed, if a worker paused the app because the provider reported "
    "unusually many: for a day such reports do not pause it again. Only with --app.",
)
@dry_run_option
@click.pass_context
def resume(ctx: click.Context, trial: Trial, name: str, app: str | None, *, confirm_dead: bool) -> None:
    """Resume a paused channel, or one app on it, whether an operator or a worker paused it.

    Without --app, an app that is paused on the channel stays paused."""
    if app is None:
        if confirm_dead:
            raise click.UsageError("--confirm-dead needs --app: only one app on a channel is suspected.")
        change_service(ctx, trial, lambda service: service.pause_channel(name, paused=False), f"channel {name} resumed")
        return
    done = f"app {app} resumed on channel {name}"
    change_service(ctx, trial, lambda service: service.resume_flow(name, app, confirm_dead=confirm_dead), done)
