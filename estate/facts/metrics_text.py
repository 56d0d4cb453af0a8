"""Parses Prometheus text as brokers and bookies write it."""

from prometheus_client.parser import text_string_to_metric_families

from dispatcher.model.errors import Malformed
from estate.facts.answers import Metrics, MetricSample

KEPT = (
    "bookie_",
    "bookkeeper_server_",
    "fairlane_stage_seconds",
    "jvm_memory_direct_bytes_",
    "pulsar_broker_",
    "pulsar_lb_",
    "pulsar_managedLedger_client_per_channel_bookie_client_bookie_",
    "pulsar_metadata_store_ops_latency_ms",
    "pulsar_ml_cache_",
    "pulsar_rate_",
    "pulsar_throughput_",
    "pulsar_topics_count",
)
"""Beginnings of the names that are parsed. A broker serves thousands of lines; parsing takes longer than asking."""


def parse_metrics(text: str) -> Metrics:
    """Return the samples by name, those of KEPT. Raises Malformed.

    Brokers repeat TYPE lines and write histograms without HELP; the parser makes further families of them, so samples
    are collected by their own names.
    """
    samples: dict[str, list[MetricSample]] = {}
    lines = "\n".join(line for line in text.splitlines() if line.startswith(KEPT))
    try:
        for family in text_string_to_metric_families(lines):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append(MetricSample(sample.labels, sample.value))
    except ValueError as error:
        raise Malformed(
            f"The metrics are not readable ({error}).", "Check that this is a broker or a bookie."
        ) from error
    return Metrics({name: tuple(values) for name, values in samples.items()})
