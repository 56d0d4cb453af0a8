"""Load scenarios by name or from a file, with errors that name the field."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from backends.files import read_text
from backends.yaml_loader import BoundedLoader
from dispatcher.model.errors import InvalidInput, NotFound
from dispatcher.model.field_errors import in_words
from lab.simulator.scenario.scenario import Scenario

SUFFIX = ".yaml"


def names() -> list[str]:
    """Return the names of the scenarios that ship."""
    folder = files("lab.simulator.scenario") / "scenarios"
    return sorted(entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX))


def find(name: str) -> Scenario:
    """Return a scenario by its name, or from a YAML file. Raises NotFound, InvalidInput."""
    if name in names():
        text = (files("lab.simulator.scenario") / "scenarios" / f"{name}{SUFFIX}").read_text(encoding="utf-8")
        return parse(text, name)
    return parse(_read(Path(name)), Path(name).stem)


def _read(file: Path) -> str:
    try:
        return read_text(file, next_step="Give a YAML file.")
    except InvalidInput as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
    raise NotFound(f"There is no scenario and no file named {file}.", "`fairlane simulate --list` names the scenarios.")


def parse(text: str, name: str) -> Scenario:
    """Parse a scenario from YAML. Raises InvalidInput."""
    try:
        data = yaml.load(text, BoundedLoader)  # noqa: S506  # it is a SafeLoader
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidInput(f"Scenario {name} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(data, dict):
        raise InvalidInput(f"Scenario {name} is not a mapping.", "Begin with `duration_s: 30`.")
    return check({"name": name, **data})


def check(data: dict[str, Any]) -> Scenario:
    """Return a scenario from its fields. Raises InvalidInput that names the first wrong one."""
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        detail = error.errors()[0]
        field = ".".join(str(part) for part in detail["loc"]) or "scenario"
        raise InvalidInput(
            f"Scenario {data.get('name', '')}: {field}: {in_words(dict(detail))}.",
            "docs/fairness.md describes the fields of a scenario.",
        ) from error
