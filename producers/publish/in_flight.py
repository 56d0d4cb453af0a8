"""Counts of a router: the unanswered messages of each partition, and how far everything is stored without a gap."""

from collections import OrderedDict


class SendWindow:
    """Messages and bytes of one partition that are sent and not answered. `takes` enforces the bounds."""

    def __init__(self, max_messages: int, max_bytes: int, now_s: float) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._sent_s: OrderedDict[int, float] = OrderedDict()
        self._answered_s = now_s
        self.messages = 0
        self.bytes = 0

    def takes(self, messages: int, size: int) -> bool:
        """Return whether this much more stays within the bounds. A piece larger than the bounds passes when it is
        alone."""
        fits = self.messages + messages <= self._max_messages and self.bytes + size <= self._max_bytes
        return fits or not self.messages

    def add(self, first: int, messages: int, size: int, now_s: float) -> None:
        """Count messages as sent. first: the number of the first message, by which `answered` refers to them."""
        self._sent_s[first] = now_s
        self.messages += messages
        self.bytes += size

    def answered(self, first: int, messages: int, size: int, now_s: float) -> None:
        del self._sent_s[first]
        self._answered_s = now_s
        self.messages -= messages
        self.bytes -= size

    def silent_s(self, now_s: float) -> float:
        """Return for how long the partition has owed answers without giving any; 0 if it owes none."""
        if not self._sent_s:
            return 0.0
        return now_s - max(self._answered_s, next(iter(self._sent_s.values())))


class Confirmed:
    """Numbers of messages that are stored, in any order. `upto` is the first number that is not.

    Numbers stored behind a gap are kept as ranges that are merged, so there are no more ranges than gaps.
    """

    def __init__(self) -> None:
        self.upto = 0
        self._ends: dict[int, int] = {}
        """Ranges behind a gap, first -> end."""
        self._firsts: dict[int, int] = {}
        """The same ranges, end -> first."""

    def add(self, first: int, end: int) -> None:
        if first in self._firsts:
            first = self._firsts.pop(first)
            del self._ends[first]
        if end in self._ends:
            end = self._ends.pop(end)
            del self._firsts[end]
        if first == self.upto:
            self.upto = end
        else:
            self._ends[first], self._firsts[end] = end, first

    @property
    def ranges(self) -> int:
        """Return the number of ranges behind gaps."""
        return len(self._ends)
