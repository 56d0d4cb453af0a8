"""Records of the control topic: the truth about tasks, their controls and the settings shared by all workers."""

from typing import Any

import msgspec

from dispatcher.model.tier import Tier
from dispatcher.wire.outcome import EpochMark, sound_text

FORMAT = 1
MAIN_WRITER = "0"
"""The writer of every submission whose cut can be repeated (API, HTTP, CLI)."""


class TaskRecord(msgspec.Struct, array_like=True, frozen=True, tag="t"):
    """A task as accepted: frozen. Controls (tier, weight, cap) are the initial ones.

    lane: the full topic name its envelopes go to; shared: whether others' do too. chunk: targets an envelope.
    expected_targets -1 if unknown. *_ms are wall times, 0 for none. weight in thousandths; cap in
    targets/s, 0 for none; cap_burst in targets, 0 for a quarter of a second of it. partitions: of the lane's topic, 0
    for a plain one.
    digest: of everything that must not differ when the id is submitted again. submitter: who may write ahead and seal,
    until another has taken over; empty: of an older version, or of many writers at once. announced, announced_digest:
    the first window of its audience, as in `Announced`; without a digest nothing is announced by this record.
    """

    format: int
    task: str
    app: str
    tier: Tier
    channel: str
    message: msgspec.Raw
    lane: str
    shared: bool
    chunk: int
    expected_targets: int
    weight: int
    cap: int
    start_ms: int
    expires_ms: int
    hold_until_sealed: bool
    max_attempts: int
    created_ms: int
    digest: str
    cap_burst: int = 0
    partitions: int = 0
    submitter: str = ""
    announced: int = 0
    announced_digest: str = ""


class Checkpoint(msgspec.Struct, array_like=True, frozen=True, tag="k"):
    """All envelopes of `writer` below `sequence` are confirmed; they carry `targets`; `digest` is of those targets.
    consumed: items taken from the audience so far (accepted and refused)."""

    format: int
    task: str
    writer: str
    sequence: int
    targets: int
    refused: int
    consumed: int
    digest: str


class Sealed(msgspec.Struct, array_like=True, frozen=True, tag="s"):
    """The audience is complete: `targets` in all, of the writers named; envelopes of others are dropped.
    submitter: the seal counts only if this is the current submitter at its position; empty: always."""

    format: int
    task: str
    targets: int
    refused: int
    digest: str
    writers: list[str]
    submitter: str = ""


class Announced(msgspec.Struct, array_like=True, frozen=True, tag="a"):
    """The next window of a task's audience, before any of it is published: the targets from `first` (those before it)
    up to `targets`; `digest` is of all up to there. The last envelope of a window may be short.
    dispatcher.wire.submission says when it counts."""

    format: int
    task: str
    submitter: str
    first: int
    targets: int
    refused: int
    digest: str


class TakenOver(msgspec.Struct, array_like=True, frozen=True, tag="o"):
    """From here on only announcements and seals of this submitter count for the task. at_ms: when it took the lease of
    the submission, by Redis' time: later than all earlier holders, so a record that is stored late does not count."""

    format: int
    task: str
    submitter: str
    at_ms: int


class ControlChange(msgspec.Struct, array_like=True, frozen=True, tag="x"):
    """A live control of one task. field -> value: weight (thousandths), cap (targets/s, or targets/s:burst), tier
    (name), paused ("1"/"0"), cancelled ("1"), stopped (why: see `stopping`), close (why: a stopped task must end,
    whatever holds it up), lane (the topic of a task that leaves its shared lane), override (see `encode_override`).
    Values are strings on the wire."""

    format: int
    task: str
    field: str
    value: str
    at_ms: int


class GlobalChange(msgspec.Struct, array_like=True, frozen=True, tag="g"):
    """A setting of the whole service. field: capacity (targets/s, "0" = unlimited) or tiers
    (thousandths, "6000:3000:1000", high:medium:low)."""

    format: int
    field: str
    value: str
    at_ms: int


class Finished(msgspec.Struct, array_like=True, frozen=True, tag="f"):
    """All targets have an outcome; counts by Outcome value. The durable tombstone. reason: why the task failed; empty
    in every other state."""

    format: int
    task: str
    state: str
    counts: list[int]
    at_ms: int
    reason: str = ""


NO_EPOCH = "none"
"""In an EpochStarted by which no view was begun."""


class EpochStarted(msgspec.Struct, array_like=True, frozen=True, tag="b"):
    """A view in Redis was begun. The first ever has no claims before it, so it need not wait for any to end. A worker
    writes one too, of NO_EPOCH, before it makes longer claims than are always waited for."""

    format: int
    epoch: str
    at_ms: int
    address: str = ""
    """Where the view is, as backends/redis/view.py names it; empty in records of 0.2 and where it does not matter. The
    last address in the topic is that of the one Redis that may grant."""
    claim_ms: int = 0
    """The longest claim that the writer knows of; 0 in records of 0.2 and where it does not matter. A view that may
    lack claims grants nothing until the longest in the topic could have ended."""


class Restated(msgspec.Struct, array_like=True, frozen=True, tag="r"):
    """A record of long ago once more, before the topic forgets it. It counts as if it stood at `position`, where it
    first did: so it changes nothing in a view that has it, and never undoes what was said after it. record: encoded."""

    format: int
    position: str
    record: msgspec.Raw


def stopping(task: str, reason: str, at_ms: int) -> ControlChange:
    """Stop a task for good: nothing more is sent, open targets end as cancelled, and the task as failed with this
    reason. Never taken back; the first reason in the topic counts. Any client or worker may append it."""
    return ControlChange(FORMAT, task, "stopped", sound_text(reason.strip()), at_ms)


def encode_override(number: int, message: dict[str, Any]) -> str:
    """An edited message as the value of an `override`: "<number>:<json>". Numbers grow by one an edit; of two made at
    once the later one in the topic is in force, and takes the next number."""
    return f"{number}:{msgspec.json.encode(message).decode()}"


def override_number(value: str | bytes) -> int:
    """0 for an empty value: the message was never edited."""
    number = value.partition(":" if isinstance(value, str) else b":")[0]  # type: ignore[arg-type]  # of its own kind
    return int(number or 0)


def override_message(value: str | bytes) -> bytes:
    """The message of an override, encoded as in an envelope."""
    text = value.encode() if isinstance(value, str) else value
    return msgspec.msgpack.encode(msgspec.json.decode(text.partition(b":")[2]))


ControlRecord = (
    TaskRecord
    | Checkpoint
    | Sealed
    | Announced
    | TakenOver
    | ControlChange
    | GlobalChange
    | Finished
    | EpochStarted
    | EpochMark
    | Restated
)

encode_control = msgspec.msgpack.Encoder().encode
"""ControlRecord -> bytes."""
decode_control = msgspec.msgpack.Decoder(ControlRecord).decode
"""bytes -> ControlRecord."""
