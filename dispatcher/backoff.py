"""Waits between attempts that double."""

from typing import NamedTuple


class Backoff(NamedTuple):
    """The first wait, doubled each time up to the longest."""

    first_s: float
    longest_s: float

    def after(self, wait_s: float) -> float:
        """Return the wait in seconds after a wait of `wait_s`; pass 0 for the first."""
        return min(self.longest_s, max(self.first_s, 2 * wait_s))

    def nth(self, index: int) -> float:
        """Return the wait in seconds with this index, counted from 0."""
        return min(self.longest_s, self.first_s * 2.0 ** min(index, 30))
