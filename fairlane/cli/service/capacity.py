"""`fairlane capacity show | set`."""

import click

from backends.system_clock import SystemClock
from dispatcher.model.pools import Cap
from fairlane.cli.base.arguments import CapText
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.groups import CommandGroup
from fairlane.cli.base.output import Output, output_option
from fairlane.cli.service.change import Trial, change_service, dry_run_option
from fairlane.screen.sample import sample_of


@click.group(cls=CommandGroup)
def capacity() -> None:
    """The number of targets per second that all workers together may send."""


@capacity.command()
@output_option
@click.pass_context
def show(ctx: click.Context, output: Output) -> None:
    """Show the capacity and how much of it was used in the last three seconds.

    As JSON an unlimited capacity is 0, and `used` is then null.
    """
    with client_of(ctx) as client:
        sample = sample_of(client, SystemClock())
    settings = sample.settings
    fields = {
        "capacity": settings.capacity,
        "capacity_burst": settings.burst,
        "rate": round(sample.rate, 1),
        "used": round(sample.rate / settings.capacity, 4) if settings.capacity else None,
    }
    output.emit_record(fields)


@capacity.command("set")
@click.argument("rate", metavar="RATE[:BURST]", type=CapText("capacity"))
@dry_run_option
@click.pass_context
def set_capacity(ctx: click.Context, trial: Trial, rate: Cap) -> None:
    """Set the capacity to RATE targets/s, with bursts of up to BURST (default: RATE / 4); 0 means unlimited.

    It bounds what workers are granted. They send it within 2 s, so a provider may see 1.4 times RATE in a
    single second, and more after a stall. For a limit that holds at the provider, use `fairlane channel cap`.
    """
    done = f"capacity {rate.rate:,} targets/s" if rate.rate else "capacity unlimited"
    done += f", {rate.burst:,} at once" if rate.burst else ""
    change_service(ctx, trial, lambda service: service.set_capacity(*rate), done)
