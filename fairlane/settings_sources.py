"""Reads settings with clear errors, and finds the source of each one."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource, SettingsError

from dispatcher.model.errors import InvalidInput
from dispatcher.model.field_errors import in_words
from dispatcher.model.shown import MASK, SECRET_NAME, masked_address, named_values, secrets_in_address
from fairlane.push_settings import PUSH_CHANNELS
from fairlane.settings import (
    ENV_PREFIX,
    FILE_NAME,
    Settings,
    Values,
    file_values,
    first_path,
    own_variables,
    stack_values,
    with_source,
)

Leaf = tuple[tuple[str, ...], Any, str]
"""The path of a setting, its value and its description."""


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


def explained(error: ValidationError | SettingsError, options: Values, above: tuple[str, ...] = ()) -> InvalidInput:
    """Return the error that names each wrong setting and where it comes from. `above`: group in which it was found."""
    if isinstance(error, SettingsError):
        named = " and ".join(_unreadable_variables())
        return InvalidInput(
            f"In the environment, {named or 'a setting'} cannot be read: it is not JSON.",
            'Write it as in {"name": "value"}.',
        )
    sources = Sources(options)
    lines = [_explain({**fault, "loc": (*above, *fault["loc"])}, sources) for fault in error.errors(include_url=False)]
    return InvalidInput(" ".join(lines), "`fairlane config show` lists all settings.")


def _unreadable_variables() -> Iterator[str]:
    """Yield the variables that cannot be read, trying each alone."""
    read = own_variables(Settings).env_vars
    for name in os.environ:
        source = EnvSettingsSource(Settings)
        source.env_vars = {name.lower(): read.get(name.lower())}
        try:
            source()
        except SettingsError:
            yield name


class Sources:
    """The sources in their order; finds the source of a setting."""

    def __init__(self, options: Values) -> None:
        env: Values = own_variables(Settings)()
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
        near = get_close_matches(name, _names(), 1)
        return f"There is no setting {name} ({origin}).{f' The nearest is {near[0]}.' if near else ''}"
    field = _field(path)
    what = f" Its meaning: {field.description}." if field is not None and field.description else ""
    if fault["type"] == "missing":
        return f"Setting {name} {in_words(dict(fault))}.{what}"
    is_group = isinstance(fault["input"], dict)  # with all its secrets
    shown = "" if is_group or SECRET_NAME.search(name) else f" is {str(masked(path[-1], fault['input']))!r}, which"
    return f"Setting {name} ({origin}){shown} is not allowed: {in_words(dict(fault))}.{what}"


def _names() -> list[str]:
    """Return the names of all settings of groups."""
    groups = [(name, info.annotation) for name, info in Settings.model_fields.items()]
    return [
        f"{group}.{info.alias or name}"
        for group, model in groups
        if isinstance(model, type) and issubclass(model, BaseModel)
        for name, info in model.model_fields.items()
    ]


def _field(path: tuple[str, ...]) -> FieldInfo | None:
    model: Any = Settings
    field: FieldInfo | None = None
    if len(path) > 2 and path[0] == "channels" and path[1] in PUSH_CHANNELS:
        model, path = PUSH_CHANNELS[path[1]], path[2:]
    for part in path:
        if get_origin(model) is dict:  # of groups, by name
            model = get_args(model)[1]
            continue
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
        for path, value, description in _all_leaves(settings)
    ]


def secret_values(settings: Settings) -> Iterator[str]:
    """Yield the values that `explain_settings` hides, as they are, and the passwords in addresses."""
    for path, given, _ in _all_leaves(settings):
        for name, value in named_values(given, path[-1]):
            if isinstance(value, SecretStr) and masked(name, value) == MASK:
                yield value.get_secret_value()
            elif isinstance(value, str) and masked(name, value) != value:
                yield from secrets_in_address(value) if "://" in value else (value,)


def _all_leaves(settings: Settings) -> Iterator[Leaf]:
    push = settings.push_channels()
    others = {name: values for name, values in settings.channels.items() if name not in push}
    yield from _leaves(settings.model_copy(update={"channels": others}), ())
    for name, model in push.items():
        yield from _leaves(model, ("channels", name))


def _leaves(model: BaseModel, above: tuple[str, ...]) -> Iterator[Leaf]:
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        path = (*above, info.alias or name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, path)
        elif isinstance(value, dict) and any(isinstance(inner, BaseModel) for inner in value.values()):
            for key, inner in value.items():
                yield from _leaves(inner, (*path, key))
        else:
            yield path, value, info.description or ""


def masked(name: str, value: Any) -> Any:
    """Return the value with secrets and the credentials of addresses hidden. The place of a credential is none."""
    if isinstance(value, SecretStr):
        is_place = name == "credentials" and value.get_secret_value().startswith(("file:", "env:", "google:"))
        return value.get_secret_value() if is_place else MASK
    if isinstance(value, dict):
        return {key: masked(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(name, inner) for inner in value]
    if isinstance(value, str):
        return MASK if SECRET_NAME.search(name) and not name.startswith("tls_") else _without_password(name, value)
    return str(value) if isinstance(value, Path) else value


def _without_password(name: str, text: str) -> str:
    return masked_address(text) if "://" in text or name.endswith("url") else text
