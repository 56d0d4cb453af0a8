"""`fairlane top`: tiers, tasks and workers, live."""

import time

import click

from fairlane.cli.base.arguments import seconds_between
from fairlane.cli.base.connect import client_of


@click.command()
@click.option("--every", type=seconds_between(0.1), default=0.5, help="Seconds between updates.")
@click.option("--count", type=click.IntRange(1), help="Stop after this many updates.")
@click.pass_context
def top(ctx: click.Context, every: float, count: int | None) -> None:
    """Watch tiers, tasks and workers live; quit with Ctrl-C. If output is not a terminal, print plain lines."""
    from backends.system_clock import SystemClock
    from fairlane.screen.console import console_of
    from fairlane.screen.render import trials
    from fairlane.screen.sample import sample_of
    from fairlane.screen.watch import Watch

    with client_of(ctx) as client, Watch(console_of(), "Fairlane", line_every_s=0.0) as watch:
        clock, updates = SystemClock(), 0
        while count is None or updates < count:
            updates += 1
            sample = sample_of(client, clock)
            watch.show(sample, trials(sample.tasks))
            if updates != count:
                time.sleep(every)
