"""`fairlane simulate`: scheduler, engine and ledger as they ship, under a virtual clock; no server is needed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fairlane.cli.base.arguments import HOURS, NumberBetween
from fairlane.cli.base.groups import CommandOrGroup, OwnArgument
from fairlane.cli.base.output import output_option, report_option
from fairlane.floors import loaded
from lab.simulator.estate.shedder_cases import BUNDLES, CASES, MAX_BUNDLES, Usage
from lab.simulator.estate.shedders import WEIGHTS, ShedderSettings

PICTURES = ("shares", "tasks", "task-shares")
MAX_NODES = 200
_MODELS = "lab.cli.handlers.models"


def _scenarios(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  # click's
    names = loaded("lab.simulator.scenario.library:names")()
    return [name for name in (*names, *simulate.commands) if name.startswith(incomplete)]


@click.group(
    cls=CommandOrGroup,
    handlers="lab.cli.handlers.simulate",
    subcommand_metavar="| MODEL [OPTIONS]",
)
@click.argument("scenario", cls=OwnArgument, metavar="[FILE|NAME]", required=False, shell_complete=_scenarios)
@click.option("--list", "listed", is_flag=True, help="List the scenarios that come with Fairlane.")
@click.option("--seed", type=click.IntRange(0), default=1, help="Seed of all random choices.")
@click.option("--seeds", type=click.IntRange(1), help="Run this many seeds, starting at --seed, on all cores.")
@click.option("--processes", type=click.IntRange(1), help="Processes for --seeds, instead of one per core.")
@report_option("Output format.")
@click.option(
    "--picture",
    "pictures",
    type=(click.Choice(PICTURES), click.Path(dir_okay=False, path_type=Path)),
    multiple=True,
    metavar="KIND FILE",
    help=f"Write a picture (SVG); KIND is {', '.join(PICTURES[:-1])} or {PICTURES[-1]}. Can be repeated.",
)
def simulate() -> None:
    """Run a scenario under a virtual clock: tasks arrive, workers join, leave, stall and die, calls fail.

    FILE is a scenario in YAML. NAME is one that --list prints, among them random and random-large (generated from the
    seed). The same seed gives the same run. Exits with 1 if an invariant is violated, and says how to run it again.

    MODEL is one of the commands below, which simulate parts of Pulsar and BookKeeper instead.
    """


@simulate.command(handlers=_MODELS)
@click.option(
    "--ratio",
    "ratios",
    type=click.FloatRange(0, 1),
    multiple=True,
    help="A bookkeeperClientQuarantineRatio to simulate beside 1.0: the probability that a broker quarantines a "
    "failing bookie. Repeatable.  [default: 0, 0.1, 0.2, 0.3, 0.5, 0.7]",
)
@click.option("--bookies", type=click.IntRange(1, MAX_NODES), default=12, help="Number of bookies.")
@click.option(
    "--brokers", "clients", type=click.IntRange(1, MAX_NODES), default=24, help="Number of brokers, which write."
)
@click.option("--ensemble", type=click.IntRange(1, MAX_NODES), default=2, help="Bookies of a ledger.")
@click.option("--inflow", type=click.FloatRange(0, min_open=True), default=1_440.0, help="MB/s over all bookies.")
@click.option(
    "--capacity",
    type=click.FloatRange(0, min_open=True),
    help="MB/s that a bookie takes without errors.  [default: 1.25 times its share of the inflow]",
)
@click.option("--quarantine-minutes", type=click.IntRange(1), default=30, help="Duration of a quarantine.")
@click.option("--hours", type=HOURS, default=24.0, help="Simulated hours.")
@click.option("--seed", type=click.IntRange(0), default=1, help="First seed of all random choices.")
@click.option("--seeds", type=click.IntRange(1, 1_000), default=10, help="Number of seeds; figures are means.")
@output_option
def quarantine() -> None:
    """Simulate BookKeeper's quarantine: a broker that counts errors of a bookie writes to others for half an hour.

    With the default ratio of 1.0 all brokers leave an overloaded bookie at the same time and return at the same time,
    and load swings. Shows, for each ratio, the standard deviation of the bookies' inflow (MB/s), the minutes above
    capacity (summed over bookies), and the number of quarantines. At six random moments of a day each bookie is
    weak for a quarter of an hour, with two thirds of its capacity.
    """


def _clusters(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> list[list[Usage]]:
    try:
        return [[tuple(map(float, usage.split("/"))) for usage in text.split(",")] for text in texts]
    except ValueError:
        raise click.BadParameter("write numbers with commas between them, as in 80,10,10", ctx, param) from None


def _number(setting: str, largest: float, text: str) -> Callable[[Any], Any]:
    """Return the option of one of the shedders' settings."""
    default = getattr(ShedderSettings(), setting)
    return click.option(f"--{setting}", type=NumberBetween(0, largest), default=default, help=text)


@simulate.command(handlers=_MODELS)
@click.option("--case", "cases", type=click.Choice(list(CASES)), multiple=True, help="Only this case. Repeatable.")
@click.option(
    "--usage",
    "clusters",
    multiple=True,
    metavar="N,N,…",
    callback=_clusters,
    help="A cluster of yours instead: the CPU of each broker in per cent, or, with slashes between them, its "
    f"{', '.join(WEIGHTS)}, as in 80/20/40,10,10. Repeatable.",
)
@click.option("--bundles", type=click.IntRange(1, MAX_BUNDLES), default=BUNDLES, help="Bundles of each busy broker.")
@click.option("--hours", type=HOURS, default=2.0, help="Simulated hours.")
@click.option(
    "--weight",
    "weights",
    type=(click.Choice(list(WEIGHTS)), NumberBetween(0, 100)),
    multiple=True,
    metavar="RESOURCE N",
    help=f"Weight of {', '.join(WEIGHTS)} in a broker's usage, which is the largest of the weighted ones. "
    "Repeatable.  [default: 1, and 0 for direct-memory]",
)
@_number("threshold", 100, "Points above the mean at which ThresholdShedder sheds.")
@_number("history", 1, "Weight of the past in the usages that ThresholdShedder compares.")
@_number(
    "overloaded", 100, "Usage in per cent at which OverloadShedder sheds, and above which a broker gets no bundles."
)
@output_option
def shedders() -> None:
    """Simulate Pulsar's ThresholdShedder (its default), OverloadShedder and AvgShedder, side by side, on uneven load.

    Without options: the cases in which ThresholdShedder is known to leave load uneven (PIP-220), a skewed cluster, and
    one with overloaded brokers. "uneven" is the standard deviation of the brokers' usage as a part of its mean.
    """
