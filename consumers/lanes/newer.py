"""Leave lanes that hold envelopes of a later version to workers that can read them."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dispatcher.backoff import Backoff
from dispatcher.clock import Clock
from dispatcher.ports import Delivery, LaneInfo
from dispatcher.wire.lease import LaneKind


@dataclass(frozen=True)
class NewerSettings:
    """When to leave lanes with envelopes of a later version.

    A task's own lane is left at once, so that newer workers get all of it at once, for a time that doubles (away). If
    the envelope is still there after that, no newer worker has come, and other envelopes may wait behind it. In that
    case, and always in a shared lane, only the message is refused: it is given back after again_s. Above
    max_refused_own or max_refused messages within that time the lane is left nevertheless: the broker stops a consumer
    at 50,000 unacknowledged messages.
    """

    away: Backoff = Backoff(30.0, 480.0)
    finish_s: float = 10.0
    """How long to wait for envelopes that were taken out of the lane before."""
    again_s: float = 30.0
    max_refused: int = 5_000
    max_refused_own: int = 100


class _NewerLane:
    """One lane. left_until_s: when keeping out of it ends. named_until_s: until when `names` returns it."""

    __slots__ = ("count_from_s", "left_s", "left_until_s", "named_until_s", "refused", "wait_s")

    def __init__(self) -> None:
        self.wait_s = self.left_until_s = self.named_until_s = self.count_from_s = 0.0
        self.left_s = float("-inf")
        self.refused = 0

    def is_known(self, now_s: float) -> bool:
        """Return whether the last time the lane was left is still remembered."""
        return now_s < max(self.named_until_s, self.left_until_s + self.wait_s)


class NewerFormats:
    """The lanes with envelopes of a later version. `names` may be called from any thread."""

    def __init__(self, clock: Clock, settings: NewerSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._met: dict[str, _NewerLane] = {}
        self._lock = threading.Lock()

    def refuse(self, lane: LaneInfo) -> bool:
        """Note an envelope of a later version. Return whether only its message is refused, not the whole lane."""
        now_s, settings = self._clock.monotonic_s(), self._settings
        if self.left_for_s(lane.name):
            return False  # another partition
        with self._lock:
            met = self._met.setdefault(lane.name, _NewerLane())
        again = met.wait_s > 0 and met.is_known(now_s)
        allowed = settings.max_refused if lane.kind != LaneKind.OWN else settings.max_refused_own if again else 0
        if self._refused(met, now_s) <= allowed:
            met.named_until_s = now_s + 2 * settings.again_s
            return True
        met.wait_s = settings.away.after(met.wait_s if again else 0)
        met.left_s, met.refused = now_s, 0
        met.left_until_s = met.named_until_s = now_s + met.wait_s
        return False

    def _refused(self, met: _NewerLane, now_s: float) -> int:
        """Return the number of refused messages that the broker has not delivered again."""
        if now_s - met.count_from_s > self._settings.again_s:
            met.count_from_s, met.refused = now_s, 0
        met.refused += 1
        return met.refused

    def left_for_s(self, lane: str) -> float:
        """Return how long to keep out of the lane; 0: it may be drained."""
        met = self._met.get(lane)
        return 0.0 if met is None else max(0.0, met.left_until_s - self._clock.monotonic_s())

    def is_finished(self, lane: str) -> bool:
        """Return whether the envelopes taken before have had time to settle."""
        met = self._met.get(lane)
        return met is None or self._clock.monotonic_s() - met.left_s >= self._settings.finish_s

    def names(self) -> list[str]:
        """Return the lanes that are kept out of, and those in which messages were refused a moment ago."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            for name in [name for name, met in self._met.items() if met.named_until_s and not met.is_known(now_s)]:
                del self._met[name]
            return sorted(name for name, met in self._met.items() if now_s < met.named_until_s)


class Absent:
    """A placeholder for the attachment of a lane that is kept out of."""

    open = closed = given_up = False
    left = True
    held = queue = returning = 0

    def drain(self, _max_targets: int) -> tuple[list[Delivery], bool]:
        """Yield nothing."""
        return [], True

    def ack(self, _messages: Sequence[Any]) -> None:
        """Do nothing: the consumer is closed, and its messages come again as copies."""

    def return_later(self, _messages: Sequence[Any]) -> None:
        """Do nothing, as `ack`."""

    def close(self, closed: Callable[[], None]) -> None:
        """Call `closed` at once."""
        closed()
