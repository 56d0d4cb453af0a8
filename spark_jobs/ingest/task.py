"""Read the file that describes the task of an ingestion: one task, or one for each part of a split."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher.model.errors import InvalidInput
from dispatcher.model.field_errors import missing
from producers.files.targets_file import STDIN
from producers.files.task_file import ROW_FIELDS, Complaints, read_entries
from spark_jobs.source.task_options import TaskOptions, missing_fields, parse_options

_LISTS = ("split", "variables")


@dataclass(frozen=True, slots=True)
class TableTask:
    """A task and its table."""

    options: TaskOptions
    audience: str
    """The table's path or URL; empty if the file has no `targets`."""


def read_task(path: Path, servers: Mapping[str, str]) -> TableTask:
    """Read a file with one task, as producers.files.task_file reads it.

    Besides the fields of a PushTask it has `variables`, `split` and `target` (columns), `messages` (by language, if the
    table is split by it), and `targets`, the table.

    servers: as spark_jobs.session.servers.values_of returns them. Raises InvalidInput that names file and field.
    """
    entries = read_entries(path)
    if len(entries) > 1:
        raise InvalidInput(
            f"{path}: has {len(entries)} tasks; `fairlane ingest` makes one.",
            "Put each in a file of its own, or submit them with `fairlane task submit`.",
        )
    entry = entries[0]
    complaints = Complaints()
    with complaints.of(entry):
        entry.check_names(ROW_FIELDS, "fairlane task submit")
        texts = {name: _text(name, value) for name, value in entry.fields.items() if name != "targets"}
        options = parse_options({**servers, **texts})
        _check(options)
        audience = _audience(entry.fields.get("targets"), path.parent)
    complaints.check()
    return TableTask(options, audience)


def _check(options: TaskOptions) -> None:
    """Raise InvalidInput if these options do not describe a task."""
    names = missing_fields(options)
    if not options.task:
        names = ["id", *names]
    if names:
        raise InvalidInput("\n".join(f"{name}: {missing(name)}." for name in names))
    options.probe(options.task)


def _text(name: str, value: Any) -> str:
    if name in _LISTS and isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _audience(targets: object, folder: Path) -> str:
    if targets is None:
        return ""
    if not isinstance(targets, str) or targets == STDIN:
        raise InvalidInput(
            "targets: is not the name of a table, which `fairlane ingest` needs.",
            "Name its file, leave `targets` out and use --audience, or use `fairlane task submit`.",
        )
    return targets if ":" in targets else str(folder / targets)
