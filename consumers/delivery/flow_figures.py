"""Figures of a worker's flows: requests, answers, their times, and how many may be under way.

They live in the channels' event loop; other threads only read them.
"""

from collections import Counter
from collections.abc import Sequence

from dispatcher.analysis.histogram import Histogram
from dispatcher.channels.guards.adaptive_limit import AdaptiveLimit
from dispatcher.wire.outcome import ALL_SENT, OPEN_NAMES, OUTCOME_NAMES, Report

MAX_FLOWS = 200
"""Flows that are shown by themselves. The others of a channel are shown as one, whose app is OTHERS."""
OTHERS = "(others)"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class FlowFigures:
    """Figures of one flow."""

    __slots__ = ("_shown", "answers", "app", "channel", "limit", "requests", "times", "under_way")

    def __init__(self, channel: str, app: str, highest: int, shown: "FlowFigures | None" = None) -> None:
        """`highest`: requests that may be under way at most. `shown`: the figures in which this flow is counted too,
        with others, if it is not shown by itself."""
        self._shown = shown
        self.channel = channel
        self.app = app
        """Empty for a channel whose apps share its limits."""
        self.limit = AdaptiveLimit(highest)
        self.requests = self.under_way = 0
        self.answers: Counter[str] = Counter() if shown is None else shown.answers
        """By verdict."""
        self.times: Histogram = Histogram(BUCKETS_S) if shown is None else shown.times
        """Seconds of requests that were answered or given up."""

    def begin(self) -> None:
        """Count a request that leaves."""
        self.requests += 1
        self.under_way += 1
        if self._shown is not None:
            self._shown.begin()

    def end(self, took_s: float, now_s: float) -> None:
        """Record that a request was answered, or given up, at a monotonic time."""
        self.limit.ended(took_s, self.under_way, now_s)
        self.times.add(took_s)
        self.break_off()

    def count(self, reports: Sequence[Report | None]) -> None:
        """Count the answer to envelopes that were sent together, by the verdict on most of their targets."""
        all_sent = reports.count(ALL_SENT)
        self.answers["sent"] += all_sent
        for report in reports if all_sent < len(reports) else ():
            if report is not None and report != ALL_SENT:
                self.answers[_name(report.verdict.code)] += 1

    def break_off(self) -> None:
        """Record that a request ended without a word of the provider, such as one that had no connection."""
        self.under_way -= 1
        if self._shown is not None:
            self._shown.break_off()


class FlowTable:
    """Requests, answers and limits of each flow (an app on a channel) that a worker serves."""

    def __init__(self) -> None:
        self.flows: dict[tuple[str, str], FlowFigures] = {}

    def of(self, channel: str, app: str, highest: int) -> FlowFigures:
        """Return the figures of a flow. Its limit is always its own: a slow provider concerns no other flow."""
        if (channel, app) in self.flows or len(self.flows) < MAX_FLOWS:
            return self._shown(channel, app, highest)
        return FlowFigures(channel, app, highest, self._shown(channel, OTHERS, highest))

    def _shown(self, channel: str, app: str, highest: int) -> FlowFigures:
        flow = self.flows.get((channel, app))
        if flow is None:
            flow = self.flows[channel, app] = FlowFigures(channel, app, highest)
        return flow


def _name(code: int) -> str:
    return OPEN_NAMES.get(code) or OUTCOME_NAMES[code]
