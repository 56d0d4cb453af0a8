"""All settings of the program, and where they come from.

Settings are read in this order; the first match wins: an option of the command line, the environment
(FAIRLANE_PULSAR_URL is `pulsar.url`), the TOML file, the local stack (from `stack up` to `stack down`), the default.
The addresses of the servers have no default.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from backends.addresses import Address
from backends.settings import EstateSettings, Name, PulsarSettings, RedisSettings
from backends.text_files import parse_toml, read_text
from dispatcher.model.errors import InvalidInput
from dispatcher.model.shown import hide_named
from fairlane.local_stack import addresses_in_force, cache_folder, home_folder
from fairlane.push_settings import PUSH_CHANNELS, PushChannelSettings
from fairlane.setting_groups import HttpChannelSettings, JournalSettings, LogSettings, WorkerSettings
from producers.settings import ProducerOptions

ENV_PREFIX = "FAIRLANE_"
FILE_NAME = "fairlane.toml"

_LINK = re.compile(
    r"_SERVICE_HOST$|_SERVICE_PORT(_\w+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$|(?P<port>_PORT)$"
)
_LINK_TARGET = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)
"""Names of the variables of services. Those that end in _PORT alone, as settings do, are known by their value."""

Values = dict[str, Any]
"""Settings as one source gives them: nested by group, not yet checked."""


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
    tables: Path | None = Field(
        default=None, description="directory of the tables that jobs read and write; default: `tables` in home"
    )
    pulsar: PulsarSettings = PulsarSettings()
    redis: RedisSettings = RedisSettings()
    estate: EstateSettings = EstateSettings()
    producer: ProducerOptions = ProducerOptions()
    worker: WorkerSettings = WorkerSettings()
    journal: JournalSettings = JournalSettings()
    log: LogSettings = LogSettings()
    http: HttpChannelSettings = HttpChannelSettings()
    channels: dict[Name, dict[str, Any]] = Field(
        default_factory=dict, description="settings of the other channels, by channel name"
    )
    _push: dict[str, PushChannelSettings] = PrivateAttr(default_factory=dict)
    token_forms: dict[Name, str] = Field(
        default_factory=dict,
        description="regular expression that a whole target must match, by channel name; "
        "`fairlane ingest` refuses others",
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except (ValidationError, SettingsError) as error:
            from fairlane.settings_sources import explained  # that module imports this one

            raise explained(error, values) from None
        for name in PUSH_CHANNELS.keys() & self.channels.keys() - self.worker.channels.keys():
            self._push[name] = self._read_push(name, values)
        for name in self.channels.keys() - self._push.keys():
            hide_named(self.channels[name])

    def _read_push(self, name: str, values: Values) -> PushChannelSettings:
        try:
            return PUSH_CHANNELS[name].model_validate(self.channels[name])
        except ValidationError as error:
            from fairlane.settings_sources import explained  # that module imports this one

            raise explained(error, values, ("channels", name)) from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in their order; there is no .env file and no secrets directory."""
        environment = own_variables(cls)
        env = GivenSource(cls, lambda: with_source(environment(), "from the environment"))
        file = GivenSource(cls, lambda: file_values(first_path("config", init_settings(), environment())))
        stack = GivenSource(cls, lambda: stack_values(first_path("home", init_settings(), environment(), file())))
        return init_settings, env, file, stack

    @property
    def home_folder(self) -> Path:
        """Return the directory of the local stack. Raises InvalidInput if it is not set and the user has no home."""
        return home_folder(os.environ, self.home)

    @property
    def cache_folder(self) -> Path:
        """Return the directory of downloads. Raises InvalidInput if it is not set and the user has no home."""
        return cache_folder(os.environ, self.cache)

    @property
    def tables_folder(self) -> Path:
        """Return the folder of the tables. Raises InvalidInput if neither it nor `home` is set or known."""
        return self.tables or self.home_folder / "tables"

    def channel_classes(self) -> dict[str, str]:
        """Return, by channel name, the built-in name or `module:Class` of every channel a worker serves."""
        http = {"http": "http"} if self.http.url else {}
        push = {name: name for name, settings in self._push.items() if settings.apps}
        return {"null": "null", "log": "log", **http, **push, **self.worker.channels}

    def push_channels(self) -> dict[str, PushChannelSettings]:
        """Return the settings of `fcm` and `apns`, as far as they are set and not replaced by channels of the user."""
        return dict(self._push)

    def channel_settings(self) -> dict[str, Values]:
        """Return, by channel name, the channel's settings as plain values, with secrets in clear text."""
        push = {name: settings.plain() for name, settings in self._push.items()}
        return {"http": self.http.plain(), **self.channels, **push}


def own_variables(settings_cls: type[BaseSettings]) -> EnvSettingsSource:
    """Return the environment without the variables of services, which Kubernetes puts into every pod.

    A service `fairlane-redis` of anybody in the namespace would otherwise set FAIRLANE_REDIS_PORT.
    """
    source = EnvSettingsSource(settings_cls)
    source.env_vars = {name: text for name, text in source.env_vars.items() if not _is_of_service(name, text or "")}
    return source


def _is_of_service(name: str, text: str) -> bool:
    link = _LINK.search(name.upper())
    return link is not None and (not link["port"] or _LINK_TARGET.match(text) is not None)


class GivenSource(PydanticBaseSettingsSource):
    """A source whose values come from a function, which is called when they are needed."""

    def __init__(self, settings_cls: type[BaseSettings], read: Callable[[], Values]) -> None:
        super().__init__(settings_cls)
        self._read = read

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Not used: the source returns all values at once."""
        return None, field_name, False

    def __call__(self) -> Values:
        return self._read()


def first_path(name: str, *sources: Values) -> Path | None:
    """Return the top-level setting `name` of the first source that has it; None if it is no path, which a later check
    reports."""
    value = next((values[name] for values in sources if values.get(name)), None)
    return Path(value) if isinstance(value, str | Path) else None


def file_values(named: Path | None) -> Values:
    """Return the values of the TOML file; none if no file was named and the default one does not exist."""
    file = named or Path(FILE_NAME)
    if named is None and not os.path.lexists(file):  # also false in a directory that may not be searched
        return {}
    try:
        return with_source(parse_toml(read_text(file, "The settings file")), f"from {file}")
    except ValueError as error:
        raise InvalidInput(f"The settings file {file} is not TOML: {error}.", "Fix that line.") from error


def with_source(values: Values, source: str) -> Values:
    """Return the same values, with the source recorded in the addresses of the servers."""
    return {
        group: {name: Address(value, source) if _is_address(name, value) else value for name, value in given.items()}
        if group in ("pulsar", "redis") and isinstance(given, dict)
        else given
        for group, given in values.items()
    }


def _is_address(name: str, value: object) -> bool:
    return name in ("url", "admin_url") and isinstance(value, str)


def stack_values(home: Path | None) -> Values:
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
