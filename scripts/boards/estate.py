"""The board of the estate: brokers, bookies with the slow one, disks, caches, metadata, probes and states of nodes."""

from typing import Final

from grafana_foundation_sdk.models import dashboard as models

from estate.node_life import NODE_LIFE
from scripts.boards.alerts import (
    BOOKIE_WRITES,
    CACHE_READS,
    COLD_RATIO,
    DISK_FULL_PERCENT,
    FSYNC_MS,
    LARGEST_ENSEMBLE,
    METADATA_MS,
    WRITABLE,
    WRITES_IN_PROGRESS,
    metadata_p99,
    probe_p99,
)
from scripts.boards.installation import Installation
from scripts.boards.panels import WINDOW, Row, board, lines, number, states

UID: Final = "fairlane-estate"
_CLIENT: Final = "pulsar_managedLedger_client_bookkeeper_client"
"""Beginning of the metrics of a broker as a client of all bookies."""
_COLOURS: Final = {"serving": "green", "suspect": "orange", "draining": "purple", "isolated": "red", "gone": "gray"}


def estate_board(installation: Installation) -> models.Dashboard:
    """Return the board."""
    rows = (
        _now(),
        _nodes(installation),
        _brokers(installation),
        _slow_bookies(installation),
        _bookie_queues(),
        _copies(),
        _disks(installation),
        _caches(),
        _metadata(),
    )
    return board("Fairlane: estate", UID, "Brokers, bookies and metadata under the service.", rows)


def _p99(metric: str, by: str = "instance") -> str:
    """Return a quantile that a server computes itself. NaN, without traffic, is dropped."""
    return f'max by ({by}) ({metric}{{success="true",quantile="0.99"}} >= 0)'


def _now() -> Row:
    firing = 'count(ALERTS{service="fairlane",alertstate="firing"}) or vector(0)'
    brokers = 'sum(up{job="pulsar-broker"})'
    return Row(
        "Now",
        number("Alerts", "Alerts that fire", firing, limit=1),
        number("Brokers", "Brokers that answer", brokers),
        number("Writable bookies", "Bookies that take writes", WRITABLE),
        number(
            "Bookies to spare",
            "Writable bookies beyond the largest ensemble. 0: one more lost stops every lane",
            f"{WRITABLE} - {LARGEST_ENSEMBLE}",
            limit=1,
            low=True,
        ),
        number(
            "Ledgers without all copies", "At least this many", "max(fairlane_estate_under_replicated_ledgers)", limit=1
        ),
        number("Guards", "Guards that are elected: 1", "sum(fairlane_estate_guard) or vector(0)"),
    )


def _nodes(installation: Installation) -> Row:
    names = sorted(NODE_LIFE.states)
    coded = " or ".join(
        f'fairlane_estate_node_state{{state="{name}"}} * {index}' for index, name in enumerate(names, 1)
    )
    texts = {index: (name, _COLOURS.get(name, "blue")) for index, name in enumerate(names, 1)}
    failures = f"sum by (broker) (increase(fairlane_estate_probe_failures_total[{WINDOW}]))"
    commands = f"sum by (kind, command, result) (increase(fairlane_estate_commands_total[{WINDOW}]))"
    return Row(
        "Nodes as the guard sees them",
        states("States", f"max by (kind, node) ({coded})", "{{kind}} {{node}}", texts),
        lines(
            "Probes, p99",
            "A message that the guard publishes and reads; bookies take no part",
            probe_p99(),
            unit="s",
            span=6,
            limit=installation.slow_ms / 1000,
        ),
        lines("Probes without an answer", "In two minutes", failures, span=6),
        lines("Age of the last look", "Of the elected guard", "fairlane_estate_look_age_seconds", unit="s", span=6),
        lines(
            "Commands",
            "Nodes taken out of service and put back, in two minutes",
            {"{{command}} {{kind}}: {{result}}": commands},
            span=6,
        ),
    )


def _brokers(installation: Installation) -> Row:
    direct = 'jvm_memory_direct_bytes_used{job="pulsar-broker"} / jvm_memory_direct_bytes_max{job="pulsar-broker"}'
    collecting = f'sum by (instance) (rate(jvm_gc_collection_seconds_sum{{job="pulsar-broker"}}[{WINDOW}]))'
    publish = 'max by (instance) (pulsar_broker_publish_latency{quantile="0.99"} >= 0)'
    return Row(
        "Brokers",
        lines("CPU", "Of the machine", "pulsar_lb_cpu_usage", unit="percent", span=6),
        lines("Direct memory", "Share of its bound", direct, unit="percentunit", span=6, limit=0.9),
        lines("Garbage collection", "Share of the time", collecting, unit="percentunit", span=6),
        lines("Lanes", "Topics that are loaded", "pulsar_broker_topics_count", span=6),
        lines("In", "From producers", "pulsar_broker_throughput_in", unit="Bps", span=6),
        lines("Out", "To consumers", "pulsar_broker_throughput_out", unit="Bps", span=6),
        lines(
            "Publish, p99",
            "From a message's arrival to its receipt",
            publish,
            unit="ms",
            span=6,
            limit=installation.slow_ms,
        ),
        lines(
            "Throttled connections",
            "Not read, since too much waits to be stored",
            "pulsar_broker_throttled_connections",
            span=6,
            limit=1,
        ),
    )


def _slow_bookies(installation: Installation) -> Row:
    reads = _p99("pulsar_managedLedger_client_per_channel_bookie_client_READ_ENTRY", "bookie")
    return Row(
        "Bookies: who is slow",
        lines(
            "Writes as brokers see them, p99",
            "The largest of any broker. A bookie that stops again and again looks well in its own figures",
            {"{{bookie}}": BOOKIE_WRITES.name},
            unit="ms",
            span=12,
            limit=installation.slow_ms,
        ),
        lines("Reads as brokers see them, p99", "", reads, unit="ms", span=12),
        lines("Writes by its own figures, p99", "", _p99("bookkeeper_server_ADD_ENTRY"), unit="ms", span=12),
        lines("Sync of the journal, p99", "", _p99("bookie_journal_JOURNAL_SYNC"), unit="ms", span=12, limit=FSYNC_MS),
    )


def _bookie_queues() -> Row:
    cached = "sum by (instance) (bookie_write_cache_size) / sum by (instance) (bookie_write_cache_max_size)"
    rejected = f"rate(bookkeeper_server_ADD_ENTRY_REJECTED[{WINDOW}])"
    held = f'sum by (instance) (rate(bookie_throttled_write_count{{success="true"}}[{WINDOW}]))'
    return Row(
        "Bookies: where writes wait",
        lines(
            "Writes in progress",
            "Taken and not answered",
            "bookkeeper_server_ADD_ENTRY_IN_PROGRESS",
            limit=WRITES_IN_PROGRESS,
        ),
        lines("Wait for a write thread, p99", "", _p99("bookkeeper_server_WRITE_THREAD_QUEUED_LATENCY"), unit="ms"),
        lines("Wait for the journal, p99", "", _p99("bookie_journal_JOURNAL_QUEUE_LATENCY"), unit="ms"),
        lines(
            "Queues of the journal",
            "Entries that wait to be written, and to be synced",
            {
                "{{instance}}: write": "sum by (instance) (bookie_journal_JOURNAL_QUEUE_SIZE)",
                "{{instance}}: sync": "sum by (instance) (bookie_journal_JOURNAL_FORCE_WRITE_QUEUE_SIZE)",
            },
        ),
        lines("Write cache", "Share that is full", cached, unit="percentunit"),
        lines(
            "Held and rejected writes",
            "Writes a second that waited for the write cache, or were rejected",
            {"{{instance}}: held": held, "{{instance}}: rejected": rejected},
            unit="wps",
        ),
    )


def _copies() -> Row:
    def counted(name: str) -> str:
        return f"sum by (instance) (increase({_CLIENT}_{name}[{WINDOW}]))"

    misplaced = counted("bookie_watcher_ENSEMBLE_NOT_ADHERING_TO_PLACEMENT_POLICY_TOTAL")
    return Row(
        "Bookies: errors that brokers see",
        lines("Changed ensembles", "In two minutes", counted("NUM_ENSEMBLE_CHANGE")),
        lines(
            "Quarantines",
            "Of any bookie, in two minutes. A broker serves this figure after its first one",
            counted("BOOKIE_QUARANTINE"),
        ),
        lines("Ensembles against the rules of racks", "In two minutes", misplaced),
    )


def _disks(installation: Installation) -> Row:
    used, ours = "bookie_ledger_dir_usage", installation.namespaces
    growth = f"(predict_linear({used}[6h], 86400) - {used})"
    days = f"clamp_max(({DISK_FULL_PERCENT} - {used}) / clamp_min({growth}, 0.001), 365)"
    stored, logical = f"sum(pulsar_storage_size{{{ours}}})", f"sum(pulsar_storage_logical_size{{{ours}}})"
    return Row(
        "Disks",
        lines("Use", "", {"{{instance}} {{dir}}": used}, unit="percent", span=6, limit=DISK_FULL_PERCENT),
        lines(
            "Days until full",
            "At the growth of the last six hours; 365 or more: it does not grow",
            {"{{instance}} {{dir}}": days},
            unit="d",
            span=6,
        ),
        lines(
            "Stored",
            "Bytes of Fairlane's topics as they were published, and with all copies",
            {"logical": logical, "with copies": stored},
            unit="bytes",
            span=6,
        ),
        lines(
            "Written to journals",
            "",
            f"sum by (instance) (rate(bookie_journal_JOURNAL_WRITE_BYTES[{WINDOW}]))",
            unit="Bps",
            span=6,
        ),
    )


def _caches() -> Row:
    hits, misses = (f"sum by (instance) (rate(bookie_read_cache_{name}[{WINDOW}]))" for name in ("hits", "misses"))
    return Row(
        "Caches",
        lines(
            "Hits of the brokers' cache",
            "Share of reads",
            f"pulsar_ml_cache_hits_rate / {CACHE_READS}",
            unit="percentunit",
            limit=COLD_RATIO,
            low=True,
        ),
        lines("Evictions", "Rounds a minute", "pulsar_ml_cache_evictions"),
        lines("Size of the brokers' cache", "", "pulsar_ml_cache_used_size", unit="bytes"),
        lines("Read from bookies", "Not found in the cache", "pulsar_ml_cache_misses_throughput", unit="Bps"),
        lines("Waiting in lanes", "Messages", "pulsar_broker_msg_backlog"),
        lines("Hits of the bookies' read cache", "", f"{hits} / ({hits} + {misses})", unit="percentunit"),
    )


def _metadata() -> Row:
    times = ("updatelatency", "readlatency")
    return Row(
        "Metadata",
        lines("Writes as brokers see them, p99", "", metadata_p99("put"), unit="ms", span=6, limit=METADATA_MS),
        lines("Reads as brokers see them, p99", "", metadata_p99("get"), unit="ms", span=6),
        lines(
            "ZooKeeper: writes and reads, p99",
            "",
            {f"{{{{instance}}}}: {name}": f'{name}{{quantile="0.99"}}' for name in times},
            unit="ms",
            span=6,
        ),
        lines(
            "ZooKeeper: sync and queue",
            "Median time of a sync in ms, and requests that wait",
            {"{{instance}}: sync": 'fsynctime{quantile="0.5"}', "{{instance}}: waiting": "outstanding_requests"},
            span=6,
        ),
    )
