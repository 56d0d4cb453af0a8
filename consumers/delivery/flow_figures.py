"""Figures of a worker's flows: requests, answers, their times, and how many may be under way.

They live in the channels' event loop; other threads only read them.
"""

from collections import Counter
from collections.abc import Sequence

from dispatcher.analysis.histogram import Histogram
from dispatcher.channels.guards.adaptive_limit import AdaptiveLimit
from dispatcher.wire.outcome import ALL_SENT, OPEN_NAMES, OUTCOME_NAMES, Report

MAX_FLOWS = 200
"""Flows with figures of their own. The others of a channel share one, whose app is OTHERS."""
OTHERS = "(others)"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class FlowFigures:
    """Figures of one flow."""

    __slots__ = ("answers", "app", "channel", "limit", "requests", "times", "under_way")

    def __init__(self, channel: str, app: str, highest: int) -> None:
        """`highest`: requests that may be under way at most."""
        self.channel = channel
        self.app = app
        """Empty for a channel whose apps share its limits."""
        self.limit = AdaptiveLimit(highest)
        self.requests = self.under_way = 0
        self.answers: Counter[str] = Counter()
        """By verdict."""
        self.times = Histogram(BUCKETS_S)
        """Seconds of requests that were answered or given up."""

    def begin(self) -> None:
        """Count a request that leaves."""
        self.requests += 1
        self.under_way += 1

    def end(self, took_s: float, now_s: float) -> None:
        """Record that a request was answered, or given up, at a monotonic time."""
        self.limit.ended(took_s, self.under_way, now_s)
        self.times.add(took_s)
        self.under_way -= 1

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


class FlowTable:
    """Requests, answers and limits of each flow (an app on a channel) that a worker serves."""

    def __init__(self) -> None:
        self.flows: dict[tuple[str, str], FlowFigures] = {}

    def of(self, channel: str, app: str, highest: int) -> FlowFigures:
        """Return the figures of a flow."""
        flow = self.flows.get((channel, app))
        if flow is None and len(self.flows) >= MAX_FLOWS:
            app = OTHERS
            flow = self.flows.get((channel, app))
        if flow is None:
            flow = self.flows[channel, app] = FlowFigures(channel, app, highest)
        return flow


def _name(code: int) -> str:
    return OPEN_NAMES.get(code) or OUTCOME_NAMES[code]
