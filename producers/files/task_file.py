"""Read files of push tasks, in YAML or JSON: one or several, each with the fields of PushTask and an audience."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from backends.files import read_text
from backends.yaml_loader import BoundedLoader
from dispatcher.channels.push_message import LANGUAGE
from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import MAX_TARGETS, PushTask
from producers.files.audience_rows import RowRules
from producers.files.json_audience import from_mapping
from producers.files.targets_file import STDIN, TargetsFile

ROW_FIELDS = ("filter", "limit")
"""Fields that select rows of `targets`; for `fairlane task submit`."""
TABLE_FIELDS = ("target", "variables", "split", "messages")
"""Fields that assign a table's columns, and the messages by language; for `fairlane ingest`."""
_FIELDS = (*PushTask.model_fields, "targets", *ROW_FIELDS, *TABLE_FIELDS)
_ALL = ", ".join(_FIELDS)
_STRING, _NULL, _MERGE, *_NUMBERS = (
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "null", "merge", "bool", "int", "float")
)
_NO_JSON = re.compile(r"[-+]?0[0-9_box]|.*[:_]")
"""Numbers of YAML alone: octal, such as the postcode 01234, or sixties, such as the time 12:30."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A task as it is written in its file."""

    name: str
    """The name used in messages: "tasks.yaml: task 3 (news)"."""
    fields: Mapping[str, Any]
    """The fields that are not null, as texts, lists and mappings."""

    @property
    def task_fields(self) -> dict[str, Any]:
        """The fields that belong to PushTask."""
        return {field: value for field, value in self.fields.items() if field in PushTask.model_fields}

    def check_names(self, elsewhere: Sequence[str], command: str) -> None:
        """Raise InvalidInput that names each field that is unknown or belongs to another command."""
        complaints = [*map(_no_such_field, self.fields.keys() - set(_FIELDS))]
        complaints += [f"{name}: is for `{command}`; leave it out." for name in elsewhere if name in self.fields]
        if complaints:
            raise InvalidInput("\n".join(sorted(complaints)))


class Complaints(list[str]):
    """The errors found in a file: a line for each field, with the file and the task."""

    @contextmanager
    def of(self, entry: Entry) -> Iterator[None]:
        """Collect the message of an InvalidInput that is raised for this task."""
        try:
            yield
        except InvalidInput as error:
            self.extend(f"{entry.name}: {line.removeprefix('task: ')}" for line in str(error).splitlines())

    def check(self) -> None:
        """Raise InvalidInput if there are any."""
        if self:
            raise InvalidInput("\n".join(self))


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task and its audience, ready for `submit`."""

    name: str
    """The name of its entry."""
    task: PushTask
    targets: TargetsFile | list[Any]


def read_entries(path: str | Path) -> list[Entry]:
    """Return the tasks of a file: a mapping of one task's fields, a list of these, or a mapping with a list `tasks`.

    A scalar is kept as it is written (`id: 2026`, `app: yes`). A null means no value, except that in YAML
    `channel: null` names the channel `null`. The values in `message` are those of JSON.
    """
    path = Path(path)
    content = _load(path)
    tasks = content.get("tasks", [content]) if isinstance(content, Mapping) else content
    if not isinstance(tasks, list) or not tasks:
        raise InvalidInput(
            f"{path}: has no tasks.", "It is a mapping of a task's fields, a list of these, or a list named `tasks`."
        )
    return [_entry(path, number, task) for number, task in enumerate(tasks, 1)]


def read_task_file(path: str | Path, *, allow_empty: bool = True) -> list[TaskEntry]:
    """Return the tasks of a file with their audiences.

    Besides the fields of PushTask each task has targets: a file (CSV, JSON lines, one a line; relative to this file),
    or a list. For files only: filter: column -> value or values; limit: the maximum number of rows to take.
    allow_empty: whether a list or file may be empty. Raises InvalidInput, before anything is submitted, naming the
    file, task and field of every error.
    """
    jobs: list[TaskEntry] = []
    complaints = Complaints()
    for entry in read_entries(path):
        targets: TargetsFile | list[Any] = []
        if not entry.fields:
            complaints.append(f"{entry.name}: has no fields; a task is a mapping of them.")
            continue
        with complaints.of(entry):
            entry.check_names(TABLE_FIELDS, "fairlane ingest")
        with complaints.of(entry):
            targets = _audience(entry.fields, Path(path).parent, allow_empty=allow_empty)
        with complaints.of(entry):
            jobs.append(TaskEntry(entry.name, PushTask.model_validate(entry.task_fields), targets))
    complaints += _repeated_ids(jobs)
    complaints.check()
    return jobs


def _entry(path: Path, number: int, task: object) -> Entry:
    name = f"{path}: task {number}"
    if not isinstance(task, Mapping):
        return Entry(name, {})
    if task.get("id"):
        name += f" ({task['id']})"
    return Entry(name, {field: value for field, value in task.items() if value is not None})


def _no_such_field(name: str) -> str:
    near = get_close_matches(name, _FIELDS, 1)
    return f"{name}: there is no such field; " + (f"did you mean {near[0]}?" if near else f"there are {_ALL}.")


def _load(path: Path) -> object:
    text = read_text(path)
    try:
        loader = BoundedLoader(text.replace("\t", " ") if path.suffix == ".json" else text)  # YAML indents by spaces
        root = loader.get_single_node()
        for task in _task_nodes(root):
            loader.flatten_mapping(task)
            _keep_as_written(task, () if path.suffix == ".json" else ("null",))
        return None if root is None else loader.construct_document(root)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())}.") from error


def _task_nodes(root: yaml.Node | None) -> list[yaml.MappingNode]:
    nodes: list[yaml.Node | None] = [root]
    if isinstance(root, yaml.MappingNode):
        nodes = [value for key, value in root.value if key.value == "tasks"] or nodes
    if isinstance(nodes[0], yaml.SequenceNode):
        nodes = nodes[0].value
    return [node for node in nodes if isinstance(node, yaml.MappingNode)]


def _keep_as_written(task: yaml.MappingNode, channels: Sequence[str]) -> None:
    """Turn values that YAML reads as other types back into texts: `no`, `0123`, `2026-11-23`, `1:30`.

    channels: names of channels that are texts, although YAML reads them as a null.
    """
    seen: set[yaml.Node] = set()
    for key, value in task.value:
        key.tag = _STRING
        if key.value in ("filter", "messages") and isinstance(value, yaml.MappingNode):
            for name, part in value.value:
                name.tag = _STRING
                _as_text(part, seen, ())
        else:
            is_name = key.value == "channel" and value.value in channels
            _as_text(value, seen, () if is_name else (_NULL,))


def _as_text(node: yaml.Node, seen: set[yaml.Node], keep: Sequence[str]) -> None:
    """Turn scalars into texts. keep: kinds of scalars that stay unchanged. In a mapping these are JSON's kinds."""
    if node in seen:
        return
    seen.add(node)
    if isinstance(node, yaml.ScalarNode):
        is_kept = node.tag in keep and not (node.tag in _NUMBERS and _NO_JSON.match(node.value))
        node.tag = node.tag if is_kept else _STRING
    elif isinstance(node, yaml.SequenceNode):
        for part in node.value:
            _as_text(part, seen, keep)
    elif isinstance(node, yaml.MappingNode):
        for key, part in node.value:
            key.tag = key.tag if key.tag == _MERGE else _STRING
            _as_text(part, seen, (_NULL,) if key.value == LANGUAGE else (_NULL, *_NUMBERS))


def _audience(fields: Mapping[str, Any], folder: Path, *, allow_empty: bool) -> TargetsFile | list[Any]:
    targets, where, limit = fields.get("targets"), fields.get("filter"), fields.get("limit")
    if isinstance(targets, list):
        if where is not None or limit is not None:
            raise InvalidInput("filter, limit: are for targets in a file.")
        if not targets and not allow_empty:
            raise InvalidInput("targets: is an empty list; `--allow-empty` accepts that.")
        return [from_mapping(item, RowRules(), repr(item)) if isinstance(item, dict) else item for item in targets]
    if not isinstance(targets, str) or not targets:
        raise InvalidInput("targets: is missing; give a list, or the name of a file.")
    file = TargetsFile(targets if targets == STDIN else folder / targets, where=_where(where), limit=_rows(limit))
    file.check(allow_empty=allow_empty)
    return file


def _rows(limit: object) -> int | None:
    if limit is None:
        return None
    if not (isinstance(limit, str) and limit.isdecimal() and len(limit) <= len(str(MAX_TARGETS))):
        raise InvalidInput(f"limit: is {limit!r}; it must be a whole number of rows.")
    return int(limit)


def _where(where: object) -> dict[str, list[str]]:
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise InvalidInput(f"filter: is {where!r}; it must be a mapping from a column to a value or a list of values.")
    return {name: values if isinstance(values, list) else [values] for name, values in where.items()}


def _repeated_ids(jobs: Sequence[TaskEntry]) -> Iterator[str]:
    seen: set[str] = set()
    for job in jobs:
        if job.task.id is not None and job.task.id in seen:
            yield f"{job.name}: id: {job.task.id} is used twice in this file"
        seen.add(job.task.id or "")
