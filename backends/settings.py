"""Settings of connections: one frozen model for Pulsar, one for Redis, and one for how submissions publish.

They hold values only. The program reads them from the environment, a file or the command line (`fairlane.settings`).
"""

import re
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    WrapValidator,
    model_validator,
)

from backends.addresses import Address, as_address, checked_redis_url, not_configured, usable
from dispatcher.model.shown import hide, hide_in
from dispatcher.wire.topics import NAME_PATTERN

T = TypeVar("T", "PulsarSettings", "RedisSettings")

PulsarUrl = Annotated[str, StringConstraints(pattern=r"^pulsar(\+ssl)?://[^/\s]+/?$"), WrapValidator(as_address)]
"""`pulsar://host:port` or `pulsar+ssl://host:port`; several hosts are separated by commas."""
HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$"), AfterValidator(hide_in)]
AdminUrl = Annotated[HttpUrl, WrapValidator(as_address)]


def _read(secret: SecretStr) -> SecretStr:
    return SecretStr(hide(secret.get_secret_value()))


def _one_word(token: SecretStr) -> SecretStr:
    text = token.get_secret_value()
    text = hide(text[1:-1] if text[:1] in ("'", '"') and text[:1] == text[-1:] else text)
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError("it has white space, or characters that are not ASCII, inside; a token is one word")
    return SecretStr(text)


def _hide_key(path: Path) -> Path:
    if _KEY.fullmatch(str(path)):
        hide(str(path))
    return path


_KEY = re.compile(r"[\w+/=-]{64,}")
"""A key in the place of its file. Few paths are so long and have no dot."""
KeyFile = Annotated[Path, AfterValidator(_hide_key)]
Secret = Annotated[SecretStr, AfterValidator(_read)]
"""A secret setting. White space around it is removed, and no text of the process shows it."""
User = Annotated[str, StringConstraints(strip_whitespace=True)]
Token = Annotated[Secret, AfterValidator(_one_word)]
RedisUrl = Annotated[
    str,
    StringConstraints(pattern=r"^(rediss?(\+sentinel)?|unix)://[^\s]+$"),
    AfterValidator(checked_redis_url),
    WrapValidator(as_address),
]
"""`redis://host:port/db`, with `rediss` for TLS; `unix://path`; or `redis+sentinel://host:port,host:port/SERVICE/DB`."""
Name = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN}$")]
"""Letters, digits, `_ . -`; at most 64 characters."""
Compression = Literal["lz4", "zstd", "none"]
"""Compression of a producer's batches."""


def _both_or_none(settings: T) -> T:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ValueError("tls_cert and tls_key must be given together")
    return settings


class SettingGroup(BaseModel):
    """Base class of setting groups: frozen, and unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class PulsarSettings(SettingGroup):
    """A Pulsar cluster and the names Fairlane uses in it."""

    url: PulsarUrl | None = Field(
        default=None,
        description="Pulsar's binary address, pulsar:// or pulsar+ssl://, best of a load balancer; "
        "default: the local stack's",
    )
    admin_url: AdminUrl | None = Field(
        default=None, description="Pulsar's REST address, http:// or https://; default: the local stack's"
    )
    token: Token | None = Field(default=None, description="token (JWT) sent to Pulsar, for both addresses")
    tls_ca: Path | None = Field(
        default=None, description="PEM file of the authorities trusted to sign Pulsar's certificate"
    )
    tls_cert: Path | None = Field(default=None, description="PEM file of the client certificate shown to Pulsar")
    tls_key: KeyFile | None = Field(default=None, description="PEM file of the client certificate's private key")
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

    _certificate_and_key = model_validator(mode="after")(_both_or_none)

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


class StorageSettings(SettingGroup):
    """The object store of tables, and the keys to it. Without keys, each library looks into the environment."""

    endpoint: HttpUrl | None = Field(default=None, description="address of an S3 service; default: that of AWS")
    region: str | None = Field(default=None, description="region of the S3 service")
    access_key: Secret | None = Field(default=None, description="access key of S3; default: as AWS's tools find it")
    secret_key: Secret | None = Field(default=None, description="secret key of S3")
    session_token: Secret | None = Field(default=None, description="token of a temporary key of S3")
    azure_key: Secret | None = Field(default=None, description="key of the storage account in an abfss:// URL")

    def plain(self) -> dict[str, str]:
        """Return the values that are set, secrets in clear text."""
        return {
            name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            for name, value in self
            if value is not None
        }


class RedisSettings(SettingGroup):
    """One Redis (or Valkey) server or the Sentinels of one, the database in it and the prefix of every key."""

    url: RedisUrl | None = Field(
        default=None,
        description="Redis address: redis://, rediss:// (TLS), unix://, or redis+sentinel://host:port,host:port/NAME "
        "(rediss+sentinel:// for TLS); default: the local stack's",
    )
    username: User | None = Field(default=None, description="Redis user (ACL); overrides one in the address")
    password: Secret | None = Field(default=None, description="Redis password; overrides one in the address")
    sentinel_username: User | None = Field(default=None, description="user (ACL) of the Sentinels")
    sentinel_password: Secret | None = Field(
        default=None, description="password of the Sentinels; that of Redis is never sent to them"
    )
    tls_ca: Path | None = Field(
        default=None, description="PEM file of the authorities trusted to sign Redis' certificate"
    )
    tls_cert: Path | None = Field(default=None, description="PEM file of the client certificate shown to Redis")
    tls_key: KeyFile | None = Field(default=None, description="PEM file of the client certificate's private key")
    tls_verify_hostname: bool = Field(default=True, description="whether Redis' certificate must match the host name")
    prefix: Name = Field(
        default="fairlane", description="prefix of every key, so that installations can share a server"
    )
    socket_timeout_s: float = Field(
        default=5.0, gt=0, le=600, description="seconds to wait for Redis to answer one call"
    )
    connect_timeout_s: float = Field(default=2.0, gt=0, le=600, description="seconds to wait for a connection to Redis")

    _certificate_and_key = model_validator(mode="after")(_both_or_none)

    @property
    def address(self) -> Address:
        """Return the address. Raises NotConfigured; Unreachable if the local stack's Redis has ended."""
        return usable("Redis", self.url, self.missing())

    def missing(self) -> list[tuple[str, str]]:
        """Return the address if it is not set, as (server, setting)."""
        return [("Redis", "redis.url")] if self.url is None else []


class OffloadSettings(SettingGroup):
    """Where old records of the system namespace go."""

    driver: Literal["filesystem", "aws-s3", "google-cloud-storage", "azureblob", "aliyun-oss", "S3"] = Field(
        description="Pulsar's driver of the storage"
    )
    after_mb: int = Field(default=1024, ge=0, description="megabytes of a topic that stay on the bookies")
    keep_ms: int = Field(default=4 * 3_600_000, ge=0, description="ms for which bookies keep what was offloaded")
    directory: str | None = Field(
        default=None, description="directory of the offloaders (NAR files) on the brokers; default: their setting"
    )
    options: dict[str, str] = Field(
        default_factory=dict, description="further fields of Pulsar's offload policy, such as fileSystemURI"
    )


class Copies(NamedTuple):
    """The bookies of a ledger, and the copies of each of its entries."""

    ensemble: int
    """Number of bookies over which the ledger is spread."""
    write: int
    """Number of copies of an entry."""
    ack: int
    """Number of copies that a receipt waits for."""


class EstateSettings(SettingGroup):
    """Brokers and bookies as nodes: how they are asked, where they are, when one counts as slow."""

    bookie_http: str | None = Field(
        default=None,
        description="address of the bookies' HTTP interfaces with {host} for the bookie's host, as in "
        "http://{host}:8000; default: those of the local stack's estate, else bookies are not asked",
    )
    brokers: int | None = Field(
        default=None,
        ge=1,
        le=1_000,
        description="brokers of the cluster: doctor fails if fewer answer; default: the most that "
        "`fairlane provision` has found",
    )
    racks: dict[str, str] = Field(
        default_factory=dict, description='rack by bookie (host or host:port), as in { "10.0.0.1" = "/rack-1" }'
    )
    ensemble: int | None = Field(
        default=None, ge=1, le=16, description="bookies over which each ledger is spread; default: the brokers' setting"
    )
    write_quorum: int | None = Field(
        default=None, ge=1, le=16, description="copies of an entry; default: the ensemble's size, at most 2"
    )
    ack_quorum: int | None = Field(
        default=None, ge=1, le=16, description="copies that are stored before a receipt; default: write_quorum"
    )
    system_brokers: tuple[str, ...] = Field(
        default=(), description="regular expressions of the hosts of brokers that serve the system namespace alone"
    )
    system_bookies: tuple[str, ...] = Field(
        default=(), description="bookies (host or host:port) that hold the system namespace alone"
    )
    offload: OffloadSettings | None = Field(
        default=None, description="where old records of the system namespace go; default: they stay on the bookies"
    )
    grafana_url: HttpUrl | None = Field(
        default=None,
        description="address of the board of deploy/monitoring/board-estate.json, to which the console links",
    )
    guard: bool = Field(
        default=False,
        description="whether slow nodes are isolated by themselves; doctor then accepts receipts before all copies",
    )
    slow_ms: float = Field(default=300.0, gt=0, le=60_000, description="p99 in ms above which a node may be slow")
    slow_ratio: float = Field(
        default=3.0, gt=1, le=1_000, description="a node is slow if its p99 is also above this many times its peers'"
    )

    release_s: float = Field(
        default=300.0,
        gt=0,
        le=3_600,
        description="seconds for which the probes of an isolated node must be well before the guard releases it; "
        "doubled, up to an hour, for one that becomes slow again within as long",
    )
    look_s: float = Field(default=5.0, ge=0.5, le=60, description="seconds between two looks of the guard")

    @model_validator(mode="after")
    def _patterns_are_regular(self) -> Self:
        for pattern in self.system_brokers:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"system_brokers: {pattern!r} is no regular expression ({error})") from None
        return self

    @model_validator(mode="after")
    def _quorums_fit(self) -> Self:
        copies = self.copies
        if copies is None:
            if self.write_quorum is not None or self.ack_quorum is not None:
                raise ValueError("write_quorum and ack_quorum need ensemble")
        elif not copies.ensemble >= copies.write >= copies.ack:
            raise ValueError("ensemble, write_quorum and ack_quorum must not grow from one to the next")
        return self

    @property
    def copies(self) -> Copies | None:
        """Return the copies of each entry; None: as the brokers have them."""
        if self.ensemble is None:
            return None
        write = min(2, self.ensemble) if self.write_quorum is None else self.write_quorum
        return Copies(self.ensemble, write, write if self.ack_quorum is None else self.ack_quorum)


def require_addresses(pulsar: PulsarSettings, redis: RedisSettings) -> None:
    """Raise NotConfigured, naming all missing settings, unless both servers are configured."""
    if missing := [*pulsar.missing(), *redis.missing()]:
        raise not_configured(missing)


WhenFull = Literal["wait", "fail"]
"""Treatment of messages that no partition takes: wait for room, or raise QueueFull."""


class ProducerOptions(SettingGroup):
    """How submissions publish. The values derived from these options are in producers/publish/tuning.py."""

    memory_mib: int = Field(
        default=128,
        ge=16,
        le=65_536,
        description="MiB of unconfirmed messages of one submission; while Pulsar stalls they are in memory twice",
    )
    compression: Compression = Field(
        default="lz4",
        description="how batches are compressed: lz4, zstd (half the bytes, four times the CPU) or none (for many "
        "random tokens to an envelope, which do not shrink)",
    )
    when_full: WhenFull = Field(
        default="wait", description="what a submission does if Pulsar cannot keep up: wait or fail"
    )
    partition_above: int = Field(
        default=1_000_000,
        ge=0,
        description="expected targets above which the lane of a task gets partitions; 0 for never",
    )
    partition_targets: int = Field(
        default=2_500_000,
        ge=1,
        description="expected targets of a partition; a lane gets as many as are needed, at least two",
    )
    most_partitions: int = Field(default=12, ge=2, le=256, description="maximum number of partitions of one lane")

    note_stall_s: float = Field(
        default=30.0,
        gt=0,
        le=600,
        description="seconds without a receipt from Pulsar after which a submission logs a warning",
    )

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * 1024 * 1024


class ConnectionSettings(Protocol):
    """Settings of the servers and of submissions. fairlane.settings.Settings implements it."""

    @property
    def pulsar(self) -> PulsarSettings: ...

    @property
    def redis(self) -> RedisSettings: ...

    @property
    def producer(self) -> ProducerOptions: ...
