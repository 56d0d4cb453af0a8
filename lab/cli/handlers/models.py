"""`fairlane simulate quarantine` and `shedders`: models of parts of the estate."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from fairlane.cli.base.output import Output, say
from lab.simulator.estate.quarantine import QuarantineResult, QuarantineSettings, best_of, compare_ratios
from lab.simulator.estate.shedder_cases import CASES, Usage, compare_shedders
from lab.simulator.estate.shedders import WEIGHTS, Play, ShedderSettings

RATIOS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
ALL_AT_ONCE = 1.0
"""Pulsar's default ratio, with which all others are compared."""
HEADROOM, WEAK = 1.25, 2 / 3
"""Default capacity of a bookie as a part of its share of the inflow, and of a weak one as a part of that."""


def quarantine(
    _: click.Context,
    output: Output,
    ratios: tuple[float, ...],
    capacity: float | None,
    hours: float,
    seed: int,
    seeds: int,
    **estate: Any,
) -> None:
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
    output.emit_document(document, [_quarantine_row(row) for row in rows])
    say(_summary(best, part))


def _quarantine_row(row: QuarantineResult) -> dict[str, Any]:
    return {
        "ratio": row.ratio,
        "std_dev MB/s": round(row.std_dev, 1),
        "overloaded minutes": round(row.overloaded_minutes),
        "quarantines": round(row.quarantines),
    }


def _summary(best: QuarantineResult, part: float | None) -> str:
    text = f"The ratio {best.ratio:g} has the fewest minutes of overload"
    if part is None or best.ratio == ALL_AT_ONCE:
        return f"{text}."
    return f"{text}; its inflow deviates by {part:.0%} of what it does at 1.0."


def shedders(
    _: click.Context,
    output: Output,
    cases: tuple[str, ...],
    clusters: list[list[Usage]],
    bundles: int,
    hours: float,
    weights: tuple[tuple[str, float], ...],
    **settings: float,
) -> None:
    minutes = max(1, round(hours * 60))
    chosen = {name: CASES[name] for name in cases or (() if clusters else CASES)}
    chosen |= {f"usage-{number}": given for number, given in enumerate(clusters, 1)}
    of_broker = ShedderSettings(weights={**WEIGHTS, **dict(weights)}, **settings)
    plays = {name: compare_shedders(usages, bundles, minutes, of_broker) for name, usages in chosen.items()}
    shown = [_document(name, chosen[name], of_shedders) for name, of_shedders in plays.items()]
    document = {"minutes": minutes, "bundles": bundles, "settings": asdict(of_broker), "cases": shown}
    output.emit_document(document, [_shedders_row(name, of_shedders) for name, of_shedders in plays.items()])


def _document(case: str, usages: Sequence[Usage], plays: Mapping[str, Play]) -> dict[str, Any]:
    numbers = [usage[0] if len(usage) == 1 else usage for usage in usages]
    return {"case": case, "usages": numbers, "plays": {name: asdict(play) for name, play in plays.items()}}


def _shedders_row(case: str, plays: Mapping[str, Play]) -> dict[str, Any]:
    first = next(iter(plays.values()))
    row: dict[str, Any] = {"case": case, "uneven before": round(first.uneven_before, 2)}
    for name, play in plays.items():
        row |= {f"{name} moves": play.moves, f"{name} uneven": round(play.uneven_after, 2)}
    return row
