"""Answers of the nodes of an estate: documents and metrics, and why one is missing. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from dispatcher.analysis.histogram import quantile

BROKERS_PROPERTY = "fairlane-brokers"
"""Property of the system namespace: the number of brokers that the cluster has when none is lost."""
NAMES_PROPERTY = "fairlane-broker-names"
"""Property of the system namespace: the brokers when that number, or more, were there last. Separated by commas."""


class MetricSample(NamedTuple):
    """One value of a metric."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Metrics:
    """The samples of one node, by name."""

    samples: Mapping[str, tuple[MetricSample, ...]] = field(default_factory=dict)

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the finite values with these labels. Quantiles without traffic are NaN or infinite."""
        return [
            sample.value
            for sample in self.samples.get(name, ())
            if isfinite(sample.value) and all(sample.labels.get(key) == value for key, value in labels.items())
        ]

    def largest(self, name: str, **labels: str) -> float | None:
        return max(self.values(name, **labels), default=None)

    def total(self, name: str, **labels: str) -> float | None:
        values = self.values(name, **labels)
        return sum(values) if values else None

    def between(self, prefix: str, suffix: str) -> Iterator[tuple[str, str]]:
        """Yield (metric, middle part) of the metrics whose names begin and end so."""
        for name in self.samples:
            if name.startswith(prefix) and name.endswith(suffix) and len(name) > len(prefix) + len(suffix):
                yield name, name[len(prefix) : -len(suffix)]

    def quantile(self, name: str, share: float, since: "Metrics | None" = None, **labels: str) -> float | None:
        """Return a quantile of a histogram, interpolated in its bucket. None if it counted nothing.

        since: earlier metrics of the same node, whose counts are left out. None if the node was restarted since then.
        """
        buckets = self._buckets(name, labels)
        if since is not None:
            before = since._buckets(name, labels)
            buckets = {bound: count - before.get(bound, 0.0) for bound, count in buckets.items()}
        if any(count < 0 for count in buckets.values()):
            return None
        return quantile(sorted(buckets.items()), share)

    def _buckets(self, name: str, labels: Mapping[str, str]) -> dict[float, float]:
        buckets: dict[float, float] = {}
        for sample in self.samples.get(f"{name}_bucket", ()):
            if all(sample.labels.get(key) == value for key, value in labels.items()):
                bound = float(sample.labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + sample.value
        return buckets


@dataclass(frozen=True, kw_only=True)
class NodeAnswer:
    """The answer of one broker or bookie."""

    name: str
    """A broker's host:port of its REST address; a bookie's id."""
    documents: Mapping[str, Any] = field(default_factory=dict)
    """JSON documents, by the names of `questions`; those that were answered."""
    metrics: Metrics | None = None
    earlier: Metrics | None = None
    """Its metrics at the look before; None if it did not answer then."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why a document or `metrics` is missing, by its name."""


@dataclass(frozen=True, kw_only=True)
class EstateAnswer:
    """The answers of all nodes, and of the cluster through its configured address."""

    cluster: NodeAnswer
    """Documents that every broker would answer alike, `policies/NAMESPACE` among them."""
    brokers: tuple[NodeAnswer, ...] = ()
    bookies: tuple[NodeAnswer, ...] = ()
    asked_bookies: bool = True
    """Whether the settings have an address for the bookies' HTTP interfaces."""
