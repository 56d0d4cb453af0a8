"""Whether an app's provider works, judged from what its requests met."""

DOWN_IN_A_ROW = 10
"""Answers that the provider is down, with no other in between, before its flow pauses. Single ones are normal."""
OTHERS_S = 600.0
"""How long after any other answer one that concerns a part of the targets says nothing about all."""
LONGEST_PAUSE_S = 60.0
AGAIN_TIMES = 2.0
"""A target that the provider may have taken is due again after this times as long as the provider has not worked. Few
targets are concerned, since the flow pauses."""
LONGEST_WAIT_S = 1_800.0
"""With it, the eight tries that are usual last for an hour and a half, and none of these targets comes much later than
half an hour after the provider's return."""


class Health:
    """Counts answers and failures of one app."""

    def __init__(self) -> None:
        self._down = 0
        self._in_part = 0
        self._silences = 0
        self._answered_s = float("-inf")
        self._silent_s = float("-inf")
        self._failed_s: float | None = None
        """When the trouble began; None: there is none."""

    def answered(self, now_s: float) -> None:
        """Note an answer other than "down"."""
        self._down = self._silences = self._in_part = 0
        self._answered_s = now_s
        self._failed_s = None

    def unknown_wait_s(self, now_s: float) -> float | None:
        """Return after how long a target that the provider may have taken is due again, at least; None: soon."""
        wait_s = 0.0 if self._failed_s is None else AGAIN_TIMES * (now_s - self._failed_s)
        return min(wait_s, LONGEST_WAIT_S) or None

    def answered_down(self, now_s: float) -> bool:
        """Note an answer that the provider is down. Return whether the flow must pause."""
        self._silences = 0
        self._answered_s = now_s
        self._begin(now_s)
        self._down += 1
        return self._down >= DOWN_IN_A_ROW

    def answered_in_part(self, now_s: float) -> bool:
        """Note an answer that concerns a part of the targets. Return whether the flow must pause: no other has come."""
        self._in_part += 1
        return self._in_part >= DOWN_IN_A_ROW and now_s >= self._answered_s + OTHERS_S

    def unanswered(self, began_s: float, now_s: float) -> float | None:
        """Note a request that began at `began_s` and got no answer.

        Return for how long the flow must pause and that its connections must be renewed; None if others were answered
        meanwhile, or if that was noted for another request of the same time.
        """
        if self._answered_s >= began_s or self._silent_s >= began_s:
            return None
        self._silent_s = now_s
        self._begin(now_s)
        self._silences += 1
        return min(LONGEST_PAUSE_S, 2.0 ** (self._silences - 1))

    def _begin(self, now_s: float) -> None:
        if self._failed_s is None:
            self._failed_s = now_s
