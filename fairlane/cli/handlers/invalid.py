"""`fairlane invalid export`."""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from errno import EISDIR
from pathlib import Path
from typing import IO, Any

import click

from dispatcher.model.errors import InvalidInput
from dispatcher.model.values import counted
from fairlane.cli.base.connect import client_of
from fairlane.cli.base.output import say
from fairlane.cli.base.progress import counting
from producers.outcomes.record import TargetFilter, TargetRecord

COLUMNS = ("app", "channel", "target", "reason", "died_at", "seen_at", "task")
STANDARD_OUTPUT = "-"


def export(ctx: click.Context, out: str, format_: str | None, *, repeats: bool, **filters: Any) -> None:
    as_csv = format_ == "csv" or (format_ is None and out.lower().endswith(".csv"))
    with client_of(ctx) as client, _written(out) as file, counting("targets written") as on_progress:
        written = _write(
            file, client.invalid_targets(TargetFilter(**filters), repeats=repeats), on_progress, as_csv=as_csv
        )
    say(f"{counted(written, 'invalid target')} written" + ("" if out == STANDARD_OUTPUT else f" to {out}"))


def fields_of(one: TargetRecord) -> dict[str, str]:
    """Return a target as it is written."""
    return {
        "app": one.app,
        "channel": one.channel,
        "target": one.target,
        "reason": one.reason,
        "died_at": _time(one.died_ms),
        "seen_at": _time(one.at_ms),
        "task": one.task,
    }


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _write(file: IO[str], targets: Iterable[TargetRecord], on_progress: Callable[[int], None], *, as_csv: bool) -> int:
    """Write the targets and return their number."""
    writer, encode = csv.DictWriter(file, COLUMNS, lineterminator="\n"), json.JSONEncoder(ensure_ascii=False).encode
    if as_csv:
        writer.writeheader()
    number = 0
    for number, one in enumerate(targets, 1):  # the last number counts
        if as_csv:
            writer.writerow(fields_of(one))
        else:
            file.write(encode(fields_of(one)) + "\n")
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
