"""One look at an estate and the guard's own probes, as judgements of nodes need them: node by node."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from estate.rules.cluster import BookieMode, BookieState, BrokerLoad, Estate
from estate.rules.node_life import NodeKind, NodeRecord
from estate.rules.nodes import DISK_FULL
from estate.rules.slow_nodes import Budget, JudgeSettings, NodeLook


@dataclass(frozen=True)
class ProbeLook:
    """The probes of one node since the look before."""

    p90_ms: float | None = None
    """Nine of ten took at most this; of fewer than ten, all. One that has no answer yet counts for as long as it was
    waited for. None: none was made."""
    failure: str = ""
    """Why the last one did not succeed; empty if it did."""


Probes = Mapping[str, ProbeLook]
"""By the key of the node's record."""
_NONE = ProbeLook()


def node_looks(
    estate: Estate, nodes: Mapping[str, NodeRecord], probes: Probes, loaded: frozenset[str], settings: JudgeSettings
) -> list[NodeLook]:
    """Return the looks at all nodes. loaded: isolated brokers that have bundles."""
    brokers = [_broker(broker, nodes, probes, loaded, settings) for broker in estate.brokers if not broker.gone]
    bookies = [_seen_by_quick_brokers(bookie, estate, probes, settings) for bookie in estate.bookies]
    return [*brokers, *(_bookie(bookie, nodes, probes, settings) for bookie in bookies)]


def _seen_by_quick_brokers(bookie: BookieState, estate: Estate, probes: Probes, settings: JudgeSettings) -> BookieState:
    """Return a bookie without the times that slow brokers see: they see every bookie slow."""
    times = [probes.get(f"{NodeKind.BROKER}/{broker.name}", _NONE).p90_ms for broker in estate.brokers]
    is_slow = [p90 is not None and p90 > settings.slow_ms for p90 in times]
    if not any(is_slow):
        return bookie
    quick = [each for each, slow in zip(estate.brokers, is_slow, strict=True) if not slow]
    seen = [each.bookies_p99_ms[bookie.name] for each in quick if bookie.name in each.bookies_p99_ms]
    return replace(bookie, broker_p99_ms=max(seen, default=None))


def unseen_kinds(estate: Estate) -> frozenset[NodeKind]:
    """Return the kinds of nodes that could not be listed. An estate without any bookie is none that was read."""
    unread = {NodeKind.BROKER: "brokers" in estate.unread or not estate.brokers}
    unread |= {NodeKind.BOOKIE: "bookies" in estate.unread or not estate.bookies}
    return frozenset(kind for kind, is_unread in unread.items() if is_unread)


def budget_of(estate: Estate) -> Budget:
    """Return the nodes that must be left. The ensemble is unknown as soon as one namespace could not be read: that one
    may have the largest."""
    unread = [name for name in estate.unread if name.startswith("policies/")]
    known = estate.namespaces and not unread and all(namespace.ensemble > 0 for namespace in estate.namespaces)
    return Budget(largest_ensemble=estate.largest_ensemble() if known else None, uncounted=_uncounted(estate))


def _uncounted(estate: Estate) -> str:
    if not estate.bookies_asked:
        return "estate.bookie_http is not set, so no bookie can be asked or made read-only"
    if any(bookie.mode is BookieMode.UNKNOWN for bookie in estate.bookies):
        return "no bookie's HTTP interface says which bookies are writable"
    return ""


def _broker(
    broker: BrokerLoad,
    nodes: Mapping[str, NodeRecord],
    probes: Probes,
    loaded: frozenset[str],
    settings: JudgeSettings,
) -> NodeLook:
    key = f"{NodeKind.BROKER}/{broker.name}"
    probe, record = probes.get(key, _NONE), nodes.get(key)
    return NodeLook(
        kind=NodeKind.BROKER,
        name=broker.name,
        p99_ms=probe.p90_ms,
        well=broker.answered and _quick(probe, settings),
        in_service=record is None or record.state != "isolated" or broker.name in loaded,
    )


def _bookie(bookie: BookieState, nodes: Mapping[str, NodeRecord], probes: Probes, settings: JudgeSettings) -> NodeLook:
    key = f"{NodeKind.BOOKIE}/{bookie.name}"
    record = nodes.get(key)
    in_service = bookie.writable
    if bookie.mode is BookieMode.UNKNOWN:
        in_service = record is None or not record.out_of_service
    return NodeLook(
        kind=NodeKind.BOOKIE,
        name=bookie.name,
        p99_ms=bookie.broker_p99_ms,
        well=_is_well(bookie) and _quick(probes.get(key, _NONE), settings) and _syncs(bookie, settings),
        in_service=in_service,
        present=bookie.mode is not BookieMode.GONE,
    )


def _is_well(bookie: BookieState) -> bool:
    return bookie.answered and (bookie.disk_used is None or bookie.disk_used < DISK_FULL)


def _syncs(bookie: BookieState, settings: JudgeSettings) -> bool:
    """Return whether its journal syncs quickly. A bookie that is read-only writes nothing, and has no figure."""
    return bookie.fsync_p99_ms is None or bookie.fsync_p99_ms <= settings.slow_ms


def _quick(probe: ProbeLook, settings: JudgeSettings) -> bool:
    return probe.p90_ms is not None and not probe.failure and probe.p90_ms <= settings.slow_ms
