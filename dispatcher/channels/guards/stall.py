"""Notice a provider that was stopped, or out of reach, for a moment: all that left meanwhile reaches it at once."""

from dispatcher.channels.guards.door import Load

STALL_S = 0.25
"""Neither answers for this long, nor answers that take as much longer than usual, are seen from a provider that works.
"""


class StallWatch:
    """The requests of one channel or flow that left since the last answer. Times are monotonic."""

    def __init__(self) -> None:
        self._left: dict[str, Load] = {}
        """By flow."""
        self._answered_s = 0.0

    def left(self, flow: str, load: Load) -> None:
        """Note requests that leave."""
        self._left[flow] = load.plus(self._left.get(flow))

    def answered(self, took_s: float, usual_s: float, now_s: float) -> dict[str, Load]:
        """Note an answer. Return what left during a stall that it ends, by flow.

        A stall of ours is none: nothing left during it.
        """
        is_stall = now_s - self._answered_s > STALL_S and took_s > usual_s + STALL_S
        left, self._answered_s = self._left, now_s
        self._left = {}
        return left if is_stall else {}
