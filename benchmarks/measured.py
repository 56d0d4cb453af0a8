"""The common shape of a benchmark's command: what it measures, repeated, with its figures as a table or JSON."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from benchmarks.results.spread import spread
from dispatcher.model import values
from fairlane.cli.base.output import Output, output_option, say
from fairlane.cli.base.settings import settings_of

if TYPE_CHECKING:
    from fairlane.settings import Settings

Run = Callable[["Settings", int], dict[str, float]]
"""One run, given the seed of its random targets: returns figures by name."""
Benchmark = tuple[str, Run]
"""Its name in the output, and one run of it."""


def measured(command: Callable[..., Benchmark]) -> Callable[..., None]:
    """Make a command of a function that returns a benchmark.

    With --runs, --seed and -o, the command runs the benchmark and prints the figures.
    """

    @wraps(command)
    def called(ctx: click.Context, /, output: Output, runs: int, seed: int, **options: Any) -> None:
        name, run = command(**options)
        _repeat(name, lambda run_seed: run(settings_of(ctx), run_seed), runs, seed, output)

    made: Any = called
    for option in (
        output_option,
        click.option("--seed", type=int, default=2026, show_default=True, help="Seed of the synthetic targets."),
        click.option("--runs", type=click.IntRange(1), default=5, show_default=True, help="Number of runs."),
        click.pass_context,
    ):
        made = option(made)
    return made  # type: ignore[no-any-return]


def _repeat(name: str, run: Callable[[int], dict[str, float]], runs: int, seed: int, output: Output) -> None:
    from benchmarks.stage import machine

    all_figures = []
    for number in range(runs):
        figures = run(seed + 1_000 * number)
        all_figures.append(figures)
        shown = ", ".join(f"{key} {values.number(value)}" for key, value in figures.items())
        say(f"{name} {number + 1}/{runs}: {shown}")
    summary = spread(all_figures)
    document = {"benchmark": name, "runs": runs, "seed": seed, "machine": machine(), "figures": summary}
    output.emit_document(document, [{"figure": key, **value} for key, value in summary.items()])


def number_option(
    *names: str, text: str, min_value: int, max_value: int | None = None, default: int | None = None
) -> Callable[..., Any]:
    """Return an option for a whole number within bounds, whose default is shown in its help."""
    kind = click.IntRange(min_value, max_value)
    return click.option(*names, type=kind, default=default, show_default=default is not None, help=text)


def chunk_option(default: int) -> Callable[..., Any]:
    """Return the option for the size of envelopes."""
    return number_option("--chunk", min_value=1, max_value=500, default=default, text="Targets per envelope.")
