"""`fairlane capacity show | set`."""

import click

from fairlane.cli.connect import client_of
from fairlane.cli.live import settled_sample
from fairlane.cli.output import Output, output_option
from fairlane.cli.service import Trial, change_service, dry_run_option


@click.group()
def capacity() -> None:
    """What all workers together may send, in targets per second."""


@capacity.command()
@output_option
@click.pass_context
def show(ctx: click.Context, output: Output) -> None:
    """The capacity, and what is used of it (takes a second to measure)."""
    with client_of(ctx) as client:
        sample = settled_sample(client)
    fields = {
        "capacity": sample.capacity,
        "burst": sample.settings.burst,
        "rate": round(sample.rate, 1),
        "used": round(sample.rate / sample.capacity, 4) if sample.capacity else None,
    }
    output.emit_record(fields)


@capacity.command("set")
@click.argument("targets_per_s", metavar="RATE", type=click.IntRange(0))
@click.option("--burst", type=click.IntRange(1), help="Targets sent at once; a quarter of a second's worth by default.")
@dry_run_option
@click.pass_context
def set_capacity(ctx: click.Context, trial: Trial, targets_per_s: int, burst: int | None) -> None:
    """Set the capacity to RATE targets per second; 0 means unlimited."""
    done = f"capacity {targets_per_s:,} targets/s" if targets_per_s else "capacity unlimited"
    done += f", {burst:,} at once" if burst else ""
    change_service(ctx, trial, lambda service: service.set_capacity(targets_per_s, burst or 0), done)
