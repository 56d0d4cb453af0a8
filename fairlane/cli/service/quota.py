"""`fairlane quota list | cap | join | leave`."""

import click

from dispatcher.model.pools import Cap, CapUnit, quota_pool
from fairlane.cli.base.arguments import CapText, cap_words
from fairlane.cli.base.completion import app_names, channel_names
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.output import Output, output_option
from fairlane.cli.service.change import Trial, change_service, dry_run_option

_group = click.argument("group", metavar="GROUP")
_channel = click.argument("channel", metavar="CHANNEL", shell_complete=channel_names)
_app = click.argument("app", metavar="APP", shell_complete=app_names)


@click.group(cls=CommandGroup)
def quota() -> None:
    """Quota groups: apps on channels that share one limit of their provider, such as the apps of an FCM project."""


@quota.command("list")
@output_option
@click.pass_context
def list_quotas(ctx: click.Context, output: Output) -> None:
    """List the quota groups: apps that share one cap, shown as CHANNEL/APP."""
    with client_of(ctx) as client:
        settings = client.globals()
    capped = {pool.removeprefix("quota/") for pool in settings.caps if pool.startswith("quota/")}
    rows = [
        {
            "name": group,
            "cap": settings.cap(quota_pool(group)).rate,
            "cap_burst": settings.cap(quota_pool(group)).burst,
            "unit": str(settings.unit(quota_pool(group))),
            "apps": sorted(flow for flow, name in settings.quotas.items() if name == group),
        }
        for group in sorted(capped | set(settings.quotas.values()))
    ]
    output.emit_rows(rows, ("name", "cap", "cap_burst", "unit", "apps"), ("cap_burst", "unit"))


@quota.command()
@_group
@click.argument("cap", metavar="RATE[:BURST]", type=CapText())
@click.option(
    "--unit",
    type=click.Choice([str(unit) for unit in CapUnit]),
    default=str(CapUnit.TARGET),
    show_default=True,
    help="What RATE and BURST count.",
)
@dry_run_option
@click.pass_context
def cap(ctx: click.Context, trial: Trial, group: str, cap: Cap, unit: str) -> None:
    """Limit a quota group to RATE targets, or requests, per second; `none` as RATE removes the cap.

    The provider sees at most 60 times RATE in any minute, and 1.05 times RATE in any second. After a minute of rest
    the group begins at a sixtieth of RATE and reaches it within a minute. With BURST, that many may be sent at once.
    A request of fcm and apns has one target; that of http, and of your own channels unless they say otherwise, an
    envelope.
    """
    words = cap_words(cap).replace("targets", f"{unit}s")
    change_service(ctx, trial, lambda service: service.cap_quota(group, cap, unit), f"quota group {group}: {words}")


@quota.command()
@_group
@_channel
@_app
@dry_run_option
@click.pass_context
def join(ctx: click.Context, trial: Trial, group: str, channel: str, app: str) -> None:
    """Add what APP sends on CHANNEL to quota group GROUP, creating it if needed, and remove it from any other group."""
    done = f"app {app} on channel {channel} is in quota group {group}"
    change_service(ctx, trial, lambda service: service.join_quota(group, channel, app), done)


@quota.command()
@_channel
@_app
@dry_run_option
@click.pass_context
def leave(ctx: click.Context, trial: Trial, channel: str, app: str) -> None:
    """Remove what APP sends on CHANNEL from its quota group. An empty group keeps its cap and has no effect."""
    done = f"app {app} on channel {channel} is in no quota group"
    change_service(ctx, trial, lambda service: service.leave_quota(channel, app), done)
