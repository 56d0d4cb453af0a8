"""Records of the control topic: the truth about tasks, their controls and the settings shared by all workers."""

import msgspec

from dispatcher.model.tier import Tier
from dispatcher.wire.outcome import EpochMark

FORMAT = 1
MAIN_WRITER = "0"
"""The writer of every submission that cuts its audience into the same envelopes when it is repeated (API, HTTP,
CLI)."""


class TaskRecord(msgspec.Struct, array_like=True, frozen=True, tag="t", kw_only=True):
    """A task as accepted: frozen. Its controls (tier, weight, cap) are the initial ones. *_ms are wall times, 0 for
    none."""

    format: int
    task: str
    app: str
    tier: Tier
    channel: str
    message: msgspec.Raw
    lane: str
    """Full name of the topic for its envelopes."""
    shared: bool
    """Whether other tasks use the lane too."""
    chunk: int
    """Targets per envelope."""
    expected_targets: int
    """-1 if unknown."""
    weight: int
    """In thousandths."""
    cap: int
    """In targets/s; 0 for none."""
    start_ms: int
    expires_ms: int
    hold_until_sealed: bool
    max_attempts: int
    created_ms: int
    digest: str
    """Digest of everything that must not differ when the id is submitted again."""
    cap_burst: int = 0
    """In targets; 0 for a quarter of a second of the cap."""
    partitions: int = 0
    """Partitions of the lane's topic; 0 for a plain topic."""
    submitter: str = ""
    """The client that may write ahead and seal, until another takes over. Empty for many writers at once."""
    announced: int = 0
    """Size of the first window of its audience, as in `Announced`."""
    announced_digest: str = ""
    """Digest of that window. If it is empty, this record announces nothing."""
    first: int = 0
    """Targets, the first of the audience, that are sent before the task waits for a go: the first change of its control
    `paused`. 0: it waits for none."""
    gives_up_unknown: bool = False
    """Whether a target is given up once it is unknown if the provider took it; otherwise it is tried again."""
    retry_for_ms: int = 0
    """How long after its first call a target is tried again; 0: no bound."""
    by: str = ""
    """Who submitted it (dispatcher.access.principal.Caller)."""
    request: str = ""
    """Id of the HTTP request that submitted it."""


class Checkpoint(msgspec.Struct, array_like=True, frozen=True, tag="k", kw_only=True):
    """All envelopes of `writer` below `sequence` are confirmed."""

    format: int
    task: str
    writer: str
    sequence: int
    targets: int
    """The number of targets in these envelopes."""
    refused: int
    consumed: int
    """Items taken from the audience so far (accepted and refused)."""
    digest: str
    """Digest of these targets."""


class Sealed(msgspec.Struct, array_like=True, frozen=True, tag="s", kw_only=True):
    """The audience is complete."""

    format: int
    task: str
    targets: int
    """The size of the audience."""
    refused: int
    digest: str
    writers: list[str]
    """The writers whose envelopes belong to it; envelopes of others are dropped."""
    submitter: str = ""
    """The seal counts only if this is the current submitter at its position. Empty: the seal always counts."""


class Announced(msgspec.Struct, array_like=True, frozen=True, tag="a", kw_only=True):
    """The next window of a task's audience, announced before any of it is published. The last envelope of a window may
    be short. dispatcher.wire.submission defines when an announcement counts."""

    format: int
    task: str
    submitter: str
    first: int
    """The number of targets before the window."""
    targets: int
    """The number of targets up to its end."""
    refused: int
    digest: str
    """Digest of all targets up to its end."""


class TakenOver(msgspec.Struct, array_like=True, frozen=True, tag="o"):
    """From this record on, only announcements and seals of this submitter count for the task."""

    format: int
    task: str
    submitter: str
    at_ms: int
    """Redis' time when the submitter took the lease of the submission. It is later than those of all earlier holders,
    so a record that is stored late does not count."""


class ControlChange(msgspec.Struct, array_like=True, frozen=True, tag="x"):
    """A change of a live control of one task."""

    format: int
    task: str
    field: str
    """One of:

    - `weight`: thousandths.
    - `cap`: targets/s, or targets/s:burst.
    - `tier`: its name.
    - `paused`: "1" or "0".
    - `cancelled`: "1".
    - `stopped`: the reason.
    - `close`: the reason. A stopped task must end, even if something holds it up.
    - `lane`: the topic of a task that leaves its shared lane.
    - `override`: an edited message, "<number>:<json>".

    `dispatcher.model.task_control.Control` parses them.
    """
    value: str
    """Always a string on the wire."""
    at_ms: int
    by: str = ""
    """Who changed it (dispatcher.access.principal.Caller); empty: a worker, by itself."""
    request: str = ""
    """Id of the HTTP request; empty if there was none."""


class GlobalChange(msgspec.Struct, array_like=True, frozen=True, tag="g"):
    """A setting of the whole service."""

    format: int
    field: str
    """A kind of `dispatcher.model.service_settings.SETTINGS`, for most with the name of a channel, app or pool."""
    value: str
    at_ms: int
    by: str = ""
    """Who changed it, as in ControlChange."""
    request: str = ""
    """Id of the HTTP request; empty if there was none."""


class Finished(msgspec.Struct, array_like=True, frozen=True, tag="f", kw_only=True):
    """All targets of a task have an outcome: the durable tombstone."""

    format: int
    task: str
    state: str
    counts: list[int]
    """Targets by Outcome value."""
    at_ms: int
    reason: str = ""
    """Why the task failed; empty in every other state."""


NO_EPOCH = "none"
"""The epoch in an EpochStarted that started no view."""


class EpochStarted(msgspec.Struct, array_like=True, frozen=True, tag="b"):
    """A view in Redis was started. The very first has no claims before it, so it need not wait for any to end. A worker
    also writes one, with NO_EPOCH, before it makes claims that last longer than the standard wait."""

    format: int
    epoch: str
    at_ms: int
    address: str = ""
    """Address of the view, as named by backends/redis/view.py. Empty where it does not matter. The last address in the
    topic belongs to the one Redis that may grant."""
    claim_ms: int = 0
    """The longest claim that the writer knows of; 0 where it does not matter. A view that may lack claims grants
    nothing until the longest claim in the topic could have ended."""


class Restated(msgspec.Struct, array_like=True, frozen=True, tag="r"):
    """An old record, published again before the topic deletes it. It counts as if it were at `position`, its original
    position. So it changes nothing in a view that has it, and never undoes later records."""

    format: int
    position: str
    record: msgspec.Raw
    """The encoded record."""


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
