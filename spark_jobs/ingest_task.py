"""The file that says what an ingestion makes of its table: one task, or one for each part of a split."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dispatcher.errors import InvalidInput
from spark_jobs.task_options import TaskOptions, check_task, parse_options

_LISTS = ("split", "variables")
_NAMES = {"id": "task", "ttl_s": "ttl"}


def read_task(path: Path, servers: Mapping[str, str]) -> TaskOptions:
    """A mapping, in YAML or JSON, with the fields of a PushTask (id, app, tier, channel, message, ttl_s, start_at, ...)
    and besides: `split` and `variables` (names of columns), `messages` (by language, where split by it).

    servers: as spark_jobs.servers.values_of gives them. Raises InvalidInput that names the file and what is wrong.
    """
    content = _load(path)
    try:
        options = parse_options({**servers, **_texts(content)})
        if not options.task:
            raise InvalidInput("id: is missing.", "With it, running the same again completes the task.")
        check_task(options, options.task)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error.cause}", error.next_step) from None
    return options


def _texts(content: Mapping[str, Any]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, value in content.items():
        if value is None:
            continue
        if name == "messages" and isinstance(value, Mapping):
            texts |= {f"message.{str(language).lower()}": _text(text) for language, text in value.items()}
        elif name in _LISTS and isinstance(value, list):
            texts[name] = ",".join(map(str, value))
        else:
            texts[_NAMES.get(name, name)] = _text(value)
    return texts


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def _load(path: Path) -> Mapping[str, Any]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            content = yaml.safe_load(file)
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.") from error
    except yaml.YAMLError as error:
        raise InvalidInput(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())}.") from error
    if isinstance(content, Mapping) and isinstance(tasks := content.get("tasks"), list) and len(tasks) == 1:
        content = tasks[0]
    if not isinstance(content, Mapping) or "tasks" in content:
        raise InvalidInput(f"{path}: is not one task.", "An ingestion makes one task: a mapping of its fields.")
    return {str(name): value for name, value in content.items()}
