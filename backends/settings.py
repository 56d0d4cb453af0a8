"""Connection settings of the servers: one frozen model for Pulsar, one for Redis.

They hold values only. The program reads them from the environment, a file or the command line (`fairlane.settings`).
"""

from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, WrapValidator, model_validator

from backends.addresses import Address, as_address, not_configured, usable
from dispatcher.wire.topics import NAME_PATTERN

T = TypeVar("T")

PulsarUrl = Annotated[str, StringConstraints(pattern=r"^pulsar(\+ssl)?://[^/\s]+/?$"), WrapValidator(as_address)]
"""`pulsar://host:port` or `pulsar+ssl://host:port`; several hosts are separated by commas."""
HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")]
AdminUrl = Annotated[HttpUrl, WrapValidator(as_address)]
RedisUrl = Annotated[str, StringConstraints(pattern=r"^(rediss?|unix)://[^\s]+$"), WrapValidator(as_address)]
Name = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN}$")]
"""Letters, digits, `_ . -`; at most 64 characters."""
Compression = Literal["lz4", "zstd", "none"]
"""Compression of a producer's batches."""


class PulsarSettings(BaseModel):
    """A Pulsar cluster and the names Fairlane uses in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: PulsarUrl | None = Field(
        default=None,
        description="Pulsar's binary address, pulsar:// or pulsar+ssl://; default: the local stack's",
    )
    admin_url: AdminUrl | None = Field(
        default=None, description="Pulsar's REST address, http:// or https://; default: the local stack's"
    )
    token: SecretStr | None = Field(default=None, description="token (JWT) sent to Pulsar, for both addresses")
    tls_ca: Path | None = Field(
        default=None, description="PEM file of the authorities trusted to sign Pulsar's certificate"
    )
    tls_cert: Path | None = Field(default=None, description="PEM file of the client certificate shown to Pulsar")
    tls_key: Path | None = Field(default=None, description="PEM file of the client certificate's private key")
    tls_verify_hostname: bool = Field(default=True, description="whether Pulsar's certificate must match the host name")
    tenant: Name = Field(default="fairlane", description="Pulsar tenant that holds everything of this installation")
    namespaces: int = Field(
        default=16, ge=1, le=1024, description="numbered namespaces that task lanes are spread over"
    )
    bundles: int = Field(
        default=4, ge=1, le=256, description="bundles of a namespace, set when it is created (never split later)"
    )
    shared_lanes: int = Field(default=8, ge=1, le=1024, description="shared lanes for small low tasks")
    outcome_partitions: int = Field(
        default=4, ge=1, le=256, description="outcome topics; each is folded in order by one worker"
    )
    operation_timeout_s: float = Field(
        default=30.0, gt=0, le=600, description="seconds to wait for Pulsar to answer one request"
    )
    connect_timeout_s: float = Field(
        default=5.0, gt=0, le=600, description="seconds to wait for a connection to Pulsar"
    )
    io_threads: int = Field(default=1, ge=1, le=64, description="network threads of the Pulsar client in each process")

    @model_validator(mode="after")
    def _certificate_and_key_come_together(self) -> Self:
        return _both_or_none(self, self.tls_cert, self.tls_key)

    @property
    def address(self) -> Address:
        """Return the binary address. Raises NotConfigured; Unreachable if the local stack's Pulsar has ended."""
        return usable("Pulsar", self.url, self.missing())

    @property
    def admin_address(self) -> Address:
        """Return the REST address. Raises as `address`."""
        return usable("Pulsar", self.admin_url, self.missing())

    def missing(self) -> list[tuple[str, str]]:
        """Return the addresses that are not set, as (server, setting)."""
        given = {"pulsar.url": self.url, "pulsar.admin_url": self.admin_url}
        return [("Pulsar", setting) for setting, url in given.items() if url is None]


class RedisSettings(BaseModel):
    """One Redis (or Valkey) server, the database in it and the prefix of every key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: RedisUrl | None = Field(
        default=None,
        description="Redis address, redis://, rediss:// (TLS) or unix://; default: the local stack's",
    )
    username: str | None = Field(default=None, description="Redis user (ACL); overrides one in the address")
    password: SecretStr | None = Field(default=None, description="Redis password; overrides one in the address")
    tls_ca: Path | None = Field(
        default=None, description="PEM file of the authorities trusted to sign Redis' certificate"
    )
    tls_cert: Path | None = Field(default=None, description="PEM file of the client certificate shown to Redis")
    tls_key: Path | None = Field(default=None, description="PEM file of the client certificate's private key")
    tls_verify_hostname: bool = Field(default=True, description="whether Redis' certificate must match the host name")
    prefix: Name = Field(
        default="fairlane", description="prefix of every key, so that installations can share a server"
    )
    socket_timeout_s: float = Field(
        default=5.0, gt=0, le=600, description="seconds to wait for Redis to answer one call"
    )
    connect_timeout_s: float = Field(default=2.0, gt=0, le=600, description="seconds to wait for a connection to Redis")

    @model_validator(mode="after")
    def _certificate_and_key_come_together(self) -> Self:
        return _both_or_none(self, self.tls_cert, self.tls_key)

    @property
    def address(self) -> Address:
        """Return the address. Raises NotConfigured; Unreachable if the local stack's Redis has ended."""
        return usable("Redis", self.url, self.missing())

    def missing(self) -> list[tuple[str, str]]:
        """Return the address if it is not set, as (server, setting)."""
        return [("Redis", "redis.url")] if self.url is None else []


def require_addresses(pulsar: PulsarSettings, redis: RedisSettings) -> None:
    """Raise NotConfigured, naming all missing settings, unless both servers are configured."""
    if missing := [*pulsar.missing(), *redis.missing()]:
        raise not_configured(missing)


def _both_or_none(settings: T, cert: Path | None, key: Path | None) -> T:
    if (cert is None) != (key is None):
        raise ValueError("tls_cert and tls_key must be given together")
    return settings
