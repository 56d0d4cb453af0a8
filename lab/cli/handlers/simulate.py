"""`fairlane simulate`: run scenarios."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from backends.extras import require_packages
from dispatcher.model.errors import InvalidInput
from fairlane.cli.base import exit_codes
from fairlane.cli.base.output import Output, say
from fairlane.screen.table import section_of
from lab.simulator.findings.result import Result
from lab.simulator.scenario.library import find, names
from lab.simulator.scenario.random_scenario import ENVELOPES
from lab.simulator.show.page import page
from lab.simulator.show.pictures import draw
from lab.simulator.show.tables import TIERS, headline, note, sections


def simulate(
    _: click.Context,
    scenario: str | None,
    *,
    listed: bool,
    seed: int,
    seeds: int | None,
    processes: int | None,
    output: str,
    pictures: tuple[tuple[str, Path], ...],
) -> int:
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
    rows = [{"name": name, "about": " ".join(find(name).about.split())} for name in names()]
    rows += [
        {"name": name, "about": f"Generated from the seed, with at most {max_envelopes:,} envelopes."}
        for name, max_envelopes in ENVELOPES.items()
    ]
    Output(output == "json").emit_rows(rows, ["name", "about"])


def _one(name: str, seed: int, output: str, pictures: tuple[tuple[str, Path], ...]) -> int:
    from lab.simulator.run.many import run_one  # needs the extra, which --list does not

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


def _verdict(result: Result) -> int:
    for violation in result.violations[:10]:
        say(f"violated: {violation.rule}: {violation.what} (at {violation.at_s:.3f} s)")
    if not result.good:
        say(f"run it again: {result.replay}")
    return exit_codes.OK if result.good else exit_codes.FAILURE


def _many(name: str, first: int, count: int, processes: int, output: str, *, pictures: bool) -> int:

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


def _tables(result: Result) -> RenderableType:
    """Return the tables: shares by window, tiers, caps, tasks and outcomes."""

    parts: list[RenderableType] = [Text(headline(result))]
    for title, rows in sections(result):
        if rows:
            parts.append(section_of(title, rows))
            if title == TIERS and note(result):
                parts.append(Text(note(result), style="dim"))
    return Group(*parts)
