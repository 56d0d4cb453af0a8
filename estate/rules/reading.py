"""Makes facts of the answers of brokers and bookies. What is missing or not as expected becomes None, never zero."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from dispatcher.wire.topics import SUBSCRIPTION
from estate.facts.answers import BROKERS_PROPERTY, NAMES_PROPERTY, EstateAnswer, Metrics, NodeAnswer
from estate.rules.cluster import (
    BookieMode,
    BookieState,
    BrokerLoad,
    Estate,
    LedgerPlacement,
    LoadManager,
    NamespaceState,
    StraySubscription,
    Usage,
)

_BOOKIE_CLIENT = "pulsar_managedLedger_client_per_channel_bookie_client_bookie_"
_HEARTBEATS = ("pulsar/", "sla-monitor/")
"""Namespaces of the brokers' own heartbeats, which never move."""
_READER = re.compile(r"(?:[0-9a-f]{16}-)?reader-")
"""Matches the beginning of the names that readers give their subscriptions, which end with them.

Fairlane's readers have a number before it (backends/pulsar/topic_reader.py).
"""
_SYSTEM_TOPIC = "__"
"""Beginning of the names of topics that Pulsar makes for itself in any namespace."""
ENSEMBLES = re.compile(r"\d+=\[([^\]]*)\]")
_LEDGERS = "ledgers/"
_OFFLOAD = "offload/"
_POLICIES = "policies/"
_MANAGERS = {
    "ModularLoadManagerImpl": LoadManager.MODULAR,
    "ExtensibleLoadManagerImpl": LoadManager.EXTENSIBLE,
    "SimpleLoadManagerImpl": LoadManager.SIMPLE,
}


def estate_of(answer: EstateAnswer) -> Estate:
    """Return the facts of one look."""
    cluster = answer.cluster
    bookies = tuple(_bookies(answer))
    brokers = tuple(_broker(each, [bookie.name for bookie in bookies]) for each in answer.brokers)
    settings = next((broker.settings for broker in brokers if broker.settings), {})
    return Estate(
        brokers=brokers,
        bookies=tuple(_seen_by_brokers(bookie, brokers) for bookie in bookies),
        namespaces=tuple(_namespaces(cluster, settings)),
        broker_number=whole(number_of(_property(cluster, BROKERS_PROPERTY))) or None,
        broker_names=tuple(filter(None, _property(cluster, NAMES_PROPERTY).split(","))),
        leader=_text(cluster.documents.get("leader"), "brokerId") or _host(cluster.documents.get("leader")),
        auditor=next(filter(None, (_text(each, "auditorId") for each in _each(answer.bookies, "cluster_info"))), None),
        under_replicated=_under_replicated(answer.bookies),
        strays=tuple(_strays(answer)),
        ledgers=tuple(_ledgers(cluster)),
        offload_errors=dict(_offload_errors(cluster)),
        bookies_asked=answer.asked_bookies,
        unread=dict(cluster.failures),
    )


# ---------------------------------------------------------------- brokers
def _broker(answer: NodeAnswer, bookies: Iterable[str]) -> BrokerLoad:
    settings = _settings(answer)
    if answer.metrics is None:
        return BrokerLoad(name=answer.name, failure=answer.failures.get("metrics", "not asked"), settings=settings)
    metrics, report = answer.metrics, mapping(answer.documents.get("report"))
    return BrokerLoad(
        name=answer.name,
        manager=_manager(settings, report, metrics),
        cpu=_usage(report, "cpu") or _share(metrics, "pulsar_lb_cpu_usage"),
        direct=_direct(metrics) or _usage(report, "directMemory"),
        network_in=_usage(report, "bandwidthIn"),
        bytes_in=metrics.total("pulsar_throughput_in"),
        bytes_out=metrics.total("pulsar_throughput_out"),
        bundles=_bundles(answer, report),
        lanes=_lanes(metrics),
        publish_p50_ms=metrics.largest("pulsar_broker_publish_latency", quantile="0.5"),
        publish_p99_ms=metrics.largest("pulsar_broker_publish_latency", quantile="0.99"),
        metadata_put_p99_ms=_metadata(metrics, answer.earlier, "put"),
        metadata_get_p99_ms=_metadata(metrics, answer.earlier, "get"),
        cache_hit_ratio=_hit_ratio(metrics),
        throttled_connections=whole(metrics.total("pulsar_broker_throttled_connections")),
        bookies_p99_ms=dict(_bookie_times(metrics, bookies)),
        settings=settings,
    )


def _manager(settings: Mapping[str, str], report: Mapping[str, Any], metrics: Metrics) -> LoadManager:
    if settings.get("loadBalancerEnabled", "true") == "false":
        return LoadManager.NONE
    named = settings.get("loadManagerClassName", "").rpartition(".")[2]
    if named in _MANAGERS:
        return _MANAGERS[named]
    if report:
        return LoadManager.MODULAR
    extensible = any(metrics.values("pulsar_lb_resource_usage", feature=kind) for kind in ("max_ema", "max"))
    return LoadManager.EXTENSIBLE if extensible else LoadManager.NONE


def _usage(report: Mapping[str, Any], name: str) -> Usage | None:
    each = mapping(report.get(name))
    used, limit = number_of(each.get("usage")), number_of(each.get("limit"))
    return None if used is None or limit is None else Usage(used, limit)


def _share(metrics: Metrics, name: str) -> Usage | None:
    """Return a use that is known as a percentage only."""
    used = metrics.largest(name)
    return None if used is None else Usage(used, 100.0)


def _direct(metrics: Metrics) -> Usage | None:
    used, limit = metrics.largest("jvm_memory_direct_bytes_used"), metrics.largest("jvm_memory_direct_bytes_max")
    return None if used is None or limit is None else Usage(used / 2**20, limit / 2**20)


def _lanes(metrics: Metrics) -> int | None:
    samples = metrics.samples.get("pulsar_topics_count")
    if samples is None:
        return None
    ours = (sample.value for sample in samples if not sample.labels.get("namespace", "").startswith(_HEARTBEATS))
    return int(sum(ours))


def _metadata(metrics: Metrics, earlier: Metrics | None, kind: str) -> float | None:
    """Return the p99 of what was new between two looks; None before the second one."""
    if earlier is None:
        return None
    return metrics.quantile("pulsar_metadata_store_ops_latency_ms", 0.99, earlier, type=kind, status="success")


def _hit_ratio(metrics: Metrics) -> float | None:
    hits, misses = metrics.total("pulsar_ml_cache_hits_rate"), metrics.total("pulsar_ml_cache_misses_rate")
    if hits is None or misses is None or hits + misses <= 0:
        return None
    return hits / (hits + misses)


def _bookie_times(metrics: Metrics, bookies: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Yield (bookie, p99). The bookie is a part of the metric's name, in which only letters and digits are left."""
    for bookie in bookies:
        name = f"{_BOOKIE_CLIENT}{re.sub('[^A-Za-z0-9]', '_', bookie)}_ADD_ENTRY"
        slowest = metrics.largest(name, quantile="0.99")
        if slowest is not None:
            yield bookie, slowest


def _bundles(answer: NodeAnswer, report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the bundles of the load report, else those of the topics' statistics."""
    names = report.get("lastStats")
    if not isinstance(names, Mapping):
        topics = mapping(answer.documents.get("topics"))
        names = [f"{namespace}/{bounds}" for namespace, bundles in topics.items() for bounds in mapping(bundles)]
    return tuple(str(name) for name in names if not str(name).startswith(_HEARTBEATS))


# ---------------------------------------------------------------- bookies
def _bookies(answer: EstateAnswer) -> Iterator[BookieState]:
    writable, read_only = (_listed(answer.bookies, name) for name in ("writable", "read_only"))
    racks = _racks(answer.cluster.documents.get("racks"))
    for bookie in answer.bookies:
        mode = BookieMode.UNKNOWN
        if writable is not None and read_only is not None:
            mode = BookieMode.GONE
            if bookie.name in writable:
                mode = BookieMode.WRITABLE
            elif bookie.name in read_only:
                mode = BookieMode.READ_ONLY
        yield _bookie(bookie, mode, racks.get(bookie.name), asked=answer.asked_bookies)


def _bookie(answer: NodeAnswer, mode: BookieMode, rack: str | None, *, asked: bool) -> BookieState:
    metrics, settings = answer.metrics, _settings(answer)
    if metrics is None:
        failure = answer.failures.get("metrics", "no answer") if asked else "not asked: estate.bookie_http is not set"
        return BookieState(name=answer.name, mode=mode, rack=rack, failure=failure, settings=settings)

    def p99(name: str, share: str = "0.99") -> float | None:
        return metrics.largest(name, success="true", quantile=share)

    return BookieState(
        name=answer.name,
        mode=mode,
        rack=rack,
        disk_used=_disk(metrics),
        write_p50_ms=p99("bookkeeper_server_ADD_ENTRY", "0.5"),
        write_p99_ms=p99("bookkeeper_server_ADD_ENTRY"),
        queue_p99_ms=p99("bookkeeper_server_WRITE_THREAD_QUEUED_LATENCY"),
        journal_queue_p99_ms=p99("bookie_journal_JOURNAL_QUEUE_LATENCY"),
        fsync_p99_ms=p99("bookie_journal_JOURNAL_SYNC"),
        ledgers=whole(metrics.total("bookie_ledgers_count")),
        settings=settings,
    )


def _disk(metrics: Metrics) -> float | None:
    """Return the use of the fullest directory."""
    names = [name for name, _ in metrics.between("bookie_ledger_dir_", "_usage")]
    used = max((value for name in names for value in metrics.values(name)), default=None)
    return None if used is None else used / 100.0


def _seen_by_brokers(bookie: BookieState, brokers: Iterable[BrokerLoad]) -> BookieState:
    times = [broker.bookies_p99_ms[bookie.name] for broker in brokers if bookie.name in broker.bookies_p99_ms]
    return replace(bookie, broker_p99_ms=max(times, default=None))


def _listed(bookies: Iterable[NodeAnswer], document: str) -> set[str] | None:
    """Return the bookies that any bookie lists; None if none of them could be asked."""
    answers = [each for each in _each(bookies, document) if isinstance(each, Mapping)]
    return {str(name) for answer in answers for name in answer} if answers else None


def _racks(document: Any) -> dict[str, str]:
    """Return the rack of each bookie that has one. The document is by group, then by bookie."""
    return {
        str(name): str(info["rack"])
        for group in mapping(document).values()
        for name, info in mapping(group).items()
        if isinstance(info, Mapping) and info.get("rack")
    }


def _under_replicated(bookies: Iterable[NodeAnswer]) -> int | None:
    """Return the number of ledgers with missing copies; at least 1 if a bookie says that there are some."""
    lists = [each for each in _each(bookies, "under_replicated") if isinstance(each, Mapping | list)]
    flags = [each.get("clusterUnderReplicated") for each in _each(bookies, "cluster_info") if isinstance(each, Mapping)]
    if lists:
        return max(len(each) for each in lists)
    return max((int(bool(flag)) for flag in flags), default=None)


# ---------------------------------------------------------------- namespaces and topics
def _namespaces(cluster: NodeAnswer, settings: Mapping[str, str]) -> Iterator[NamespaceState]:
    for name, document in cluster.documents.items():
        if not name.startswith(_POLICIES) or not isinstance(document, Mapping):
            continue
        own = mapping(document.get("persistence"))

        def copies(field: str, setting: str, own: Mapping[str, Any] = own) -> int:
            return whole(number_of(own.get(field))) or whole(number_of(settings.get(setting))) or 0

        yield NamespaceState(
            name=name.removeprefix(_POLICIES),
            ensemble=copies("bookkeeperEnsemble", "managedLedgerDefaultEnsembleSize"),
            write_quorum=copies("bookkeeperWriteQuorum", "managedLedgerDefaultWriteQuorum"),
            ack_quorum=copies("bookkeeperAckQuorum", "managedLedgerDefaultAckQuorum"),
            bundles=whole(number_of(mapping(document.get("bundles")).get("numBundles"))) or 0,
            offload={key: str(value) for key, value in mapping(document.get("offload_policies")).items()},
        )


def _property(cluster: NodeAnswer, name: str) -> str:
    """Return what `fairlane provision` stored under a name; empty if it did not."""
    policies = (mapping(each) for document, each in cluster.documents.items() if document.startswith(_POLICIES))
    return next((str(value) for policy in policies if (value := mapping(policy.get("properties")).get(name))), "")


def _strays(answer: EstateAnswer) -> Iterator[StraySubscription]:
    ours = {name.removeprefix(_POLICIES) for name in answer.cluster.documents if name.startswith(_POLICIES)}
    for topics in _each(answer.brokers, "topics"):
        for namespace in ours & mapping(topics).keys():
            for kinds in mapping(topics[namespace]).values():
                yield from _strays_of(mapping(mapping(kinds).get("persistent")))


def _strays_of(topics: Mapping[str, Any]) -> Iterator[StraySubscription]:
    for topic, stats in topics.items():
        if topic.rpartition("/")[2].startswith(_SYSTEM_TOPIC):
            continue
        for name, subscription in mapping(mapping(stats).get("subscriptions")).items():
            if name != SUBSCRIPTION and not _READER.match(name):
                backlog = whole(number_of(mapping(subscription).get("msgBacklog")))
                yield StraySubscription(topic, name, backlog or 0)


def _ledgers(cluster: NodeAnswer) -> Iterator[LedgerPlacement]:
    for name, document in cluster.documents.items():
        ledgers = mapping(document).get("ledgers") if name.startswith(_LEDGERS) else None
        if isinstance(ledgers, list) and ledgers:
            ensembles = ENSEMBLES.findall(str(mapping(ledgers[-1]).get("metadata", "")))
            if ensembles:
                bookies = tuple(each.strip() for each in ensembles[-1].split(",") if each.strip())
                yield LedgerPlacement(name.removeprefix(_LEDGERS), bookies)


def _offload_errors(cluster: NodeAnswer) -> Iterator[tuple[str, str]]:
    for name, document in cluster.documents.items():
        error = _text(document, "lastError") if name.startswith(_OFFLOAD) else None
        if error:
            yield name.removeprefix(_OFFLOAD), error


# ---------------------------------------------------------------- documents
def _each(answers: Iterable[NodeAnswer], document: str) -> Iterator[Any]:
    return (answer.documents[document] for answer in answers if document in answer.documents)


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _settings(answer: NodeAnswer) -> dict[str, str]:
    return {str(name): str(value) for name, value in mapping(answer.documents.get("settings")).items()}


def _text(document: Any, field: str) -> str | None:
    value = mapping(document).get(field)
    return str(value) if value else None


def _host(document: Any) -> str | None:
    """Return host:port of a leader that is known by its address only, as in Pulsar before 3.0."""
    url = _text(document, "serviceUrl")
    return None if url is None else url.rpartition("/")[2]


def number_of(value: Any) -> float | None:
    """Return a finite number, of text as well; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if isfinite(number) else None


def whole(value: float | None) -> int | None:
    return None if value is None else int(value)
