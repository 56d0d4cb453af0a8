"""Reads a YAML or JSON file of push tasks, each with its audience."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dispatcher.errors import InvalidInput
from dispatcher.task import PushTask
from producers.json_audience import from_mapping
from producers.targets_file import STDIN, TargetsFile

_OWN_FIELDS = frozenset({"targets", "filter", "limit"})


@dataclass(frozen=True, slots=True)
class Job:
    """A task and its audience, ready for `submit`. name: for messages, "tasks.yaml: task 3 (news)"."""

    name: str
    task: PushTask
    targets: TargetsFile | list[Any]


def read_task_file(path: str | Path, allow_empty: bool = True) -> list[Job]:
    """All tasks of a file: a list, or a mapping with `tasks`; each has the fields of PushTask and

    targets: a file (CSV, JSON lines, one a line; relative to this one), or a list. filter: column -> value or values;
    limit: the number of rows that are taken; both for files only. allow_empty: whether a list or file may be empty.
    Raises InvalidInput that names file, task and field of everything that is wrong, before anything is submitted.
    """
    path = Path(path)
    entries = _entries(path, _load(path))
    jobs: list[Job] = []
    complaints: list[str] = []
    for number, entry in enumerate(entries, 1):
        name = _name(path, number, entry)
        try:
            jobs.append(_job(name, entry, path.parent, allow_empty))
        except InvalidInput as error:
            complaints += [f"{name}: {line.removeprefix('task: ')}" for line in str(error).splitlines()]
    complaints += _repeated_ids(jobs)
    if complaints:
        raise InvalidInput("\n".join(complaints))
    return jobs


def _load(path: Path) -> object:
    try:
        with path.open(encoding="utf-8-sig") as file:
            return yaml.safe_load(file)
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.") from error
    except yaml.YAMLError as error:
        raise InvalidInput(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())}.") from error


def _entries(path: Path, content: object) -> Sequence[object]:
    entries = content.get("tasks") if isinstance(content, Mapping) else content
    if not isinstance(entries, list) or not entries:
        raise InvalidInput(f"{path}: has no tasks.", "It is a list of tasks, or a mapping with a list named tasks.")
    return entries


def _name(path: Path, number: int, entry: object) -> str:
    task_id = entry.get("id") if isinstance(entry, Mapping) else None
    return f"{path}: task {number}{f' ({task_id})' if task_id else ''}"


def _job(name: str, entry: object, folder: Path, allow_empty: bool) -> Job:
    if not isinstance(entry, Mapping):
        raise InvalidInput("is not a mapping of fields.")
    fields = {str(field): value for field, value in entry.items()}
    task = PushTask.model_validate({field: value for field, value in fields.items() if field not in _OWN_FIELDS})
    return Job(name, task, _audience(fields, folder, allow_empty))


def _audience(fields: Mapping[str, Any], folder: Path, allow_empty: bool) -> TargetsFile | list[Any]:
    targets, where, limit = fields.get("targets"), fields.get("filter"), fields.get("limit")
    if isinstance(targets, list):
        if where is not None or limit is not None:
            raise InvalidInput("filter, limit: are for targets in a file.")
        if not targets and not allow_empty:
            raise InvalidInput("targets: is an empty list; `--allow-empty` accepts that.")
        return [from_mapping(item, {}, repr(item)) if isinstance(item, dict) else item for item in targets]
    if not isinstance(targets, str) or not targets:
        raise InvalidInput("targets: is missing; it is a list, or the name of a file.")
    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise InvalidInput(f"limit: is {limit!r}; it is a whole number of rows.")
    file = TargetsFile(targets if targets == STDIN else folder / targets, where=_where(where), limit=limit)
    file.check(allow_empty)
    return file


def _where(where: object) -> dict[str, list[str]]:
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise InvalidInput(f"filter: is {where!r}; it is a mapping from a column to a value or a list of values.")
    return {
        str(name): [str(v) for v in values] if isinstance(values, list) else [str(values)]
        for name, values in where.items()
    }


def _repeated_ids(jobs: Sequence[Job]) -> Iterator[str]:
    seen: set[str] = set()
    for job in jobs:
        if job.task.id is not None and job.task.id in seen:
            yield f"{job.name}: id: {job.task.id} is used twice in this file"
        seen.add(job.task.id or "")
