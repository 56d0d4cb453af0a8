"""`fairlane simulate shedders`: what Pulsar's ThresholdShedder and AvgShedder make of a cluster."""

from typing import TYPE_CHECKING, Any

import click

from estate.shedder_cases import BUNDLES, CASES, MAX_BUNDLES
from fairlane.cli.base.arguments import HOURS
from fairlane.cli.base.options import with_options
from fairlane.cli.base.output import Output, output_option

if TYPE_CHECKING:
    from estate.shedder_cases import Comparison


def _numbers(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> list[tuple[float, ...]]:
    try:
        return [tuple(float(number) for number in text.split(",")) for text in texts]
    except ValueError:
        raise click.BadParameter("write numbers with commas between them, as in 80,10,10", ctx, param) from None


@click.command()
@with_options(
    click.option("--case", "cases", type=click.Choice(list(CASES)), multiple=True, help="Only this case. Repeatable."),
    click.option(
        "--usage",
        "usages",
        multiple=True,
        metavar="N,N,…",
        callback=_numbers,
        help="A cluster of yours instead: the usage of each broker in per cent. Repeatable.",
    ),
    click.option(
        "--bundles", type=click.IntRange(1, MAX_BUNDLES), default=BUNDLES, help="Bundles of each busy broker."
    ),
    click.option("--hours", type=HOURS, default=2.0, help="Simulated hours."),
)
@output_option
def shedders(
    output: Output, cases: tuple[str, ...], usages: list[tuple[float, ...]], bundles: int, hours: float
) -> None:
    """Simulate Pulsar's ThresholdShedder (its default) and AvgShedder, side by side, on clusters with uneven load.

    Without options: the cases in which ThresholdShedder is known to leave load uneven (PIP-220), and a skewed cluster.
    "uneven" is the standard deviation of the brokers' usage as a part of its mean.
    """
    from estate.shedder_cases import compare_shedders

    minutes = max(1, round(hours * 60))
    chosen = {name: CASES[name] for name in cases or (() if usages else CASES)}
    chosen |= {f"usage-{number}": given for number, given in enumerate(usages, 1)}
    results = [compare_shedders(name, given, bundles, minutes) for name, given in chosen.items()]
    document = {"minutes": minutes, "bundles": bundles, "cases": [_document(result) for result in results]}
    output.emit_document(document, [_row(result) for result in results])


def _document(result: "Comparison") -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(result), "plays": {name: asdict(one) for name, one in result.plays.items()}}


def _row(result: "Comparison") -> dict[str, Any]:
    first = next(iter(result.plays.values()))
    row: dict[str, Any] = {"case": result.case, "uneven before": round(first.uneven_before, 2)}
    for name, one in result.plays.items():
        row |= {f"{name} moves": one.moves, f"{name} uneven": round(one.uneven_after, 2)}
    return row
