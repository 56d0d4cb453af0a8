"""`fairlane simulate quarantine`: BookKeeper's quarantine of failing bookies, simulated for several ratios."""

from typing import TYPE_CHECKING, Any

import click

from fairlane.cli.base.arguments import HOURS
from fairlane.cli.base.options import with_options
from fairlane.cli.base.output import Output, output_option, say

if TYPE_CHECKING:
    from lab.simulator.estate.quarantine import QuarantineResult

RATIOS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
ALL_AT_ONCE = 1.0
"""Pulsar's default ratio, with which all others are compared."""
MAX_NODES = 200
HEADROOM, WEAK = 1.25, 2 / 3
"""Default capacity of a bookie as a part of its share of the inflow, and of a weak one as a part of that."""


@click.command()
@with_options(
    click.option(
        "--ratio",
        "ratios",
        type=click.FloatRange(0, 1),
        multiple=True,
        help="A bookkeeperClientQuarantineRatio to simulate beside 1.0: the probability that a broker quarantines a "
        "failing bookie. Repeatable.  [default: 0, 0.1, 0.2, 0.3, 0.5, 0.7]",
    ),
    click.option("--bookies", type=click.IntRange(1, MAX_NODES), default=12, help="Number of bookies."),
    click.option(
        "--brokers", "clients", type=click.IntRange(1, MAX_NODES), default=24, help="Number of brokers, which write."
    ),
    click.option("--ensemble", type=click.IntRange(1, MAX_NODES), default=2, help="Bookies of a ledger."),
)
@with_options(
    click.option("--inflow", type=click.FloatRange(0, min_open=True), default=1_440.0, help="MB/s over all bookies."),
    click.option(
        "--capacity",
        type=click.FloatRange(0, min_open=True),
        help="MB/s that a bookie takes without errors.  [default: 1.25 times its share of the inflow]",
    ),
    click.option("--quarantine-minutes", type=click.IntRange(1), default=30, help="Duration of a quarantine."),
    click.option("--hours", type=HOURS, default=24.0, help="Simulated hours."),
    click.option("--seed", type=click.IntRange(0), default=1, help="First seed of all random choices."),
    click.option("--seeds", type=click.IntRange(1, 1_000), default=10, help="Number of seeds; figures are means."),
)
@output_option
def quarantine(
    output: Output,
    ratios: tuple[float, ...],
    capacity: float | None,
    hours: float,
    seed: int,
    seeds: int,
    **estate: Any,
) -> None:
    """Simulate BookKeeper's quarantine: a broker that counts errors of a bookie writes to others for half an hour.

    With the default ratio of 1.0 all brokers leave an overloaded bookie at the same time and return at the same time,
    and load swings. Shows, for each ratio, the standard deviation of the bookies' inflow (MB/s), the minutes above
    capacity (summed over bookies), and the number of quarantines. At six random moments of a day each bookie is
    weak for a quarter of an hour, with two thirds of its capacity.
    """
    from dataclasses import asdict

    from lab.simulator.estate.quarantine import QuarantineSettings, best_of, compare_ratios

    usual = capacity or HEADROOM * estate["inflow"] / estate["bookies"]
    settings = QuarantineSettings(
        minutes=max(1, round(hours * 60)), capacity=usual, weak_capacity=WEAK * usual, **estate
    )
    rows = compare_ratios(settings, sorted({*(ratios or RATIOS), ALL_AT_ONCE}), range(seed, seed + seeds))
    best = best_of(rows)
    part = best.std_dev / rows[-1].std_dev if rows[-1].std_dev else None
    played = {name: value for name, value in asdict(settings).items() if name != "ratio"}
    document = {"settings": played, "first_seed": seed, "seeds": seeds, "ratios": [asdict(row) for row in rows]}
    document |= {"best_ratio": best.ratio, "best_std_dev_to_all_at_once": part}
    output.emit_document(document, [_row(row) for row in rows])
    say(_summary(best, part))


def _row(row: "QuarantineResult") -> dict[str, Any]:
    return {
        "ratio": row.ratio,
        "std_dev MB/s": round(row.std_dev, 1),
        "overloaded minutes": round(row.overloaded_minutes),
        "quarantines": round(row.quarantines),
    }


def _summary(best: "QuarantineResult", part: float | None) -> str:
    text = f"The ratio {best.ratio:g} has the fewest minutes of overload"
    if part is None or best.ratio == ALL_AT_ONCE:
        return f"{text}."
    return f"{text}; its inflow deviates by {part:.0%} of what it does at 1.0."
