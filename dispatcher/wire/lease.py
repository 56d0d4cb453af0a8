"""What a worker asks of the ledger, and what the ledger answers. On the wire as msgpack arrays."""

from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec

from dispatcher.wire.positions import unpack_positions

FORMAT = 1

DUE_AGAIN_MS = 3_000
"""A claim past its end that was looked at is looked at again after this, should it not have been ended by then."""
ALIVE_MS = 5_000
"""A worker counts as alive for so long after a heartbeat."""
SPARED_MS = 60_000
"""What claims of a worker that is alive are given beyond their end, should Pulsar be gone and its records be late."""


class LaneKind(StrEnum):
    """own: one task's lane; its tier and weight are the task's. shared: low tasks by hash. retry: by tier and delay.
    side: small low tasks of one app on one channel, taken out of a shared lane for a paused channel or a cap."""

    OWN = "o"
    SHARED = "s"
    RETRY = "r"
    SIDE = "d"


class Want(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`count` buffered envelopes of consecutive sequences, in the order of delivery.

    size: targets in *each* of these envelopes (what it costs). total: targets in the first envelope of the sequence
    (equal to size for attempt 0).
    """

    task: str
    writer: str
    attempt: int
    first: int
    count: int
    size: int
    total: int


class LaneAsk(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One lane of the worker: its demand (targets it could send now; announced for a few calls' time), and the
    envelopes it wants leased, in the order of delivery. An ask without wants only announces. waiting: the demand is
    known from the registry and nobody is attached to the lane, which keeps its place meanwhile."""

    lane: str
    kind: LaneKind
    tier: str
    """Of a retry lane; empty otherwise (the ledger knows)."""
    demand: int
    wants: list[Want]
    waiting: bool = False
    task: str = ""
    """The task whose own lane it is; empty for other lanes."""
    app: str = ""
    channel: str = ""
    """App and channel of a side lane."""
    delay_s: int = 0
    """The delay of a retry lane."""


class GivenBack(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Granted envelopes that were not sent and will not be under this claim."""

    claim: str
    lane: str
    task: str
    writer: str
    attempt: int
    first: int
    count: int
    size: int


class LeaseRequest(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One round trip for many lanes.

    number: chosen by the worker before it asks, growing by one a call; the same number again (after a lost answer) gets
    the same answer. lease_ms: how long the grant may be used. claim_ms: how long its claims last (lease + the longest
    channel timeout + a margin). demand_ms: how long the announced demand is good for; waiting_ms: the same for demand
    of lanes that nobody is attached to. shared_namespace: where side lanes are (Topics.shared_namespace).
    """

    format: int
    worker: str
    number: int
    lease_ms: int
    claim_ms: int
    demand_ms: int
    lanes: list[LaneAsk]
    given_back: list[GivenBack]
    waiting_ms: int = 3_000
    shared_namespace: str = ""

    @property
    def claim(self) -> str:
        """Name of the claims this call makes (one for each task in it)."""
        return claim_name(self.worker, self.number)


class Status(IntEnum):
    """What the ledger says of one wanted envelope. On the wire: never renumber."""

    GRANTED = 0
    """Claimed and paid for: send before the use-by."""
    NO_CREDIT = 1
    """Keep it and ask again."""
    HELD = 2
    """Claimed elsewhere, or the fold or the view has not read far enough, or its writer is unknown: keep, ask later."""
    DROP = 3
    """All final, or the task has ended, or its writer does not count: ack."""
    REPUBLISH = 4
    """Recorded with open targets: publish the next attempt again, then ack. The piece says which targets are open."""
    CANCELLED = 5
    """Claimed without a lease: record all its targets cancelled."""
    EXPIRED = 6
    """Claimed without a lease: record all its targets expired."""
    UNKNOWN = 7
    """No such task and the view is complete: dead-letter it, never send."""
    PARKED = 8
    """The task is paused, scheduled, held until sealed, or closing: keep out of this lane until the view says else."""
    MOVE = 9
    """Met in a lane of many and must wait, or its task has a lane of its own by now: publish it to the lane that the
    piece names (the task's own, or a side lane), then ack."""


class Piece(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The next `count` envelopes of a want have `status`.

    REPUBLISH (count is 1): attempt is the one recorded, open the places in the first envelope that are still open
    (dispatcher/wire/positions.py). MOVE: lane is where to. Otherwise these are empty.
    """

    status: int
    count: int
    attempt: int = 0
    open: str = ""
    lane: str = ""

    @property
    def open_positions(self) -> list[int]:
        return unpack_positions(self.open)


class Closable(NamedTuple):
    """A task whose open targets can all be given one outcome."""

    task: str
    code: int
    reason: str = ""
    """Why it was stopped or closed."""
    closed: bool = False
    """An operator closed it: it must end, whatever holds its end up."""
    waits: bool = False
    """It is closed, and has claims in force or a seal that does not count yet."""


class LeaseAnswer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """lanes: for each LaneAsk, for each Want, its pieces in order (together `count` envelopes).

    ready: False if the view is empty or being rebuilt (all is HELD then). capacity: targets/s, 0 = unlimited.
    tier_weights: of high, medium and low, in thousandths. now_ms: the ledger's time when it carried the call out (of an
    answer that is given again: the first time); 0 from an older version.
    """

    number: int
    ready: bool
    lanes: list[list[list[Piece]]]
    capacity: int = 0
    tier_weights: list[int] = []
    now_ms: int = 0


def claim_name(worker: str, number: int) -> str:
    return f"{worker}.{number}"


def worker_of(claim: str) -> str:
    """claim: with or without `|<task>` behind it."""
    return claim.partition("|")[0].rpartition(".")[0]


encode = msgspec.msgpack.Encoder().encode
decode_answer = msgspec.msgpack.Decoder(LeaseAnswer).decode
