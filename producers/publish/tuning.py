"""Derive a producer's settings, each with its reason, from a task's needs: partitions, message size, rate, memory.

Nothing here knows a server. `fairlane tune producer` shows the settings that submissions use.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from backends.settings import ProducerOptions
from dispatcher.model.errors import InvalidInput
from dispatcher.scheduling.read_ahead import envelope_bytes, receiver_queue
from dispatcher.wire.control import TaskRecord
from dispatcher.wire.envelope import MAX_ENVELOPE_BYTES

MIN_PENDING, MAX_PENDING = 1_000, 2_000
"""Minimum and maximum of the messages of one partition that are sent and not yet confirmed. Fewer leave the broker idle
between two answers. More only wait in the client, where a stalled partition keeps them from the others."""
CONFIRM_S = 0.3
"""The time a busy broker may take to confirm; the messages sent in this time are pending."""
LARGEST_BATCH_BYTES = 1024 * 1024
"""A fifth of the largest message a broker accepts."""
BATCHES_READ_AHEAD = 4
"""One batch takes this fraction (one in four) of a consumer's queue: permits count messages, but a batch comes
whole."""
SHORTEST_DELAY_MS, LONGEST_DELAY_MS = 1, 100
FIXED: Mapping[str, tuple[str, str]] = {
    "routing": ("round robin by batch", "a batch goes to one partition as a whole, so that there are few batches"),
    "compression": (
        "lz4, or none",
        "text that repeats in a batch is sent once; none if the first envelopes do not shrink; zstd halves any hex",
    ),
    "send_timeout": (
        "none",
        "a message fails only with all after it; replace a producer without receipts for 20 s",
    ),
}
"""Settings that do not depend on the need: value and reason."""
MIB = 1024 * 1024
TARGETS_PER_S = 2_000_000.0
ENVELOPES_PER_S = 50_000.0
"""Rates that one submitting process should reach; the lower of the two is the rate of its producer."""


@dataclass(frozen=True, slots=True)
class ProducerNeeds:
    """The needs of one producer.

    Raises InvalidInput where they cannot be met: a value that is not positive, a message no broker takes, or a memory
    that does not hold two messages per partition.
    """

    partitions: int = 1
    message_bytes: int = 1_000
    """Size of a typical message."""
    rate: float = 50_000.0
    """Messages/s over all partitions."""
    memory_bytes: int = 64 * MIB
    """The maximum memory of unconfirmed messages."""
    receiver_queue: int = 1_000
    """Messages each consumer holds ahead of time."""

    def __post_init__(self) -> None:
        for name in ("partitions", "message_bytes", "rate", "memory_bytes", "receiver_queue"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"tuning: {name}: {getattr(self, name)} is not more than 0.")
        if self.message_bytes > MAX_ENVELOPE_BYTES:
            raise InvalidInput(f"tuning: message_bytes: {self.message_bytes:,} is more than {MAX_ENVELOPE_BYTES:,}.")
        if self.memory_bytes < self._min_bytes:
            raise InvalidInput(
                f"tuning: memory_bytes: {self.memory_bytes:,} does not hold two messages of {self.message_bytes:,} "
                f"bytes for each of {self.partitions} partitions.",
                f"Give {self._min_bytes:,} or more, or fewer partitions.",
            )

    @property
    def _min_bytes(self) -> int:
        return 2 * self.partitions * self.message_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """Settings of a lane's producers. A batch is sent when the first of its three bounds is reached.

    The partition changes after each batch.
    """

    partitions: int
    pending_messages: int
    """The maximum number of unconfirmed messages of one partition."""
    pending_messages_all: int
    memory_bytes: int
    """The maximum size of unconfirmed messages over all partitions, in bytes."""
    batch_messages: int
    batch_bytes: int
    batch_delay_ms: int

    @property
    def partition_bytes(self) -> int:
        """The maximum number of unconfirmed bytes of one partition.

        This is its share of the memory, so that a stalled partition cannot use up the memory of the others.
        """
        return self.memory_bytes // self.partitions


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings for a need, with explanations."""

    need: ProducerNeeds
    settings: ProducerSettings
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The reason for each setting, by its name."""
    remarks: tuple[str, ...] = ()
    """Deviations from good settings that the need forces."""


def partitions_for(expected_targets: int | None, need_bytes: int, options: ProducerOptions) -> int:
    """Return the number of partitions; 0: a topic without partitions.

    The result is 0 for up to a million targets or an unknown number. Otherwise it is one partition for each 2.5
    million, at least two, at most twelve, and no more than the memory allows at a thousand pending envelopes each.
    need_bytes: the size of an envelope.
    """
    if not options.partition_above or expected_targets is None or expected_targets <= options.partition_above:
        return 0
    partitions = min(math.ceil(expected_targets / options.partition_targets), options.most_partitions)
    return max(2, min(partitions, options.memory_bytes // (MIN_PENDING * need_bytes)))


def need_of(record: TaskRecord, options: ProducerOptions) -> ProducerNeeds:
    """Return what a submission's producer has to carry: partitions, bytes per message, messages per second."""
    size = envelope_bytes(record.chunk, len(record.message))
    return ProducerNeeds(
        partitions=max(1, record.partitions),
        message_bytes=size,
        rate=min(ENVELOPES_PER_S, TARGETS_PER_S / record.chunk),
        memory_bytes=max(options.memory_bytes, 2 * max(1, record.partitions) * size),
        receiver_queue=receiver_queue(record.chunk),
    )


def tune(need: ProducerNeeds) -> Tuning:
    """Return the settings for a need."""
    pending, why_pending = _pending(need)
    memory = pending * need.partitions * need.message_bytes
    batch_messages, why_messages = _batch_messages(need, pending)
    batch_bytes = min(memory // need.partitions // 2, LARGEST_BATCH_BYTES)
    delay_ms, why_delay = _delay(need, max(1, min(batch_messages, batch_bytes // need.message_bytes)))
    settings = ProducerSettings(
        partitions=need.partitions,
        pending_messages=pending,
        pending_messages_all=pending * need.partitions,
        memory_bytes=memory,
        batch_messages=batch_messages,
        batch_bytes=batch_bytes,
        batch_delay_ms=delay_ms,
    )
    small = batch_bytes < LARGEST_BATCH_BYTES
    reasons = {
        "pending_messages": why_pending,
        "pending_messages_all": f"{pending:,} x {need.partitions} partitions",
        "memory_bytes": f"{pending:,} x {need.partitions} x {need.message_bytes:,} bytes, of {need.memory_bytes:,}",
        "batch_messages": why_messages,
        "batch_bytes": "half of a partition's memory" if small else "1 MiB, a fifth of what a broker takes at once",
        "batch_delay_ms": why_delay,
    }
    return Tuning(need, settings, reasons, _remarks(need, pending))


def _pending(need: ProducerNeeds) -> tuple[int, str]:
    """Return the pending messages of one partition, and the reason."""
    by_rate = math.ceil(need.rate * CONFIRM_S / need.partitions)
    by_memory = need.memory_bytes // (need.partitions * need.message_bytes)
    pending = min(max(by_rate, MIN_PENDING), MAX_PENDING)
    if by_memory < pending:
        return by_memory, "what the memory holds"
    if pending == by_rate:
        return pending, f"{CONFIRM_S:g} s of the partition's rate, what a busy broker may take to confirm"
    if pending == MAX_PENDING:
        return pending, "at most; more would only wait in the client"
    return pending, "at least; with fewer the broker idles between two answers"


def _batch_messages(need: ProducerNeeds, pending: int) -> tuple[int, str]:
    by_pending, by_queue = pending // 2, max(1, need.receiver_queue // BATCHES_READ_AHEAD)
    if by_pending <= by_queue:
        return by_pending, "half of the pending ones: one batch fills while another is under way"
    return by_queue, f"a quarter of the consumers' queue of {need.receiver_queue:,}: a batch goes to one of them whole"


def _delay(need: ProducerNeeds, in_batch: int) -> tuple[int, str]:
    """Return the batch delay in milliseconds, and the reason. One partition is filled at a time, at the whole rate."""
    fill_ms = 1000 * in_batch / need.rate
    delay_ms = min(max(math.ceil(2 * fill_ms), SHORTEST_DELAY_MS), LONGEST_DELAY_MS)
    if delay_ms == LONGEST_DELAY_MS:
        return delay_ms, "at most: a message waits no longer for others"
    if delay_ms == SHORTEST_DELAY_MS:
        return delay_ms, f"at least; {in_batch} messages come in {fill_ms:.2g} ms"
    return delay_ms, f"twice the {fill_ms:.2g} ms in which {in_batch} messages come: full batches do not wait for it"


def _remarks(need: ProducerNeeds, pending: int) -> tuple[str, ...]:
    if pending >= MIN_PENDING:
        return ()
    needed_bytes = MIN_PENDING * need.partitions * need.message_bytes
    fewer = need.memory_bytes // (MIN_PENDING * need.message_bytes)
    or_fewer = f", or {fewer} partitions" if fewer else ""
    few = f"{pending:,} pending messages a partition are fewer than {MIN_PENDING:,}: the memory holds no more."
    return (f"{few} Give {math.ceil(needed_bytes / MIB):,} MiB{or_fewer}, or smaller messages.",)
