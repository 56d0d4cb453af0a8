"""The commands of `python -m benchmarks` that start an estate of their own."""

import click

from benchmarks.measured import Benchmark, measured, number_option
from fairlane.cli.base.output import say

FAULTS = ("bookie-killed", "bookie-stopped", "broker-killed", "broker-drained", "brokers-load")


@click.command("estate-faults")
@click.option("--fault", "faults", multiple=True, type=click.Choice(FAULTS), help="Only these; several are possible.")
@measured
def estate_faults(faults: tuple[str, ...]) -> Benchmark:
    """Make faults of an estate of three bookies and two brokers beside 32 lanes, each published to 20 times a second.

    Shows for each fault the longest pause of any lane, and the messages that are lost or stored twice; for a drain also
    the bundles that were left behind. Last come the looks at the load of three brokers.
    """
    from benchmarks.estate.faults import run

    chosen = [name for name in FAULTS if name in faults] or list(FAULTS)
    return "estate-faults", lambda settings, seed: run(settings, chosen, seed, say)


@click.command("estate-day")
@number_option("--minutes", min_value=1, max_value=600, default=30, text="Duration of the load.")
@measured
def estate_day(minutes: int) -> Benchmark:
    """Submit and send 500 targets a second while a bookie and a broker are killed, one is slow, and one is added.

    Shows the targets that were lost or sent twice, and how many were in flight when something happened.
    """
    from benchmarks.estate.endurance import day

    return f"estate-day {minutes} min", lambda settings, _seed: day(settings, minutes, say)


@click.command("estate-sizes")
@number_option("--targets", "count", min_value=10_000, default=2_000_000, text="Number of targets.")
@number_option("--chunk", min_value=1, max_value=500, default=500, text="Targets per envelope.")
@measured
def estate_sizes(count: int, chunk: int) -> Benchmark:
    """Compare what `fairlane tune cluster` predicts with an estate that carries the load of `throughput`.

    Shows bytes per envelope to each bookie, and CPU per envelope of brokers and bookies: measured and predicted.
    """
    from benchmarks.estate.sizes import run
    from benchmarks.throughput import Load

    return f"estate-sizes chunk {chunk}", lambda settings, seed: run(settings, Load(chunk, count, seed), say)
