"""All settings of the program, and where they come from.

Settings are read in this order; the first match wins: an option of the command line, the environment
(FAIRLANE_PULSAR_URL is `pulsar.url`), the TOML file, the local stack (from `stack up` to `stack down`), the default.
The addresses of the servers have no default.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self, get_args, get_origin

from pydantic import BaseModel, Field, PrivateAttr, SecretStr, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from backends.addresses import Address
from backends.files import parse_toml, read_text
from backends.settings import EstateSettings, Name, ProducerOptions, PulsarSettings, RedisSettings, StorageSettings
from consumers.delivery.settings import HttpChannelSettings, PushChannels, PushChannelSettings
from dispatcher.model.errors import InvalidInput
from dispatcher.model.field_errors import in_words
from dispatcher.model.shown import MASK, SECRET_NAME, hide_named, masked_address, named_values, secrets_in_address
from fairlane.local_stack import addresses_in_force, cache_folder, home_folder
from fairlane.setting_groups import JournalSettings, LogSettings, WorkerSettings

ENV_PREFIX = "FAIRLANE_"
FILE_NAME = "fairlane.toml"

Values = dict[str, Any]
"""Settings as one source gives them: nested by group, not yet checked."""
_CHANNELS = TypeAdapter(dict[str, PushChannels])


class Settings(BaseSettings):
    """Settings of the whole program. `Settings()` reads keyword arguments, environment, TOML file and local stack.

    The first match wins. Raises InvalidInput, which names what is wrong and where it comes from.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
        env_ignore_empty=True,
        hide_input_in_errors=True,
    )

    config: Path | None = Field(
        default=None, description=f"TOML file of settings; default: ./{FILE_NAME}, if it exists"
    )
    home: Path | None = Field(
        default=None,
        description="directory of the local stack's data and logs; default: `fairlane` in the user's data directory",
    )
    cache: Path | None = Field(
        default=None,
        description="directory of downloads, shared by checkouts; default: `fairlane` in the user's cache directory",
    )
    tables: str | None = Field(
        default=None,
        description="directory of the tables that jobs read and write, or its URL in an object store "
        "(s3://, gs://, abfss://, hdfs://); default: `tables` in home",
    )
    pulsar: PulsarSettings = PulsarSettings()
    redis: RedisSettings = RedisSettings()
    estate: EstateSettings = EstateSettings()
    producer: ProducerOptions = ProducerOptions()
    storage: StorageSettings = StorageSettings()
    worker: WorkerSettings = WorkerSettings()
    journal: JournalSettings = JournalSettings()
    log: LogSettings = LogSettings()
    http: HttpChannelSettings = HttpChannelSettings()
    channels: dict[Name, dict[str, Any]] = Field(
        default_factory=dict, description="settings of the other channels, by channel name"
    )
    _push: dict[str, PushChannelSettings[Any]] = PrivateAttr(default_factory=dict)
    token_forms: dict[Name, str] = Field(
        default_factory=dict,
        description="regular expression that a whole target must match, by channel name; "
        "`fairlane ingest` refuses others",
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except (ValidationError, SettingsError) as error:
            raise _explained(error, values) from None

    @model_validator(mode="after")
    def _read_channels(self) -> Self:
        """Read the settings of `fcm` and `apns`, unless these are channels of the user."""
        own = PushChannels.model_fields.keys() - self.worker.channels.keys()
        push = {name: values for name, values in self.channels.items() if name in own}
        read = _CHANNELS.validate_python({"channels": push})["channels"]
        self._push = {name: settings for name, settings in read if name in push}
        for name in self.channels.keys() - push.keys():
            hide_named(self.channels[name])
        return self

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_others: Any, **_named: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in their order; there is no .env file and no secrets directory."""
        return tuple(InitSettingsSource(settings_cls, values) for _, values in Sources(init_settings()).all)

    @property
    def home_folder(self) -> Path:
        """Return the directory of the local stack. Raises InvalidInput if it is not set and the user has no home."""
        return home_folder(os.environ, self.home)

    @property
    def cache_folder(self) -> Path:
        """Return the directory of downloads. Raises InvalidInput if it is not set and the user has no home."""
        return cache_folder(os.environ, self.cache)

    @property
    def tables_folder(self) -> str:
        """Return the folder of the tables. Raises InvalidInput if neither it nor `home` is set or known."""
        return self.tables or str(self.home_folder / "tables")

    def channel_classes(self) -> dict[str, str]:
        """Return, by channel name, the built-in name or `module:Class` of every channel a worker serves."""
        http = {"http": "http"} if self.http.url else {}
        push = {name: name for name, settings in self._push.items() if settings.apps}
        return {"null": "null", "log": "log", **http, **push, **self.worker.channels}

    def channel_settings(self) -> dict[str, Values]:
        """Return the values that each channel is constructed with, by channel name."""
        push = {name: dict(settings) for name, settings in self._push.items()}
        return {"http": dict(self.http), **self.channels, **push}


def load_settings(options: Values | None = None) -> Settings:
    """Return the settings from all sources; `options` (nested by group) take precedence.

    Raises InvalidInput, which names what is wrong and where it comes from.
    """
    return Settings(**_with_source(options or {}, "from the command line"))


# ------------------------------------------------------------- sources
_LINK = re.compile(
    r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$|(?P<port>_PORT)$"
)
_LINK_TARGET = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)
"""Names of the variables of services. Those that end in _PORT alone, as settings do, are known by their value."""


def _own_variables() -> EnvSettingsSource:
    """Return the environment without the variables of services, which Kubernetes puts into every pod.

    A service `fairlane-redis` of anybody in the namespace would otherwise set FAIRLANE_REDIS_PORT.
    """
    source = EnvSettingsSource(Settings)
    source.env_vars = {name: text for name, text in source.env_vars.items() if not _is_of_service(name, text or "")}
    return source


def _is_of_service(name: str, text: str) -> bool:
    link = _LINK.search(name.upper())
    return link is not None and (not link["port"] or _LINK_TARGET.match(text) is not None)


def _first_path(name: str, *sources: Values) -> Path | None:
    """Return the top-level setting `name` of the first source that has it; None if it is no path, which a later check
    reports."""
    value = next((values[name] for values in sources if values.get(name)), None)
    return Path(value) if isinstance(value, str | Path) else None


def _file_values(named: Path | None) -> Values:
    """Return the values of the TOML file; none if no file was named and the default one does not exist."""
    file = named or Path(FILE_NAME)
    if named is None and not os.path.lexists(file):  # also false in a directory that may not be searched
        return {}
    try:
        return _with_source(parse_toml(read_text(file, "The settings file")), f"from {file}")
    except ValueError as error:
        raise InvalidInput(f"The settings file {file} is not TOML: {error}.", "Fix that line.") from error


def _with_source(values: Values, source: str) -> Values:
    """Return the same values, with the source recorded in the addresses of the servers."""
    return {
        group: {name: Address(value, source) if _is_address(name, value) else value for name, value in given.items()}
        if group in ("pulsar", "redis") and isinstance(given, dict)
        else given
        for group, given in values.items()
    }


def _is_address(name: str, value: object) -> bool:
    return name in ("url", "admin_url") and isinstance(value, str)


def _stack_values(home: Path | None) -> Values:
    """Return the addresses of the local stack, unless it was never started or was stopped by `stack down`.

    A user without a home directory has no local stack.
    """
    try:
        addresses = addresses_in_force(home_folder(os.environ, home))
    except InvalidInput:
        return {}
    if addresses is None:
        return {}
    values: Values = {
        "pulsar": {"url": addresses.pulsar_url, "admin_url": addresses.pulsar_admin_url},
        "redis": {"url": addresses.redis_url},
    }
    estate = {"bookie_http": addresses.bookie_http, "brokers": addresses.brokers}
    return values | ({"estate": estate} if addresses.bookie_http else {})


class Sources:
    """The sources in their order; finds the source of a setting."""

    def __init__(self, options: Values) -> None:
        env = _with_source(_own_variables()(), "from the environment")
        config = _first_path("config", options, env)
        file = _file_values(config)
        stack = _stack_values(_first_path("home", options, env, file))
        self.all = [("option", options), ("env", env), (f"file {config or FILE_NAME}", file), ("local stack", stack)]
        """The values of each source, behind its name."""

    def of(self, path: tuple[str, ...]) -> str:
        """Return the source of a setting.

        Examples: `option`, `env FAIRLANE_PULSAR_URL`, `file fairlane.toml`, `local stack`, `default`.
        """
        label = next((label for label, values in self.all if _has(values, path)), "default")
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


def _explained(error: ValidationError | SettingsError, options: Values) -> InvalidInput:
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
    read = _own_variables().env_vars
    for name in os.environ:
        source = EnvSettingsSource(Settings)
        source.env_vars = {name.lower(): read.get(name.lower())}
        try:
            source()
        except SettingsError:
            yield name


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
    if path[0] == "channels" and len(path) > 2 and path[1] in PushChannels.model_fields:
        model, path = PushChannels, path[1:]
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


# ------------------------------------------------------------- display
Leaf = tuple[tuple[str, ...], Any, str]
"""The path of a setting, its value and its description."""


@dataclass(frozen=True)
class SettingRow:
    """One setting for display: its value with secrets masked, its source, its description."""

    name: str
    value: Any
    source: str
    description: str


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
    push = settings._push
    others = {name: values for name, values in settings.channels.items() if name not in push}
    yield from _leaves(settings.model_copy(update={"channels": others}), ())
    for name, channel in push.items():
        yield from _leaves(channel, ("channels", name))


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
