"""`fairlane simulate shedders`: what Pulsar's load shedders make of a cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from fairlane.cli.base.arguments import HOURS, NumberBetween
from fairlane.cli.base.options import with_options
from fairlane.cli.base.output import Output, output_option
from lab.simulator.estate.shedder_cases import BUNDLES, CASES, MAX_BUNDLES, Usage, compare_shedders
from lab.simulator.estate.shedders import WEIGHTS, Play, ShedderSettings


def _clusters(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> list[list[Usage]]:
    try:
        return [[tuple(map(float, usage.split("/"))) for usage in text.split(",")] for text in texts]
    except ValueError:
        raise click.BadParameter("write numbers with commas between them, as in 80,10,10", ctx, param) from None


def _number(setting: str, largest: float, text: str) -> Callable[[Any], Any]:
    """Return the option of one of the shedders' settings."""
    default = getattr(ShedderSettings(), setting)
    return click.option(f"--{setting}", type=NumberBetween(0, largest), default=default, help=text)


_cluster = with_options(
    click.option("--case", "cases", type=click.Choice(list(CASES)), multiple=True, help="Only this case. Repeatable."),
    click.option(
        "--usage",
        "clusters",
        multiple=True,
        metavar="N,N,…",
        callback=_clusters,
        help="A cluster of yours instead: the CPU of each broker in per cent, or, with slashes between them, its "
        f"{', '.join(WEIGHTS)}, as in 80/20/40,10,10. Repeatable.",
    ),
    click.option(
        "--bundles", type=click.IntRange(1, MAX_BUNDLES), default=BUNDLES, help="Bundles of each busy broker."
    ),
    click.option("--hours", type=HOURS, default=2.0, help="Simulated hours."),
)
_settings = with_options(
    click.option(
        "--weight",
        "weights",
        type=(click.Choice(list(WEIGHTS)), NumberBetween(0, 100)),
        multiple=True,
        metavar="RESOURCE N",
        help=f"Weight of {', '.join(WEIGHTS)} in a broker's usage, which is the largest of the weighted ones. "
        "Repeatable.  [default: 1, and 0 for direct-memory]",
    ),
    _number("threshold", 100, "Points above the mean at which ThresholdShedder sheds."),
    _number("history", 1, "Weight of the past in the usages that ThresholdShedder compares."),
    _number(
        "overloaded", 100, "Usage in per cent at which OverloadShedder sheds, and above which a broker gets no bundles."
    ),
)


@click.command()
@_cluster
@_settings
@output_option
def shedders(
    output: Output,
    cases: tuple[str, ...],
    clusters: list[list[Usage]],
    bundles: int,
    hours: float,
    weights: tuple[tuple[str, float], ...],
    **settings: float,
) -> None:
    """Simulate Pulsar's ThresholdShedder (its default), OverloadShedder and AvgShedder, side by side, on uneven load.

    Without options: the cases in which ThresholdShedder is known to leave load uneven (PIP-220), a skewed cluster, and
    one with overloaded brokers. "uneven" is the standard deviation of the brokers' usage as a part of its mean.
    """
    minutes = max(1, round(hours * 60))
    chosen = {name: CASES[name] for name in cases or (() if clusters else CASES)}
    chosen |= {f"usage-{number}": given for number, given in enumerate(clusters, 1)}
    of_broker = ShedderSettings(weights={**WEIGHTS, **dict(weights)}, **settings)
    plays = {name: compare_shedders(usages, bundles, minutes, of_broker) for name, usages in chosen.items()}
    shown = [_document(name, chosen[name], of_shedders) for name, of_shedders in plays.items()]
    document = {"minutes": minutes, "bundles": bundles, "settings": asdict(of_broker), "cases": shown}
    output.emit_document(document, [_row(name, of_shedders) for name, of_shedders in plays.items()])


def _document(case: str, usages: Sequence[Usage], plays: Mapping[str, Play]) -> dict[str, Any]:
    numbers = [usage[0] if len(usage) == 1 else usage for usage in usages]
    return {"case": case, "usages": numbers, "plays": {name: asdict(play) for name, play in plays.items()}}


def _row(case: str, plays: Mapping[str, Play]) -> dict[str, Any]:
    first = next(iter(plays.values()))
    row: dict[str, Any] = {"case": case, "uneven before": round(first.uneven_before, 2)}
    for name, play in plays.items():
        row |= {f"{name} moves": play.moves, f"{name} uneven": round(play.uneven_after, 2)}
    return row
