"""A worker's requests to the ledger, and the ledger's answers. On the wire as msgpack arrays."""

from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec

from dispatcher.wire.groups import TargetGroup, unpack_positions

FORMAT = 1

DUE_AGAIN_MS = 3_000
"""How long before an overdue claim is reported again."""
SPARED_MS = 60_000
"""Extra time after the end of a live worker's claims, for when Pulsar is down and the worker's records are late."""


class LaneKind(StrEnum):
    """The kind of a lane, which determines the tasks in it."""

    OWN = "o"
    """The lane of one task, with the task's tier and weight."""
    SHARED = "s"
    """A lane of low tasks, which are assigned by hash."""
    RETRY = "r"
    """A lane by tier and delay."""
    SIDE = "d"
    """Small low tasks of one app on one channel, taken out of a shared lane because of a paused channel or a cap."""


class Want(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """`count` buffered envelopes of consecutive sequences, in the order of delivery."""

    task: str
    writer: str
    attempt: int
    first: int
    count: int
    size: int
    """Targets that are due in *each* of these envelopes (its cost)."""
    total: int
    """Targets in the first envelope of the sequence (equal to `size` for attempt 0)."""
    open: int = 0
    """Targets in each of them, due or not; 0: `size`."""
    tries: int = 0
    """Sum of the tries of its targets. The ledger names the groups of an envelope with more of them in the view."""
    due_ms: int = 0
    """Latest due time of the targets that are due in this round; 0: all are."""
    first_ms: int = 0
    """Time of the first call of one of them, if its age counts: the ledger says for how long they were paused since."""


class LaneAsk(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """One lane of the worker: its demand and the envelopes to lease. An ask without wants only announces demand."""

    lane: str
    kind: LaneKind
    tier: str
    """Tier of a retry lane. Empty for other lanes, whose tier the ledger knows."""
    demand: int
    """Targets that it could send now. The announcement lasts for the time of a few calls."""
    wants: list[Want]
    """In the order of delivery."""
    waiting: bool = False
    """True for demand that is known from the registry, in a lane without an attached worker. The lane keeps its virtual
    time meanwhile."""
    task: str = ""
    """The task that owns the lane; empty for other lanes."""
    app: str = ""
    channel: str = ""
    """App and channel of a side lane."""
    delay_s: int = 0
    """Delay of a retry lane."""


class GivenBack(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """Granted envelopes that were not sent and will not be sent under this claim."""

    claim: str
    lane: str
    task: str
    writer: str
    attempt: int
    first: int
    count: int
    size: int


class ChannelTerms(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Facts about a worker's channel that the ledger uses."""

    claim_ms: int
    """How long claims on envelopes of this channel last: lease, the channel's timeout, a margin."""
    targets_per_request: int = 1
    """Maximum targets in one request to its provider; 0: all of an envelope."""


class LeaseRequest(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """One call of a worker to the ledger, for all its lanes."""

    format: int
    worker: str
    number: int
    """Chosen by the worker before it asks; grows by one per call. The same number again (after a lost answer) gets the
    same answer."""
    lease_ms: int
    """How long the grant may be used."""
    claim_ms: int
    """How long its claims last at most (lease + the longest channel timeout + a margin)."""
    demand_ms: int
    """How long the announced demand is valid."""
    lanes: list[LaneAsk]
    given_back: list[GivenBack]
    waiting_ms: int = 3_000
    """How long the announced demand of lanes without an attached worker is valid."""
    shared_namespace: str = ""
    """The namespace of side lanes (Topics.shared_namespace)."""
    channels: dict[str, ChannelTerms] = {}
    """By name. Claims on envelopes of others last claim_ms."""

    @property
    def claim(self) -> str:
        """Name of the claims that this call makes (one for each task in it)."""
        return claim_name(self.worker, self.number)


class Status(IntEnum):
    """The ledger's answer for one wanted envelope. On the wire: never renumber."""

    GRANTED = 0
    """Claimed and paid for: send before the use-by."""
    NO_CREDIT = 1
    """Keep it and ask again."""
    HELD = 2
    """Claimed elsewhere, or the fold or the view has not read far enough, or its writer is unknown: hold, ask later."""
    DROP = 3
    """All final, or the task has ended, or its writer does not count: ack."""
    REPUBLISH = 4
    """Recorded with open targets, or a copy with more targets than are open: publish the next attempt again, then ack.
    The piece lists the open targets."""
    CANCELLED = 5
    """Claimed without a lease: record all its targets cancelled."""
    EXPIRED = 6
    """Claimed without a lease: record all its targets expired."""
    UNKNOWN = 7
    """No such task and the view is complete: dead-letter it, never send."""
    PARKED = 8
    """The task is paused, scheduled, held until sealed, or closing: stay out of this lane until the view changes it."""
    MOVE = 9
    """Found in a shared lane and must wait, or its task has its own lane by now. Publish it to the lane in the piece
    (the task's own, or a side lane), then ack."""


class StatusRun(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The status of the next `count` envelopes of a want."""

    status: int
    count: int
    """1 for REPUBLISH."""
    attempt: int = 0
    """REPUBLISH: the last recorded attempt."""
    open: str = ""
    """REPUBLISH: the positions in the first envelope that are still open (dispatcher/wire/groups.py)."""
    lane: str = ""
    """MOVE: the lane to publish to."""
    groups: list[TargetGroup] = []
    """REPUBLISH: the open targets. GRANTED: the same of each envelope, if a claim of this round ended without a
    record, or they were paused since their first call and their age counts."""

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
    """Whether an operator closed it: it must end, even if claims or an outcome topic delay that."""
    waits: bool = False
    """Whether it is closed but still has claims in force, or a seal that does not count yet."""


class Pace(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """When the targets that one call was granted under a cap may be sent."""

    pool: str
    """The pool that the cap limits."""
    flow: str
    """The channel and app of the targets, `CHANNEL/APP`."""
    count: int
    """Targets, or requests."""
    delay_us: int
    """From the call to the first of them: until then others are granted the cap."""
    rate: int
    """The cap, in targets or requests a second."""
    by_request: bool = False
    """Whether the cap counts requests."""


class LeaseAnswer(msgspec.Struct, array_like=True, frozen=True, gc=False, kw_only=True):
    """The answer to a lease request: what becomes of each wanted envelope."""

    number: int
    ready: bool
    """False if the view is empty or being rebuilt (then everything is HELD)."""
    lanes: list[list[list[StatusRun]]]
    """For each LaneAsk, for each Want, its pieces in order (together `count` envelopes)."""
    capacity: int = 0
    """Targets/s; 0 = unlimited."""
    tier_weights: list[int] = []
    """Weights of high, medium and low, in thousandths."""
    now_ms: int = 0
    """The ledger's time when it carried the call out (a repeated answer has the first time)."""
    paces: list[Pace] = []
    """For the granted targets of flows with a cap, and no burst."""


def claim_name(worker: str, number: int) -> str:
    return f"{worker}.{number}"


encode = msgspec.msgpack.Encoder().encode
decode_answer = msgspec.msgpack.Decoder(LeaseAnswer).decode
