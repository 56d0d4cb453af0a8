"""`fairlane capacity show | set`."""

import click

from fairlane.cli.connect import client_of
from fairlane.cli.live import settled_sample
from fairlane.cli.output import Output, output_option, say


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
        "rate": round(sample.rate, 1),
        "used": round(sample.rate / sample.capacity, 4) if sample.capacity else None,
    }
    output.emit_record(fields)


@capacity.command("set")
@click.argument("targets_per_s", metavar="N", type=click.IntRange(0))
@click.pass_context
def set_capacity(ctx: click.Context, targets_per_s: int) -> None:
    """Set the capacity to N targets per second; 0 means unlimited."""
    with client_of(ctx) as client:
        client.set_capacity(targets_per_s)
    say(f"capacity {targets_per_s:,} targets/s" if targets_per_s else "capacity unlimited")
