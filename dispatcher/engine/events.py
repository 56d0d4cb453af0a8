"""Events for the engine. Any thread may put them into its one inbox; only the engine takes them out."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from dispatcher.ports import Batch, LaneInfo, WaitingLane
from dispatcher.wire.lease import LeaseAnswer
from dispatcher.wire.outcome import Report


class LaneReady(msgspec.Struct, frozen=True, gc=False):
    """An attached lane that was empty has messages to receive. A wrong or repeated event does no harm."""

    lane: str


class LeaseAnswered(msgspec.Struct, frozen=True):
    """The result of the lease call `number`: the answer, or the error (then the same number is asked again)."""

    number: int
    answer: LeaseAnswer | None = None
    error: Exception | None = None


class BatchSent(msgspec.Struct, frozen=True):
    """The courier has finished a batch: one report per envelope, None if its call did not start before use-by."""

    batch: Batch
    reports: Sequence[Report | None]


class Stored(msgspec.Struct, frozen=True):
    """The receipt (or failure) of one thing that the engine published."""

    token: int
    """The engine's own name for the published thing."""
    error: Exception | None = None


class LanesChanged(msgspec.Struct, frozen=True):
    """The complete set of lanes that this worker should hold from now on. A lane that is listed again as another object
    is unparked."""

    lanes: Sequence[LaneInfo]
    overrides: Mapping[str, bytes] = {}
    """Task -> encoded message to send instead of the one in its envelopes, for edited tasks."""
    waiting: Sequence[WaitingLane] = ()
    """All lanes without an attached worker whose demand this worker must announce."""


class Drain(msgspec.Struct, frozen=True):
    """Finish: send nothing new, settle work in progress, give the rest back, detach, stop."""

    within_s: float
    """Maximum time for settling."""


Event = LaneReady | LeaseAnswered | BatchSent | Stored | LanesChanged | Drain


class Inbox(Protocol):
    """A queue.Queue or an equivalent: `get` raises queue.Empty after `timeout` seconds at the latest."""

    def put(self, item: Event) -> None: ...

    def get(self, *, block: bool = True, timeout: float | None = None) -> Event: ...

    def qsize(self) -> int: ...
