"""Accounts of a fake: what it has accepted and answered."""

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

_BINS_PER_S = 100


class Rates:
    """Requests by hundredth of a second."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._bins: list[int] = []

    def count(self, now_s: float) -> None:
        """Count a request."""
        index = int((now_s - self._began_s) * _BINS_PER_S)
        if index >= len(self._bins):
            self._bins.extend([0] * (index + 1 - len(self._bins)))
        self._bins[index] += 1

    def peak(self, window_s: int) -> int:
        """Return the largest number of requests in any window."""
        totals = [0, *accumulate(self._bins)]
        width = window_s * _BINS_PER_S
        return max((total - totals[max(0, end - width)] for end, total in enumerate(totals)), default=0)


class Accounts:
    """Totals, and what was accepted by target and by message."""

    def __init__(self, now_s: float) -> None:
        self.accepted: Counter[str] = Counter()
        """Times that a message to the target was accepted."""
        self.messages: Counter[tuple[str, str]] = Counter()
        """The same by target and message id, of those that had an id."""
        self.answers: Counter[str] = Counter()
        """Answers by status, code and detail."""
        self.reasons: Counter[str] = Counter()
        """The refusals that no rule asked for, by the provider's text."""
        self.connections = 0
        self.early = 0
        """Requests for a target before the end of the Retry-After it was given."""
        self.rates = Rates(now_s)
        self._not_before: dict[str, float] = {}

    def accept(self, target: str, message_id: str) -> None:
        """Count a message that is accepted."""
        self.accepted[target] += 1
        if message_id:
            self.messages[target, message_id] += 1

    def ask(self, target: str, now_s: float) -> None:
        """Count a request for a target."""
        if self._not_before and now_s < self._not_before.pop(target, 0.0):
            self.early += 1

    def put_off(self, target: str, until_s: float) -> None:
        """Record that a target was answered with Retry-After."""
        self._not_before[target] = until_s

    def summary(self) -> dict[str, object]:
        """Return the totals."""
        times = Counter(self.accepted.values())
        return {
            "requests": self.answers.total(),
            "accepted": self.accepted.total(),
            "targets": {"once": times[1], "twice": times[2], "more": sum(times.values()) - times[1] - times[2]},
            "messages_repeated": sum(1 for count in self.messages.values() if count > 1),
            "answers": dict(sorted(self.answers.items())),
            "refused": dict(sorted(self.reasons.items())),
            "early": self.early,
            "connections": self.connections,
            "peak": {"1s": self.rates.peak(1), "60s": self.rates.peak(60)},
        }

    def judge(self, targets: Iterable[str]) -> dict[str, object]:
        """Return which of an audience were accepted never, once (their number), or more often."""
        counts = {target: self.accepted[target] for target in targets}
        return {
            "never": [target for target, count in counts.items() if count == 0],
            "once": sum(1 for count in counts.values() if count == 1),
            "more": {target: count for target, count in counts.items() if count > 1},
        }
