"""`fairlane simulate`: scheduler, engine and ledger as they ship, under a virtual clock; no server is needed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backends.extras import require_packages
from dispatcher.model.errors import InvalidInput
from fairlane.cli.base import exit_codes
from fairlane.cli.base.groups import CommandOrGroup, OwnArgument
from fairlane.cli.base.output import Output, report_option, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from lab.simulator.findings.result import Result

PICTURES = ("shares", "tasks", "task-shares")
MODELS = ("quarantine", "shedders")
"""Commands that simulate a part of the estate."""


def _scenarios(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001  # click's
    from lab.simulator.scenario.library import names

    return [name for name in (*names(), *MODELS) if name.startswith(incomplete)]


@click.group(
    cls=CommandOrGroup,
    modules={name: f"lab.cli.{name}:{name}" for name in MODELS},
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
def simulate(
    scenario: str | None,
    *,
    listed: bool,
    seed: int,
    seeds: int | None,
    processes: int | None,
    output: str,
    pictures: tuple[tuple[str, Path], ...],
) -> int:
    """Run a scenario under a virtual clock: tasks arrive, workers join, leave, stall and die, calls fail.

    FILE is a scenario in YAML. NAME is one that --list prints, among them random and random-large (generated from the
    seed). The same seed gives the same run. Exits with 1 if an invariant is violated, and says how to run it again.

    MODEL is one of the commands below, which simulate parts of Pulsar and BookKeeper instead.
    """
    if listed:
        _list(output)
        return exit_codes.OK
    if scenario is None:
        raise click.UsageError("Give a scenario: a file, or a name that --list prints.")
    require_packages("lab", "lupa", "msgpack")
    if seeds is not None:
        return _many(scenario, seed, seeds, processes or 0, output, pictures=bool(pictures))
    return _one(scenario, seed, output, pictures)


def _list(output: str) -> None:
    from lab.simulator.scenario.library import find, names
    from lab.simulator.scenario.random_scenario import ENVELOPES

    rows = [{"name": name, "about": " ".join(find(name).about.split())} for name in names()]
    rows += [
        {"name": name, "about": f"Generated from the seed, with at most {max_envelopes:,} envelopes."}
        for name, max_envelopes in ENVELOPES.items()
    ]
    Output(output == "json").emit_rows(rows, ["name", "about"])


def _one(name: str, seed: int, output: str, pictures: tuple[tuple[str, Path], ...]) -> int:
    from lab.simulator.run.many import run_one
    from lab.simulator.show.page import page
    from lab.simulator.show.pictures import draw

    for _, file in pictures:
        _check_writable(file)
    result = run_one(name, seed)
    for kind, file in pictures:
        with _writing(file):
            file.write_text(draw(kind, result), encoding="utf-8")
        say(f"wrote {file}")
    if output == "html":
        click.echo(page(result))
    elif output == "json" or not pictures:
        Output(output == "json").emit(result.as_dict(), lambda: _tables(result))
    return _verdict(result)


def _check_writable(file: Path) -> None:
    """Check that a file can be written, before a run of minutes. Leaves nothing behind. Raises InvalidInput."""
    was_there = file.exists()
    with _writing(file):
        file.open("a").close()
        if not was_there:
            file.unlink()


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    """Raise InvalidInput if the block cannot write the file."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}.", "Name another file.") from error


def _verdict(result: "Result") -> int:
    for violation in result.violations[:10]:
        say(f"violated: {violation.rule}: {violation.what} (at {violation.at_s:.3f} s)")
    if not result.good:
        say(f"run it again: {result.replay}")
    return exit_codes.OK if result.good else exit_codes.FAILURE


def _many(name: str, first: int, count: int, processes: int, output: str, *, pictures: bool) -> int:
    import msgspec

    from lab.simulator.run.many import run_many, scenario_for

    if output == "html" or pictures:
        raise click.UsageError("--seeds prints a table or JSON; a picture shows a single run.")
    scenario_for(name, first)
    results = run_many(name, range(first, first + count), processes or os.cpu_count() or 1, say)
    document = msgspec.to_builtins(results)
    row = {key: value for key, value in document.items() if key not in ("format", "bad")}
    Output(output == "json").emit_document(document, [{**row, "bad": len(results.bad)}])
    for bad in results.bad[:20]:
        say(f"run it again: {bad.replay}")
    return exit_codes.FAILURE if results.bad else exit_codes.OK


def _tables(result: "Result") -> "RenderableType":
    """Return the tables: shares by window, tiers, caps, tasks and outcomes."""
    from rich.console import Group
    from rich.text import Text

    from fairlane.screen.table import section_of
    from lab.simulator.show.tables import TIERS, headline, note, sections

    parts: list[RenderableType] = [Text(headline(result))]
    for title, rows in sections(result):
        if rows:
            parts.append(section_of(title, rows))
            if title == TIERS and note(result):
                parts.append(Text(note(result), style="dim"))
    return Group(*parts)
