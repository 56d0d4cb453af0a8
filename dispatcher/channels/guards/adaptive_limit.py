"""Requests that a flow may have under way: fewer while its provider answers more slowly than usual.

A gradient limit, after Netflix' concurrency-limits (Gradient2). Once a second, the median time of recent answers is
compared with the usual one. The median, since a few slow answers say nothing about the others.
"""

import math

WINDOW_S = 1.0
MIN_ANSWERS = 10
"""Minimum answers in a window, which lasts until it has them."""
SAMPLES = 100
"""Approximate number of answers in a window that are compared."""
TOLERANCE = 2.0
"""Answers that take as many times longer than usual are no reason to send less."""
LEAST_GRADIENT = 0.5
"""The limit is at most halved in a window."""
LEARNING_UP = 0.05
LEARNING_DOWN = 0.5
"""Weights of a window in the usual time. A provider that stays slow becomes usual in about 20 s, a quick one soon."""
PACED_TIMES = 2.0
PACED_MORE = 20
"""Requests of a paced flow that may be under way: as many times those of the last window, and some more."""


class AdaptiveLimit:
    """The limit of one flow, from 1 to `highest`. It begins at the highest."""

    def __init__(self, highest: int) -> None:
        self.highest = max(1, highest)
        self.limit = self.highest
        self.usual_s = 0.0
        """The usual time of an answer; 0 until it is known."""
        self.paced_limit = self.highest
        """The limit for a flow that its cap paces. Such a flow never needs many more requests under way than it usually
        has; the others would reach a provider that stopped all at once when it goes on."""
        self._exact = float(self.highest)
        self._under_way = 0
        self._samples: list[float] = []
        self._seen = self._peak = 0
        self._every = 1
        """One of this number of answers is a sample."""
        self._ends_s = -math.inf

    def ended(self, took_s: float, under_way: int, now_s: float) -> None:
        """Note a request that was answered, or given up, at a monotonic time. under_way: requests with this one."""
        self._seen += 1
        self._peak = max(self._peak, under_way)
        self._under_way += under_way
        if self._seen % self._every == 0:
            self._samples.append(took_s)
        if now_s >= self._ends_s and self._seen >= MIN_ANSWERS:
            self._end_window(now_s)

    def _end_window(self, now_s: float) -> None:
        """Adapt the limit, unless less than half of it was used: then the answers say nothing about it."""
        began = math.isfinite(self._ends_s)
        if began and self._samples and 2 * self._peak >= self.limit:
            self._adapt(sorted(self._samples)[len(self._samples) // 2])
        if began:
            usually = self._under_way / self._seen
            self.paced_limit = min(self.limit, int(PACED_TIMES * usually) + PACED_MORE)
        self._every = max(1, self._seen // SAMPLES) if began else 1
        self._samples.clear()
        self._seen = self._peak = self._under_way = 0
        self._ends_s = now_s + WINDOW_S

    def _adapt(self, median_s: float) -> None:
        if not self.usual_s:
            self.usual_s = median_s
        learning = LEARNING_DOWN if median_s < self.usual_s else LEARNING_UP
        gradient = TOLERANCE * self.usual_s / median_s if median_s > 0 else 1.0
        self.usual_s += learning * (median_s - self.usual_s)
        gradient = min(1.0, max(LEAST_GRADIENT, gradient))
        self._exact = min(float(self.highest), max(1.0, self._exact * gradient + math.sqrt(self._exact)))
        self.limit = int(self._exact)
