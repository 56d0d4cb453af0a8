"""Leave lanes that hold envelopes of a later version to workers that can read them."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dispatcher.clock import Clock
from dispatcher.ports import Delivery, LaneInfo
from dispatcher.retry import Backoff
from dispatcher.wire.lease import LaneKind


@dataclass(frozen=True)
class NewerSettings:
    """When to leave lanes with envelopes of a later version.

    A task's own lane is left at once, so that newer workers get all of it. If the envelope is still there when this
    worker comes back, no newer worker has come, and other envelopes may wait behind it. In that case, and always in a
    shared lane, only the message is refused and given back later. With too many refused messages the lane is left all
    the same: the broker stops a consumer at 50,000 unacknowledged messages.
    """

    away: Backoff = Backoff(30.0, 480.0)
    """How long to stay out of a lane."""
    finish_s: float = 10.0
    """How long to wait for envelopes that were taken out of the lane before."""
    again_s: float = 30.0
    """Delay before a refused message is given back."""
    max_refused: int = 5_000
    """Maximum messages refused within again_s in a shared lane."""
    max_refused_own: int = 100
    """Maximum messages refused within again_s in a task's own lane."""


@dataclass(slots=True)
class _NewerLane:
    """A lane in which an envelope of a later version was received."""

    wait_s: float = 0.0
    count_from_s: float = 0.0
    left_until_s: float = 0.0
    """When the worker may come back to it."""
    named_until_s: float = 0.0
    """Until when `names` returns it."""
    left_s: float = float("-inf")
    refused: int = 0

    def is_known(self, now_s: float) -> bool:
        """Return whether the last time the lane was left is still remembered."""
        return now_s < max(self.named_until_s, self.left_until_s + self.wait_s)


class NewerFormats:
    """The lanes with envelopes of a later version. `names` may be called from any thread."""

    def __init__(self, clock: Clock, settings: NewerSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._lanes: dict[str, _NewerLane] = {}
        self._lock = threading.Lock()

    def refuse(self, lane: LaneInfo) -> bool:
        """Note an envelope of a later version. Return whether only its message is refused, not the whole lane."""
        now_s, settings = self._clock.monotonic_s(), self._settings
        if self.left_for_s(lane.name):
            return False  # another partition
        with self._lock:
            known = self._lanes.setdefault(lane.name, _NewerLane())
        again = known.wait_s > 0 and known.is_known(now_s)
        allowed = settings.max_refused if lane.kind != LaneKind.OWN else settings.max_refused_own if again else 0
        if self._refused(known, now_s) <= allowed:
            known.named_until_s = now_s + 2 * settings.again_s
            return True
        known.wait_s = settings.away.after(known.wait_s if again else 0)
        known.left_s, known.refused = now_s, 0
        known.left_until_s = known.named_until_s = now_s + known.wait_s
        return False

    def _refused(self, known: _NewerLane, now_s: float) -> int:
        """Return the number of refused messages that the broker has not delivered again."""
        if now_s - known.count_from_s > self._settings.again_s:
            known.count_from_s, known.refused = now_s, 0
        known.refused += 1
        return known.refused

    def left_for_s(self, lane: str) -> float:
        """Return how long to stay out of the lane; 0: it may be drained."""
        known = self._lanes.get(lane)
        return 0.0 if known is None else max(0.0, known.left_until_s - self._clock.monotonic_s())

    def is_finished(self, lane: str) -> bool:
        """Return whether the envelopes taken before have had time to settle."""
        known = self._lanes.get(lane)
        return known is None or self._clock.monotonic_s() - known.left_s >= self._settings.finish_s

    def names(self) -> list[str]:
        """Return the lanes that are left to newer workers, and those in which messages were refused a moment ago."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            for name in [name for name, each in self._lanes.items() if each.named_until_s and not each.is_known(now_s)]:
                del self._lanes[name]
            return sorted(name for name, each in self._lanes.items() if now_s < each.named_until_s)


class AbsentAttachment:
    """Placeholder for the attachment of a lane that is left to newer workers: it holds and yields nothing."""

    open = closed = given_up = False
    left_to_newer = True
    unacked = queue = returning = 0

    def drain(self, _max_targets: int) -> tuple[list[Delivery], bool]:
        """Yield nothing, and claim to be empty."""
        return [], True

    def ack(self, _messages: Sequence[Any]) -> None:
        """Do nothing: the consumer is closed, and its messages come again as copies."""

    def return_later(self, _messages: Sequence[Any]) -> None:
        """Do nothing, as `ack`."""

    def close(self, closed: Callable[[], None]) -> None:
        """Call `closed` at once."""
        closed()
