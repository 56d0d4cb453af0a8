"""Settings of submissions. Like those of the servers in backends.settings, they are values only."""

from typing import Literal, Protocol

from pydantic import Field

from backends.settings import Compression, PulsarSettings, RedisSettings, SettingGroup

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
