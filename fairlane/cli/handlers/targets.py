"""`fairlane dead-letters list`, `show`, `replay`, `drop`, and `invalid export`."""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from errno import EISDIR
from pathlib import Path
from typing import IO, Any

import click

from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import counted
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.output import Output, confirm, say
from fairlane.cli.base.progress import counting, doing, replaying
from fairlane.figures.rows import FAILURE_FIELDS, GROUP_FIELDS, fields_of
from producers.outcomes.record import ReasonGroup, TargetFilter, TargetRecord

GROUP_COLUMNS = ("task", "app", "count", "outcome", "reason", "state", "last_ms", "example")
TARGET_COLUMNS = ("task", "target", "outcome", "reason", "attempt", "state", "at_ms")
REPLAY_COLUMNS = ("task", "replay", "targets", "refused", "state")
LETTER_FIELDS = (*FAILURE_FIELDS, "app", "variables", "first_call_ms", "state", "replay", "lane")
INVALID_COLUMNS = ("app", "channel", "target", "reason", "died_at", "seen_at", "task")
STANDARD_OUTPUT = "-"


def list_letters(ctx: click.Context, output: Output, state: str, **filters: Any) -> None:
    chosen = TargetFilter(**filters)
    with client_of(ctx) as client, _reading():
        groups = client.dead_letters.groups(chosen, state)
    _emit(output, groups)
    if not groups:
        say(f"There are no {'' if state == 'all' else state + ' '}dead letters of this kind.")


def show(ctx: click.Context, output: Output, state: str, limit: int | None, **filters: Any) -> None:
    chosen = TargetFilter(**filters)
    with client_of(ctx) as client, _reading():
        rows, more = output.first_rows(client.dead_letters.targets(chosen, state), LETTER_FIELDS, limit)
    output.emit_rows(rows, TARGET_COLUMNS, ("attempt", "at_ms"))
    if more:
        say(f"There are more than {len(rows):,}: add --limit N, or use `fairlane dead-letters list`.")


def replay(
    ctx: click.Context, output: Output, limit: int | None, *, everything: bool, yes: bool, dry_run: bool, **filters: Any
) -> None:
    chosen = _chosen(filters, everything=everything)
    with client_of(ctx) as client:
        with _reading():
            groups = client.dead_letters.groups(chosen) + client.dead_letters.groups(chosen, "replaying")
        groups = [group for group in groups if group.outcome == "failed"]
        results = []
        if _agreed(ctx, output, groups, "sent again", limit, yes=yes, dry_run=dry_run):
            with replaying() as on_progress:
                results = client.dead_letters.replay(chosen, limit=limit, on_progress=on_progress)
    output.emit_rows([asdict(result) for result in results], REPLAY_COLUMNS)
    for result in results:
        if result.state == "replaying":
            say(f"{result.replay} is being submitted by another process")
        if result.refused:
            say(
                f"{result.refused:,} of {result.targets:,} targets of {result.replay} were refused: they lack a "
                "variable of the message, or it is too large with theirs. Submit them yourself with another message: "
                f"`fairlane dead-letters show --task {result.task} --state replayed -o json` lists them."
            )


def drop(
    ctx: click.Context, output: Output, limit: int | None, *, everything: bool, yes: bool, dry_run: bool, **filters: Any
) -> None:
    chosen = _chosen(filters, everything=everything)
    with client_of(ctx) as client:
        with _reading():
            groups = client.dead_letters.groups(chosen)
        dropped = 0
        if _agreed(ctx, output, groups, "dropped", limit, yes=yes, dry_run=dry_run):
            with _reading():
                dropped = client.dead_letters.drop(chosen, limit=limit)
    output.emit_record({"dropped": dropped})


def _chosen(filters: dict[str, Any], *, everything: bool) -> TargetFilter:
    chosen = TargetFilter(**filters)
    if chosen == TargetFilter() and not everything:
        raise click.UsageError("Say which letters, by a filter such as --task or --error, or give --all.")
    return chosen


def _agreed(
    ctx: click.Context,
    output: Output,
    groups: list[ReasonGroup],
    done: str,
    limit: int | None,
    *,
    yes: bool,
    dry_run: bool,
) -> bool:
    """Say what will be changed, and ask. Return False if there is nothing to change. A dry run ends here."""
    if dry_run:
        _emit(output, groups)
        ctx.exit()
    count = sum(group.count for group in groups)
    tasks = len({group.task for group in groups})
    if not count:
        say("There are no open dead letters of this kind.")
        return False
    if not yes:
        say(f"{counted(min(count, limit or count), 'dead letter')} of {counted(tasks, 'task')} will be {done}")
        confirm(ctx, "Go on?")
    return True


def _emit(output: Output, groups: list[ReasonGroup]) -> None:
    output.emit_rows(fields_of(groups, GROUP_FIELDS), GROUP_COLUMNS, ("example", "app"))


def _reading() -> AbstractContextManager[None]:
    return doing("reading dead letters")


def export(ctx: click.Context, out: str, format_: str | None, *, repeats: bool, **filters: Any) -> None:
    as_csv = format_ == "csv" or (format_ is None and out.lower().endswith(".csv"))
    with client_of(ctx) as client, _written(out) as file, counting("targets written") as on_progress:
        written = _write(
            file, client.invalid_targets(TargetFilter(**filters), repeats=repeats), on_progress, as_csv=as_csv
        )
    say(f"{counted(written, 'invalid target')} written" + ("" if out == STANDARD_OUTPUT else f" to {out}"))


def invalid_fields(record: TargetRecord) -> dict[str, str]:
    """Return a target as it is written."""
    return {
        "app": record.app,
        "channel": record.channel,
        "target": record.target,
        "reason": record.reason,
        "died_at": _time(record.died_ms),
        "seen_at": _time(record.at_ms),
        "task": record.task,
    }


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _write(file: IO[str], targets: Iterable[TargetRecord], on_progress: Callable[[int], None], *, as_csv: bool) -> int:
    """Write the targets and return their number."""
    writer, encode = (
        csv.DictWriter(file, INVALID_COLUMNS, lineterminator="\n"),
        json.JSONEncoder(ensure_ascii=False).encode,
    )
    if as_csv:
        writer.writeheader()
    number = 0
    for number, each in enumerate(targets, 1):  # the last number counts
        if as_csv:
            writer.writerow(invalid_fields(each))
        else:
            file.write(encode(invalid_fields(each)) + "\n")
        if number % 1_000 == 0:
            on_progress(number)
    return number


@contextmanager
def _written(out: str) -> Iterator[IO[str]]:
    """Yield the file to write. It gets its name when it is complete. Raises InvalidInput if it cannot be written."""
    if out == STANDARD_OUTPUT:
        yield sys.stdout
        sys.stdout.flush()
        return
    path = Path(out)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.is_dir():  # which would show only at the end
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            yield file
        unfinished.replace(path)
    except OSError as error:
        raise InvalidInput(f"{out} cannot be written: {error.strerror or error}.", "Name another file.") from error
    finally:
        with suppress(OSError):  # of the same folder
            unfinished.unlink(missing_ok=True)
