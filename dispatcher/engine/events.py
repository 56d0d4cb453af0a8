"""What the engine is told. Every event is put into its one inbox, from any thread; the engine alone takes them out."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from dispatcher.ports import Batch, LaneInfo, WaitingLane
from dispatcher.wire.lease import LeaseAnswer
from dispatcher.wire.outcome import Report


class LaneReady(msgspec.Struct, frozen=True, gc=False):
    """An attached lane that was empty has something to drain. Harmless when untrue or repeated."""

    lane: str


class LeaseAnswered(msgspec.Struct, frozen=True):
    """The result of the lease call `number`: the answer, or the error (then the same number is asked again)."""

    number: int
    answer: LeaseAnswer | None = None
    error: Exception | None = None


class BatchSent(msgspec.Struct, frozen=True):
    """The courier is done with a batch: one report an envelope, None where its call was not started before use-by."""

    batch: Batch
    reports: Sequence[Report | None]


class Stored(msgspec.Struct, frozen=True):
    """The receipt (or the failure) of one thing the engine published. token: the engine's own name for it."""

    token: int
    error: Exception | None = None


class LanesChanged(msgspec.Struct, frozen=True):
    """The lanes this worker should hold from now on: all of them, not the difference. A lane told of again, by another
    object, is unparked. overrides: task -> the message (encoded) to send instead of the one in its envelopes, for tasks
    that were edited. waiting: all lanes whose demand this worker is to announce though nobody is attached to them."""

    lanes: Sequence[LaneInfo]
    overrides: Mapping[str, bytes] = {}
    waiting: Sequence[WaitingLane] = ()


class Drain(msgspec.Struct, frozen=True):
    """Finish: send nothing new, settle what is under way for at most `within_s`, give the rest back, detach, stop."""

    within_s: float


Event = LaneReady | LeaseAnswered | BatchSent | Stored | LanesChanged | Drain


class Inbox(Protocol):
    """A queue.SimpleQueue, or what behaves like one: `get` raises queue.Empty after `timeout` seconds."""

    def put(self, item: Event) -> None: ...

    def get(self, block: bool = True, timeout: float | None = None) -> Event: ...

    def qsize(self) -> int: ...
