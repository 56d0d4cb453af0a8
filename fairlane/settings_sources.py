"""Reads settings with clear errors, and finds the source of each one."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource, SettingsError

from dispatcher.model.errors import InvalidInput
from dispatcher.model.field_errors import in_words
from dispatcher.model.shown import MASK, without_credentials
from fairlane.settings import (
    ENV_PREFIX,
    FILE_NAME,
    Settings,
    Values,
    file_values,
    first_path,
    stack_values,
    with_source,
)

REMOVED = {
    "worker.grace_s": "was removed in 0.2.0: without Redis a worker sends what it has leased, then waits. Delete it",
}
"""Messages for settings of earlier versions, by name."""
SECRET_NAME = re.compile(r"pass|secret|token|key|auth|credential", re.IGNORECASE)


@dataclass(frozen=True)
class SettingRow:
    """One setting for display: its value with secrets masked, its source, its description."""

    name: str
    value: Any
    source: str
    description: str


def load_settings(options: Values | None = None) -> Settings:
    """Return the settings from all sources; `options` (nested by group) take precedence.

    Raises InvalidInput, which names what is wrong and where it comes from.
    """
    return Settings(**with_source(options or {}, "from the command line"))


def explained(error: ValidationError | SettingsError, options: Values) -> InvalidInput:
    """Return the error that names each wrong setting and where it comes from."""
    if isinstance(error, SettingsError):
        named = " and ".join(_unreadable_variables())
        return InvalidInput(
            f"In the environment, {named or 'a setting'} cannot be read: it is not JSON.",
            'Write it as in {"name": "value"}.',
        )
    sources = Sources(options)
    lines = [_explain(fault, sources) for fault in error.errors(include_url=False)]
    return InvalidInput(" ".join(lines), "`fairlane config show` lists all settings.")


def _unreadable_variables() -> Iterator[str]:
    """Yield the variables that cannot be read, trying each alone."""
    for name, value in os.environ.items():
        source = EnvSettingsSource(Settings)
        source.env_vars = {name.lower(): value}
        try:
            source()
        except SettingsError:
            yield name


class Sources:
    """The sources in their order; finds the source of a setting."""

    def __init__(self, options: Values) -> None:
        env: Values = EnvSettingsSource(Settings)()
        config = first_path("config", options, env)
        file = file_values(config)
        stack = stack_values(first_path("home", options, env, file))
        self._all = [("option", options), ("env", env), (f"file {config or FILE_NAME}", file), ("local stack", stack)]

    def of(self, path: tuple[str, ...]) -> str:
        """Return the source of a setting.

        Examples: `option`, `env FAIRLANE_PULSAR_URL`, `file fairlane.toml`, `local stack`, `default`.
        """
        label = next((label for label, values in self._all if _has(values, path)), "default")
        return f"env {_env_name(path)}" if label == "env" else label


def _env_name(path: tuple[str, ...]) -> str:
    named = (f"{ENV_PREFIX}{'_'.join(path[:length])}".upper() for length in (len(path), 2, 1))
    upper = {name.upper() for name in os.environ}
    return next((name for name in named if name in upper), f"{ENV_PREFIX}{'_'.join(path[:2])}".upper())


def _has(values: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(values, dict) or part not in values:
            return False
        values = values[part]
    return values is not None


def _explain(fault: ErrorDetails, sources: Sources) -> str:
    path = tuple(str(part) for part in fault["loc"])
    name = ".".join(path)
    origin = sources.of(path)
    if fault["type"] == "extra_forbidden":
        if name in REMOVED:
            return f"Setting {name} ({origin}) {REMOVED[name]}."
        return f"There is no setting {name} ({origin})."
    field = _field(path)
    what = f" Its meaning: {field.description}." if field is not None and field.description else ""
    shown = "" if SECRET_NAME.search(name) else f" is {str(masked(path[-1], fault['input']))!r}, which"
    return f"Setting {name} ({origin}){shown} is not allowed: {in_words(dict(fault))}.{what}"


def _field(path: tuple[str, ...]) -> FieldInfo | None:
    model: Any = Settings
    field: FieldInfo | None = None
    for part in path:
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return field
        by_alias = {info.alias or name: info for name, info in model.model_fields.items()}
        if part not in by_alias:
            return field
        field = by_alias[part]
        model = field.annotation
    return field


def explain_settings(settings: Settings, options: Values | None = None) -> list[SettingRow]:
    """Return a row for every setting, in the order of the groups."""
    sources = Sources(options or {})
    return [
        SettingRow(".".join(path), masked(path[-1], value), sources.of(path), description)
        for path, value, description in _leaves(settings, ())
    ]


def _leaves(model: BaseModel, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        path = (*above, info.alias or name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, path)
        else:
            yield path, value, info.description or ""


def masked(name: str, value: Any) -> Any:
    """Return the value with secrets and the credentials of addresses hidden."""
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, dict):
        return {key: masked(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(name, inner) for inner in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str):
        return MASK if SECRET_NAME.search(name) and not name.startswith("tls_") else without_credentials(value)
    return value
