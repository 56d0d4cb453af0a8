"""Prometheus metrics of one worker: few series, built from the engine's plain counters at each scrape.

Labels are tiers, channels, outcomes, stages and script names, never a task's id.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from dispatcher.engine.stats import EngineStats
from dispatcher.model.errors import FairlaneError, InvalidInput
from dispatcher.model.histogram import Histogram
from dispatcher.model.tier import MILLI
from dispatcher.wire.outcome import OUTCOME_NAMES
from fairlane.figures.signals import TierSignals
from fairlane.worker.report.call_times import CallTimes
from fairlane.worker.report.service_view import ServiceView

_ENVELOPE_EVENTS = ("received", "acked", "republished", "moved", "dropped", "dead_lettered")
_GAUGES = {
    "lanes": "Lanes that this worker is attached to",
    "parked_lanes": "Lanes that this worker leaves alone because their task is paused, held or closing",
    "buffered_targets": "Targets received and not yet sent",
    "credit_targets": "Targets leased and not yet sent",
    "held_envelopes": "Unacknowledged envelopes that wait for the fold or for another worker's claim",
    "in_flight_targets": "Targets in calls to channels",
    "unsettled_targets": "Targets sent whose outcome record is not confirmed yet",
}


class EngineCollector(Collector):
    """Figures of this worker itself."""

    def __init__(self, stats: EngineStats, calls: CallTimes, version: str) -> None:
        self._stats = stats
        self._calls = calls
        self._version = version

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("fairlane_build", "Version of Fairlane", {"version": self._version})
        yield from self._targets()
        yield from self._times()
        yield from self._counters()
        for name, meaning in _GAUGES.items():
            yield GaugeMetricFamily(f"fairlane_worker_{name}", meaning, getattr(self._stats, name))

    def _targets(self) -> Iterator[Metric]:
        outcomes = CounterMetricFamily("fairlane_targets", "Targets by outcome", labels=["tier", "channel", "outcome"])
        for (tier, channel, code), count in list(self._stats.outcomes.items()):
            outcomes.add_metric([str(tier), channel, OUTCOME_NAMES[code]], count)
        yield outcomes
        granted = CounterMetricFamily("fairlane_granted_targets", "Targets leased", labels=["tier"])
        for tier, counts in self._stats.tiers.items():
            granted.add_metric([str(tier)], counts.granted)
        yield granted

    def _times(self) -> Iterator[Metric]:
        wait = HistogramMetricFamily(
            "fairlane_queue_wait_seconds", "Time of an envelope from its publishing to its sending", labels=["tier"]
        )
        for tier, counts in self._stats.tiers.items():
            wait.add_metric([str(tier)], *_series(counts.wait, MILLI))
        yield wait
        stages = HistogramMetricFamily(
            "fairlane_stage_seconds",
            "Time of an envelope from the stage before to this one: received (since published), leased, sent, settled",
            labels=["stage"],
        )
        for stage, histogram in self._stats.stages.items():
            stages.add_metric([stage], *_series(histogram, MILLI))
        yield stages
        calls = HistogramMetricFamily("fairlane_redis_call_seconds", "Duration of calls to Redis", labels=["script"])
        for script, durations in list(self._calls.calls.items()):
            calls.add_metric([script], *_series(durations))
        yield calls

    def _counters(self) -> Iterator[Metric]:
        stats = self._stats
        envelopes = CounterMetricFamily(
            "fairlane_envelopes",
            "Envelopes by event: received, acked, republished, moved, dropped, dead_lettered",
            labels=["event"],
        )
        for event in _ENVELOPE_EVENTS:
            envelopes.add_metric([event], getattr(stats, event))
        yield envelopes
        yield CounterMetricFamily(
            "fairlane_retried_targets", "Targets put into a retry lane for another attempt", stats.retried
        )
        yield CounterMetricFamily(
            "fairlane_unanswered_targets",
            "Targets sent without an answer, for which another attempt may be a repeat",
            stats.unknown,
        )
        yield CounterMetricFamily("fairlane_given_back_targets", "Targets leased and returned unsent", stats.given_back)
        yield CounterMetricFamily("fairlane_lease_calls", "Lease calls made", stats.lease_calls)
        yield CounterMetricFamily("fairlane_lease_errors", "Lease calls that failed", stats.lease_errors)
        yield CounterMetricFamily(
            "fairlane_standstills",
            "How often Redis' clock showed that this worker's clock had stopped for half a second or more",
            stats.clock_stops,
        )
        refused = stats.given_back_refused
        yield CounterMetricFamily(
            "fairlane_given_back_refused", "Returns of unused credit that the ledger could not apply", refused
        )


class ServiceCollector(Collector):
    """Figures that all workers share, read from the registry at each scrape; omitted while Redis is unreachable."""

    def __init__(self, service: ServiceView) -> None:
        self._service = service

    def describe(self) -> Sequence[Metric]:
        """Return nothing: registering the collector must not query Redis."""
        return []

    def collect(self) -> Iterator[Metric]:
        try:
            signals = self._service.signals()
        except FairlaneError:
            return
        for name, (meaning, value_of) in _SIGNALS.items():
            values = {tier.tier: value_of(tier) for tier in signals.tiers}
            yield _by_tier(name, meaning, {tier: value for tier, value in values.items() if value is not None})
        yield GaugeMetricFamily("fairlane_workers", "Workers that are serving", signals.workers)
        yield GaugeMetricFamily(
            "fairlane_workers_needed",
            "Workers needed to send all that capacity and caps allow, at most twice the present number; "
            "0 if demand is the limit",
            signals.workers_needed,
        )


_SIGNALS: dict[str, tuple[str, Callable[[TierSignals], float | None]]] = {
    "fairlane_backlog_targets": ("Targets that may be sent now and have no outcome", lambda tier: tier.backlog),
    "fairlane_drain_seconds": ("Seconds until the backlog is sent, at the recent rate", lambda tier: tier.drain_s),
    "fairlane_arrival_targets_per_second": ("Targets submitted a second", lambda tier: tier.arrival_rate),
    "fairlane_service_targets_per_second": ("Targets that all workers send a second", lambda tier: tier.rate),
    "fairlane_spare_targets_per_second": (
        "Targets a second that could be sent beyond the present rate; absent where nothing limits it",
        lambda tier: tier.spare,
    ),
    "fairlane_share_wanted_ratio": ("Share by weight, among the tiers that have a backlog", lambda tier: tier.wanted),
    "fairlane_share_actual_ratio": ("Share of the targets that all workers sent recently", lambda tier: tier.actual),
}
"""Metrics of the whole service, by tier."""


def _by_tier(name: str, meaning: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=["tier"])
    for tier, value in values.items():
        family.add_metric([tier], value)
    return family


def _series(histogram: Histogram, per_s: int = 1) -> tuple[list[tuple[str, float]], float]:
    """Return the buckets and the sum of durations in seconds. per_s: the histogram's units in a second."""
    buckets = [("+Inf" if bound == inf else str(bound / per_s), count) for bound, count in histogram.cumulated()]
    return buckets, histogram.sum / per_s


class MetricsServer:
    """Serves /metrics. Port 0 selects any free one; `port` then has its number."""

    def __init__(self, port: int, host: str, collectors: Sequence[Collector]) -> None:
        """Start the server. Raises InvalidInput if the port is taken."""
        registry = CollectorRegistry()
        for collector in collectors:
            registry.register(collector)
        self._server, self._thread = _serve(port, host, registry)
        self.port: int = self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _serve(port: int, host: str, registry: CollectorRegistry) -> tuple[WSGIServer, Thread]:
    start: Callable[..., tuple[WSGIServer, Thread]] = start_http_server
    try:
        return start(port, host, registry)
    except OSError as error:
        raise InvalidInput(
            f"Metrics cannot be served on {host}:{port}: {error.strerror}.", "Choose another --metrics-port (0: any)."
        ) from error
