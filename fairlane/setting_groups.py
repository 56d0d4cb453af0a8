"""Groups of settings that belong to the program itself. Those of servers and channels are beside these."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from backends.settings import Name, SettingGroup
from dispatcher.model.task import Name as ChannelName
from dispatcher.model.tier import TIERS, Tier
from dispatcher.settle import NamedTargets

ClassPath = Annotated[str, StringConstraints(pattern=r"^(null|log|http|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")]
"""A built-in channel's name, or `module:Class`."""
_PORTS = 65_536


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
