"""Metric families from plain numbers."""

from collections.abc import Mapping
from math import inf

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from dispatcher.analysis.histogram import Histogram


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
