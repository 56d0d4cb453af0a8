"""`fairlane tier show | set`."""

from dataclasses import asdict

import click

from dispatcher.tier import MILLI, TIERS
from fairlane.cli.arguments import Assignment
from fairlane.cli.connect import client_of
from fairlane.cli.live import settled_sample
from fairlane.cli.output import Output, output_option, say


@click.group()
def tier() -> None:
    """The tiers: their weights, wanted and actual shares."""


@tier.command()
@output_option
@click.pass_context
def show(ctx: click.Context, output: Output) -> None:
    """Weights, shares, rates and backlogs (takes a second to measure)."""
    from fairlane.screen.render import tiers_table

    with client_of(ctx) as client:
        tiers = settled_sample(client).tiers
    rows = [{**asdict(tier), "weight": tier.weight / MILLI} for tier in tiers]
    output.emit(rows, lambda: tiers_table(tiers))


@tier.command("set")
@click.argument("weights", metavar="TIER=WEIGHT...", nargs=-1, required=True, type=Assignment(*map(str, TIERS)))
@click.pass_context
def set_weights(ctx: click.Context, weights: tuple[tuple[str, str], ...]) -> None:
    """Change the weights: high=6 medium=3 low=1. Tiers not named keep theirs."""
    try:
        given = {name: float(text) for name, text in weights}
    except ValueError as error:
        raise click.UsageError(f"A weight is a number: {error}.") from None
    with client_of(ctx) as client:
        now = {name: weight / MILLI for name, weight in client.globals().tier_weights.items()}
        client.set_tiers(**{**now, **given})
        say(" ".join(f"{name}={value:g}" for name, value in {**now, **given}.items()))
