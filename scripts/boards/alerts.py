"""The alerts. Each has a section in docs/runbooks.md, and tests of its firing and of its silence."""

from typing import Final

from scripts.boards.alert import Alert, Level, Recorded
from scripts.boards.installation import Installation
from scripts.boards.service_alerts import service_alerts

DISK_FULL_PERCENT: Final = 95
"""A bookie becomes read-only here (its diskUsageThreshold)."""
FSYNC_MS: Final = 50
METADATA_MS: Final = 50
METADATA_CRITICAL_MS: Final = 300
COLD_RATIO: Final = 0.5
WRITES_IN_PROGRESS: Final = 500
"""A bookie rejects writes at 10,000 for each of its threads (maxPendingAddRequestsPerThread)."""
USUAL_ENSEMBLE: Final = 2
"""Taken where no guard says how large the largest ensemble is: Pulsar's default."""
BOOKIE_WRITES: Final = Recorded(
    "bookie:write_p99_ms:max",
    # Brokers see a slow bookie; its own figures look well. NaN, no traffic, is dropped.
    'max by (bookie) (pulsar_managedLedger_client_per_channel_bookie_client_ADD_ENTRY{success="true",quantile="0.99"}'
    " >= 0)",
)
WRITABLE: Final = "(sum(bookie_SERVER_STATUS == bool 1) or vector(0))"
LARGEST_ENSEMBLE: Final = f"(max(fairlane_estate_largest_ensemble_bookies) or vector({USUAL_ENSEMBLE}))"
CACHE_READS: Final = "(pulsar_ml_cache_hits_rate + pulsar_ml_cache_misses_rate)"


def probe_p99(labels: str = "broker") -> str:
    """Return the p99 of the probes in s. Only the elected guard probes, so the sum over guards is its own."""
    return f"histogram_quantile(0.99, sum by ({labels}, le) (rate(fairlane_estate_probe_seconds_bucket[5m])))"


def metadata_p99(kind: str) -> str:
    """Return the p99 in ms of one kind of call to the metadata store, as each broker sees it."""
    matchers = f'job="pulsar-broker",type="{kind}",status="success"'
    buckets = f"rate(pulsar_metadata_store_ops_latency_ms_bucket{{{matchers}}}[5m])"
    return f"histogram_quantile(0.99, sum by (instance, le) ({buckets}))"


def mean_of_others(vector: str) -> str:
    """Return the mean of all other series of a vector. With one series it is NaN, above which nothing is."""
    return f"((scalar(sum({vector})) - {vector}) / (scalar(count({vector})) - 1))"


def alerts(installation: Installation) -> tuple[Alert, ...]:
    """Return all alerts: of the service, of bookies, brokers and metadata, and of what only the guard sees."""
    of_estate = (*_of_bookies(installation), *_of_disks(), *_of_brokers(), *_of_guards(installation))
    return (*service_alerts(), *of_estate)


def _of_bookies(installation: Installation) -> tuple[Alert, ...]:
    p99 = BOOKIE_WRITES.name
    slow = f"{p99} > {installation.slow_ms:g} and {p99} > {installation.slow_ratio:g} * {mean_of_others(p99)}"
    return (
        Alert(
            title="Slow bookie",
            levels=(Level(severity="critical", expr=slow, held="1m"),),
            summary="Brokers wait {{ $value | printf `%.0f` }} ms for bookie {{ $labels.bookie }}, far more than for "
            "its peers",
        ),
        Alert(
            title="No bookie to spare",
            levels=(Level(severity="critical", expr=f"{WRITABLE} <= {LARGEST_ENSEMBLE}", held="1m"),),
            summary="{{ $value }} bookies are writable: one more lost stops every lane",
        ),
        Alert(
            title="Read-only bookie",
            levels=(Level(severity="warning", expr="bookie_SERVER_STATUS < 1", held="5m"),),
            summary="Bookie {{ $labels.instance }} takes no writes",
        ),
        Alert(
            title="Under-replicated ledgers",
            levels=(Level(severity="critical", expr="max(fairlane_estate_under_replicated_ledgers) > 0", held="30m"),),
            summary="Ledgers have lacked copies for half an hour",
        ),
    )


def _of_disks() -> tuple[Alert, ...]:
    in_progress = "bookkeeper_server_ADD_ENTRY_IN_PROGRESS"
    growing = f"min_over_time({in_progress}[5m]) > {WRITES_IN_PROGRESS} and deriv({in_progress}[10m]) > 0"
    full = f"predict_linear(bookie_ledger_dir_usage[6h], 86400) > {DISK_FULL_PERCENT}"
    fsync = 'max by (instance) (bookie_journal_JOURNAL_SYNC{success="true",quantile="0.99"})'
    return (
        Alert(
            title="Disk full in a day",
            levels=(Level(severity="warning", expr=full, held="30m"),),
            summary="Directory {{ $labels.dir }} of bookie {{ $labels.instance }} will be {{ $value | printf `%.0f` }} "
            "% full in a day",
        ),
        Alert(
            title="Slow journal",
            levels=(Level(severity="warning", expr=f"{fsync} > {FSYNC_MS}", held="10m"),),
            summary="Bookie {{ $labels.instance }} takes {{ $value | printf `%.0f` }} ms (p99) to sync its journal",
        ),
        Alert(
            title="Growing write queue",
            levels=(
                Level(
                    severity="warning",
                    expr=f"({growing}) or rate(bookkeeper_server_ADD_ENTRY_REJECTED[5m]) > 0",
                    held="5m",
                ),
            ),
            summary="Bookie {{ $labels.instance }} is given more writes than it stores, or rejects writes",
        ),
    )


def _of_brokers() -> tuple[Alert, ...]:
    cpu = "pulsar_lb_cpu_usage"
    cold = (
        f"pulsar_ml_cache_hits_rate / {CACHE_READS} < {COLD_RATIO} and {CACHE_READS} > 50"
        " and on (instance) (pulsar_broker_msg_backlog < 60 * pulsar_broker_rate_out)"
    )
    return (
        Alert(
            title="Broker down",
            levels=(Level(severity="critical", expr='up{job="pulsar-broker"} == 0', held="1m"),),
            summary="Broker {{ $labels.instance }} does not answer",
        ),
        Alert(
            title="Hot broker",
            levels=(Level(severity="warning", expr=f"{cpu} > 2 * {mean_of_others(cpu)} and {cpu} > 40", held="30m"),),
            summary="Broker {{ $labels.instance }} uses {{ $value | printf `%.0f` }} % CPU, twice the mean of the "
            "others",
        ),
        Alert(
            title="Throttled connections",
            levels=(Level(severity="warning", expr="pulsar_broker_throttled_connections > 0", held="5m"),),
            summary="Broker {{ $labels.instance }} does not read {{ $value }} connections, since too much waits to be "
            "stored",
        ),
        Alert(
            title="Cold cache",
            levels=(Level(severity="warning", expr=cold, held="10m"),),
            summary="Broker {{ $labels.instance }} reads {{ $value | humanizePercentage }} of recent messages from its "
            "cache, the rest from bookies",
        ),
    )


def _of_guards(installation: Installation) -> tuple[Alert, ...]:
    puts = metadata_p99("put")
    failures = "sum by (broker) (increase(fairlane_estate_probe_failures_total[5m])) > 5"
    probe = f"{probe_p99()} > {installation.slow_ms / 1000:g} or {failures} or absent(fairlane_estate_guard == 1)"
    return (
        Alert(
            title="Slow metadata",
            levels=(
                Level(severity="warning", expr=f"{puts} > {METADATA_MS}", held="10m"),
                Level(severity="critical", expr=f"{puts} > {METADATA_CRITICAL_MS}", held="2m"),
            ),
            summary="Writes to the metadata store take broker {{ $labels.instance }} {{ $value | printf `%.0f` }} ms "
            "(p99)",
        ),
        Alert(
            title="Slow probe",
            levels=(Level(severity="critical", expr=probe, held="5m"),),
            summary="{{ if $labels.broker }}Messages do not pass through broker {{ $labels.broker }} in time"
            "{{ else }}No guard is elected, so nothing is probed{{ end }}",
        ),
        Alert(
            title="Stray subscription",
            levels=(Level(severity="warning", expr=_strays(installation), held="30m"),),
            summary="Namespace {{ $labels.namespace }} has a subscription that is not Fairlane's, and "
            "{{ $value | humanize }} messages wait there",
        ),
    )


def _strays(installation: Installation) -> str:
    """Lanes have one subscription each. Records are read without one that lasts, so nothing waits there for long."""

    def total(metric: str, matcher: str) -> str:
        return f"sum by (namespace) ({metric}{{{matcher}}})"

    lanes, system = installation.lane_namespaces, installation.system_namespace
    extra = f"{total('pulsar_subscriptions_count', lanes)} > {total('pulsar_topics_count', lanes)}"
    waiting = f"{total('pulsar_msg_backlog', lanes)} > 0"
    return f"({waiting} and on (namespace) ({extra})) or {total('pulsar_msg_backlog', system)} > 10000"
