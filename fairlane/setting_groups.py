"""Groups of settings that belong to the program itself; those of the servers are in backends.settings."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)

from backends.settings import HttpUrl, Name, Secret
from dispatcher.model.shown import SECRET_NAME, bare, hide
from dispatcher.model.task import Name as ChannelName
from dispatcher.model.tier import TIERS, Tier
from dispatcher.settle import NamedTargets

ClassPath = Annotated[str, StringConstraints(pattern=r"^(null|log|http|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")]
"""A built-in channel's name, or `module:Class`."""
_PORTS = 65_536
_LONG_VALUE = 16


def _one_line(value: SecretStr) -> SecretStr:
    text = bare(value.get_secret_value())
    if not text.isprintable():
        raise ValueError("it has a line break, or another character that no header may have")
    return SecretStr(text)


HeaderValue = Annotated[SecretStr, AfterValidator(_one_line)]


class SettingGroup(BaseModel):
    """Base class of setting groups: frozen, and unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def plain(self) -> dict[str, Any]:
        """Return the settings as plain values, with secrets in clear text."""
        return {name: _plain(getattr(self, name)) for name in type(self).model_fields}


def _plain(value: Any) -> Any:
    if isinstance(value, SettingGroup):
        return value.plain()
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return str(value) if isinstance(value, Path) else value


class WorkerSettings(SettingGroup):
    """A worker process."""

    name: Name | None = Field(default=None, description="name of the worker; default: host name and process id")
    processes: int = Field(default=1, ge=1, le=256, description="worker processes that one `fairlane worker` starts")
    drain_timeout_s: float = Field(
        default=20.0, gt=0, le=3600, description="maximum seconds a worker takes to finish on SIGTERM"
    )
    metrics_host: str = Field(default="127.0.0.1", description="address that serves the Prometheus metrics")
    metrics_port: int = Field(
        default=0,
        ge=-1,
        le=65_535,
        description="port of the Prometheus metrics (further processes take the next ones); 0 for any, -1 for none",
    )
    max_lanes: int = Field(default=1_000, ge=1, le=100_000, description="maximum number of lanes one worker holds")
    tiers: tuple[Tier, ...] = Field(default=TIERS, description="tiers whose lanes the worker holds; by default all")
    buffer_targets: int = Field(
        default=400_000,
        ge=1_000,
        le=10_000_000,
        description="maximum targets that one worker holds over all its lanes (at most half of them from one lane); "
        "with a slow Redis, a worker sends at most half of what it holds per answer from Redis",
    )
    snapshot_every_s: float = Field(
        default=600.0,
        ge=0,
        le=86_400,
        description="seconds between two snapshots of the view, from which a rebuild starts; 0 for none",
    )
    channels: dict[ChannelName, ClassPath] = Field(
        default_factory=dict,
        description="your own channels, name to module:Class (null and log are built in; http is with http.url, "
        "fcm and apns with apps)",
    )

    @model_validator(mode="after")
    def _can_serve(self) -> Self:
        if not self.tiers:
            raise ValueError("tiers must name at least one tier")
        if self.metrics_port + self.processes > _PORTS:
            raise ValueError("metrics_port leaves too few ports for the further processes")
        return self


class JournalSettings(SettingGroup):
    """Contents of outcome records for the outcome journal."""

    targets: NamedTargets = Field(
        default="dead",
        description="targets that outcome records name by value beside those that a provider called invalid, which "
        "they always name: none, dead (none either) or all (records grow by the length of the targets)",
    )


class LogSettings(SettingGroup):
    """The program's own log, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="minimum log level")
    json_lines: bool = Field(default=False, alias="json", description="write each message as one JSON object")

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class HttpChannelSettings(SettingGroup):
    """The `http` channel: each envelope is a POST to one address."""

    url: HttpUrl | None = Field(
        default=None,
        description="URL that the http channel posts to, http:// or https://; without it there is no http channel",
    )
    timeout_s: float = Field(default=10.0, gt=0, le=120, description="seconds one POST may take")
    concurrency: int = Field(default=64, ge=1, le=10_000, description="maximum concurrent POSTs of each process")
    headers: dict[str, HeaderValue] = Field(default_factory=dict, description="headers added to each POST")
    signing_secret: Secret | None = Field(
        default=None,
        description="POSTs are signed with it as Standard Webhooks says: whsec_ and the base64 of 24 to 64 bytes",
    )
    strict_answers: bool = Field(
        default=True,
        description="whether an answer of 2xx that is neither empty nor a JSON object with `failed` is a fault "
        "(its targets fail) rather than sent",
    )

    @field_validator("headers")
    @classmethod
    def _hide_secrets(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        """Hide the values that may be secrets, but not such as `production`, which are in other texts too."""
        for name, value in headers.items():
            if SECRET_NAME.search(name) or len(value) >= _LONG_VALUE:
                hide(value.get_secret_value())
        return headers

    client: Literal["auto", "aiohttp", "pycurl"] = Field(
        default="auto",
        description="client that posts: aiohttp, or pycurl (of the extra push), which takes less CPU; auto: pycurl if "
        "it is installed",
    )
