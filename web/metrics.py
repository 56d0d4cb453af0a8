"""Figures of one process of the HTTP API, for Prometheus. Labels are actions and statuses, never a key or an app."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from math import nan

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dispatcher.analysis.histogram import Histogram
from fairlane.worker.report.metrics import durations

_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class ApiFigures(Collector):
    """Counts of one process, and their metrics. Its event loop writes them, any thread may read them."""

    def __init__(self, access_age_s: Callable[[], float] = lambda: nan) -> None:
        self.access_age_s = access_age_s
        """Age of what the process knows of keys and policies; `inf` if it knows nothing."""
        self.free_uploads = 0
        """Uploads that it still takes."""
        self.in_flight = 0
        """Requests without an answer so far."""
        self.connections = 0
        """Open connections."""
        self.requests: Counter[tuple[str, int]] = Counter()
        """Answered requests by action and status."""
        self.seconds: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(_BUCKETS_S))
        """Times from the headers to the answer, by action."""

    def note(self, action: str, status: int, seconds: float) -> None:
        """Count a request. action: `none` for one that has none."""
        self.requests[action, status] += 1
        self.seconds[action].add(seconds)

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("fairlane_api_requests", "Requests to the API", labels=["action", "status"])
        for (action, status), count in list(self.requests.items()):
            requests.add_metric([action, str(status)], count)
        yield requests
        yield durations(
            "fairlane_api_request_seconds", "Time from a request's headers to its answer", "action", self.seconds
        )
        yield GaugeMetricFamily("fairlane_api_in_flight", "Requests without an answer so far", self.in_flight)
        yield GaugeMetricFamily("fairlane_api_connections", "Open connections of the API", self.connections)
        yield GaugeMetricFamily("fairlane_api_free_uploads", "Uploads that are still taken", self.free_uploads)
        age_s = self.access_age_s()
        yield GaugeMetricFamily("fairlane_api_access_age_seconds", "Age of the keys and policies known", age_s)
