"""Prometheus metrics of a worker's flows, and of the caps that pace them.

Their labels are channels, apps, verdicts and pools. The number of series is bounded: FlowTable bounds the flows, Doors
the pools.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from consumers.delivery.flow_figures import FlowFigures
from dispatcher.channels.guards.door import Door
from fairlane.worker.report.families import buckets_of

_FLOW = ("channel", "app")


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
        cap.add_metric(labels, door.cap)
        used.add_metric(labels, door.used)
        lost.add_metric(labels, door.lost)
    yield from (cap, used, lost)
