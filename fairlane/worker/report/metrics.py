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

from consumers.delivery.flow_figures import FlowFigures
from dispatcher.analysis.histogram import Histogram
from dispatcher.channels.guards.door import Door
from dispatcher.engine.stats import EngineStats
from dispatcher.model.errors import FairlaneError, InvalidInput
from dispatcher.model.flow_pause import FlowPause, flow_parts
from dispatcher.model.tier import MILLI
from dispatcher.wire.outcome import OUTCOME_NAMES
from fairlane.figures.signals import TierSignals
from fairlane.setting_groups import WorkerSettings
from fairlane.worker.report.service_view import ServiceView

_CALL_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_ENVELOPE_EVENTS = ("received", "acked", "republished", "moved", "dropped", "dead_lettered", "set_apart")
_GAUGES = {
    "lanes": "Lanes that this worker is attached to",
    "parked_lanes": "Lanes that this worker leaves alone because their task is paused, held or closing",
    "buffered_targets": "Targets received and not yet sent",
    "credit_targets": "Targets leased and not yet sent",
    "held_envelopes": "Unacknowledged envelopes that wait for the fold or for another worker's claim",
    "in_flight_targets": "Targets in calls to channels",
    "unsettled_targets": "Targets sent whose outcome record is not confirmed yet",
    "unrecorded_targets": "Targets whose outcome Pulsar should have stored by now",
}
_COUNTERS = {
    "retried": ("retried_targets", "Targets put into a retry lane for another attempt"),
    "unknown": ("unanswered_targets", "Targets sent without an answer, for which another attempt may be a repeat"),
    "given_back": ("given_back_targets", "Targets leased and returned unsent"),
    "lease_calls": ("lease_calls", "Lease calls made"),
    "lease_errors": ("lease_errors", "Lease calls that failed"),
    "clock_stops": (
        "standstills",
        "How often Redis' clock showed that this worker's clock had stopped for half a second or more",
    ),
    "given_back_refused": ("given_back_refused", "Returns of unused credit that the ledger could not apply"),
}
"""Metric and meaning of the counters in EngineStats."""
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
_FLOW = ("channel", "app")


def labelled(family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, float]) -> Metric:
    for label, value in values.items():
        family.add_metric([label], value)
    return family


def durations(name: str, meaning: str, label: str, histograms: Mapping[str, Histogram], per_s: int = 1) -> Metric:
    """Return histograms of durations in seconds. per_s: their units in a second."""
    family = HistogramMetricFamily(name, meaning, labels=[label])
    for value, histogram in list(histograms.items()):
        family.add_metric([value], buckets_of(histogram, per_s), histogram.sum / per_s)
    return family


def buckets_of(histogram: Histogram, per_s: int = 1) -> list[tuple[str, float]]:
    """Return the buckets of a histogram in seconds."""
    return [("+Inf" if bound == inf else str(bound / per_s), count) for bound, count in histogram.cumulated()]


class CallTimes:
    """Durations of calls to Redis, by script. `note` runs on the calling thread, so it has to be cheap."""

    def __init__(self) -> None:
        self.calls: dict[str, Histogram] = {}
        """Durations in seconds."""

    def note(self, name: str, seconds: float) -> None:
        durations = self.calls.get(name)
        if durations is None:
            durations = self.calls.setdefault(name, Histogram(_CALL_BUCKETS_S))
        durations.add(seconds)


class EngineCollector(Collector):
    """Figures of this worker itself."""

    def __init__(self, stats: EngineStats, calls: CallTimes, build: dict[str, str]) -> None:
        """`build`: the version, and the Pulsar tenant of the installation."""
        self._stats = stats
        self._calls = calls
        self._build = build

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("fairlane_build", "Version of Fairlane, and its Pulsar tenant", self._build)
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
        granted = {str(tier): counts.granted for tier, counts in self._stats.tiers.items()}
        yield labelled(CounterMetricFamily("fairlane_granted_targets", "Targets leased", labels=["tier"]), granted)

    def _times(self) -> Iterator[Metric]:
        waits = {str(tier): counts.wait for tier, counts in self._stats.tiers.items()}
        wait_meaning = "Time of an envelope from its publishing to its sending"
        yield durations("fairlane_queue_wait_seconds", wait_meaning, "tier", waits, MILLI)
        yield durations(
            "fairlane_stage_seconds",
            "Time of an envelope from the stage before to this one: received (since published), leased, sent, settled",
            "stage",
            self._stats.stages,
            MILLI,
        )
        yield durations("fairlane_redis_call_seconds", "Duration of calls to Redis", "script", self._calls.calls)

    def _counters(self) -> Iterator[Metric]:
        stats = self._stats
        meaning = f"Envelopes by event: {', '.join(_ENVELOPE_EVENTS)}"
        envelopes = CounterMetricFamily("fairlane_envelopes", meaning, labels=["event"])
        yield labelled(envelopes, {event: getattr(stats, event) for event in _ENVELOPE_EVENTS})
        for field, (name, meaning) in _COUNTERS.items():
            yield CounterMetricFamily(f"fairlane_{name}", meaning, getattr(stats, field))


class ServiceCollector(Collector):
    """Figures that all workers share, read from the registry at each scrape; omitted while Redis is unreachable."""

    def __init__(self, service: ServiceView) -> None:
        self._service = service

    def describe(self) -> Sequence[Metric]:
        """Return nothing: registering the collector must not query Redis."""
        return []

    def collect(self) -> Iterator[Metric]:
        try:
            signals, paused = self._service.signals(), self._service.flow_pauses()
            stuck = self._service.stuck_tasks()
        except FairlaneError:
            return
        yield _paused_flows(paused)
        for name, (meaning, value_of) in _SIGNALS.items():
            values = {tier.tier: value for tier in signals.tiers if (value := value_of(tier)) is not None}
            yield labelled(GaugeMetricFamily(name, meaning, labels=["tier"]), values)
        yield GaugeMetricFamily("fairlane_stuck_tasks", "Tasks that cannot end by themselves", stuck.stuck)
        silent = "Tasks that workers have sent for 10 min without an outcome, and that no pause or cap holds back"
        yield GaugeMetricFamily("fairlane_silent_tasks", silent, stuck.silent)
        yield GaugeMetricFamily("fairlane_workers", "Workers that are serving", signals.workers)
        yield GaugeMetricFamily(
            "fairlane_workers_needed",
            "Workers needed to send all that capacity and caps allow, at most twice the present number; "
            "0 if demand is the limit",
            signals.workers_needed,
        )


def _paused_flows(paused: Mapping[str, FlowPause]) -> Metric:
    family = GaugeMetricFamily(
        "fairlane_flow_paused",
        "1 for each app of which nothing is sent on a channel; kind: hand, credentials, limit, down, suspect",
        labels=["channel", "app", "kind"],
    )
    for flow, pause in paused.items():
        family.add_metric([*flow_parts(flow), str(pause.kind)], 1)
    return family


def serve_metrics(settings: WorkerSettings, *collectors: Collector) -> "MetricsServer | None":
    """Serve the figures where the settings say; None if they say not to. Raises InvalidInput if the port is taken."""
    if settings.metrics_port < 0:
        return None
    return MetricsServer(settings.metrics_port, settings.metrics_host, collectors)


class MetricsServer:
    """Serves /metrics. Port 0 selects any free one; `port` then has its number."""

    def __init__(self, port: int, host: str, collectors: Sequence[Collector]) -> None:
        """Start the server. Raises InvalidInput if the port is taken, or the host is no address of this machine."""
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
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is no host name"
        raise InvalidInput(
            f"Metrics cannot be served on {host}:{port}: {reason}.",
            "Choose another --metrics-port (0: any) or worker.metrics_host.",
        ) from error


class FlowCollector(Collector):
    """Figures of the flows of this worker. `app` is empty for a channel whose apps share its limits."""

    def __init__(self, flows: Mapping[tuple[str, str], FlowFigures], doors: Callable[[], Mapping[str, Door]]) -> None:
        """`doors`: returns the doors by pool."""
        self._flows = flows
        self._doors = doors

    def collect(self) -> Iterator[Metric]:
        flows = list(self._flows.values())
        yield from _requests(flows)
        yield _answers(flows)
        yield _times(flows)
        yield from _caps(self._doors())


def _requests(flows: list[FlowFigures]) -> Iterator[Metric]:
    requests = CounterMetricFamily("fairlane_flow_requests", "Requests to the provider", labels=_FLOW)
    under_way = GaugeMetricFamily("fairlane_flow_in_flight", "Requests without an answer so far", labels=_FLOW)
    limit = GaugeMetricFamily(
        "fairlane_flow_limit",
        "Requests that may be in flight: fewer than connections and streams allow while answers take longer than usual",
        labels=_FLOW,
    )
    for flow in flows:
        labels = [flow.channel, flow.app]
        requests.add_metric(labels, flow.requests)
        under_way.add_metric(labels, flow.under_way)
        limit.add_metric(labels, flow.limit.limit)
    yield from (requests, under_way, limit)


def _answers(flows: list[FlowFigures]) -> Metric:
    answers = CounterMetricFamily(
        "fairlane_flow_answers",
        "Answers by verdict: for fcm and apns an effect of the verdict table, else the outcome of an envelope; "
        "`unknown` and `unsent` without an answer",
        labels=[*_FLOW, "verdict"],
    )
    for flow in flows:
        for verdict, count in list(flow.answers.items()):
            answers.add_metric([flow.channel, flow.app, str(verdict)], count)
    return answers


def _times(flows: list[FlowFigures]) -> Metric:
    times = HistogramMetricFamily("fairlane_flow_answer_seconds", "Time from a request to its answer", labels=_FLOW)
    for flow in flows:
        times.add_metric([flow.channel, flow.app], buckets_of(flow.times), flow.times.sum)
    return times


def _caps(doors: Mapping[str, Door]) -> Iterator[Metric]:
    cap = GaugeMetricFamily(
        "fairlane_cap_per_second",
        "Present rate of a cap that paces requests, of all workers together: less than the cap while it is halved or "
        "ramps up",
        labels=["pool", "unit"],
    )
    used = CounterMetricFamily(
        "fairlane_cap_used",
        "Targets or requests that this worker sent under such a cap; the rate of the sum over all workers, divided by "
        "fairlane_cap_per_second, is the part that is used",
        labels=["pool", "unit"],
    )
    lost = CounterMetricFamily(
        "fairlane_cap_lost",
        "Targets or requests that this worker was granted under such a cap and did not send in their time, since it "
        "stalled or its provider was slow",
        labels=["pool", "unit"],
    )
    for pool, door in doors.items():
        labels = [pool, "request" if door.by_request else "target"]
        if door.cap:
            cap.add_metric(labels, door.cap)
        used.add_metric(labels, door.used)
        lost.add_metric(labels, door.lost)
    yield from (cap, used, lost)
