"""Prometheus metrics of a guard. Those of nodes come from the elected one only."""

from collections.abc import Iterator
from itertools import product
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from estate.guard.guard import Guard
from estate.guard.probes import ProbeFigures
from estate.rules.cluster import Estate
from estate.rules.node_life import Intent, NodeKind
from estate.rules.node_looks import budget_of
from fairlane.worker.report.metrics import durations, labelled

_RESULTS: Final = ("done", "refused", "unknown")


class GuardCollector(Collector):
    """Makes metrics of a guard and its probes at each scrape."""

    def __init__(self, guard: Guard, probes: ProbeFigures) -> None:
        self._guard, self._probes = guard, probes

    def collect(self) -> Iterator[Metric]:
        guard = self._guard
        yield GaugeMetricFamily(
            "fairlane_estate_guard", "1 if this guard is elected, 0 if another one is", float(guard.elected)
        )
        if (age_s := guard.look_age_s()) is not None:
            yield GaugeMetricFamily("fairlane_estate_look_age_seconds", "Time since the guard's last look", age_s)
        yield from self._estate()
        yield self._states()
        yield durations(
            "fairlane_estate_probe_seconds",
            "Time from publishing a message to a broker to reading it back; bookies take no part",
            "broker",
            self._probes.times,
        )
        failures = CounterMetricFamily("fairlane_estate_probe_failures", "Probes without an answer", labels=["broker"])
        yield labelled(failures, dict(self._probes.failures))
        yield self._commands()

    def _estate(self) -> Iterator[Metric]:
        """Yield the figures that no node serves by itself, as far as the last look showed them."""
        estate = self._guard.estate
        figures = {
            "largest_ensemble_bookies": ("Largest ensemble of Fairlane's namespaces", _ensemble(estate)),
            "under_replicated_ledgers": ("Ledgers with missing copies", estate.under_replicated if estate else None),
        }
        for name, (meaning, value) in figures.items():
            if value is not None:
                yield GaugeMetricFamily(f"fairlane_estate_{name}", meaning, value)

    def _states(self) -> Metric:
        family = GaugeMetricFamily(
            "fairlane_estate_node_state",
            "1 for the state of each node; kind: broker, bookie; state: joining, serving, suspect, draining, "
            "isolated, gone",
            labels=["kind", "node", "state"],
        )
        for node in self._guard.nodes.values():
            family.add_metric([node.kind, node.name, node.state], 1)
        return family

    def _commands(self) -> Metric:
        family = CounterMetricFamily(
            "fairlane_estate_commands",
            f"Commands to nodes; command: isolate, release; result: {', '.join(_RESULTS)}",
            labels=["kind", "command", "result"],
        )
        for kind, intent, result in product(NodeKind, (Intent.ISOLATE, Intent.RELEASE), _RESULTS):
            family.add_metric([kind, intent, result], self._guard.ended.get((kind, intent, result), 0))
        return family


def _ensemble(estate: Estate | None) -> int | None:
    return None if estate is None else budget_of(estate).largest_ensemble
