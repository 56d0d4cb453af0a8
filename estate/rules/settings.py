"""Findings about broker settings: each that costs lanes time when a node is lost, and those that differ."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dispatcher.analysis.finding import Finding, Level, at_least, at_most, is_word, number_in, warn
from estate.rules.cluster import BrokerLoad, Estate, LoadManager
from estate.rules.nodes import is_standalone
from estate.sizing.settings import BROKER_DETECTION, BROKER_FIXED, FEW_BROKERS, QUARANTINE_RATIO

MANY_LANES = 1_000
_SHOWN_DIFFERENCES = 5
_OF_ONE_BROKER = (
    "advertised",
    "bindAddress",
    "bindAddresses",
    "brokerServicePort",
    "webServicePort",
    "internalListenerName",
    "brokerInterceptor",
    "statusFilePath",
    "tlsCertificate",
    "tlsKey",
    "brokerClientTls",
    "brokerClientAuthenticationParameters",
    "listener",
    "zookeeperServers",
)
"""Beginnings of the names of settings that each broker has for itself."""


@dataclass(frozen=True)
class _Check:
    """When a value of a setting is good enough, and in which estates it matters."""

    is_good: Callable[[str], bool]
    matters: Callable[[Estate, BrokerLoad], bool] = lambda estate, _: not is_standalone(estate)


_CHECKS: Mapping[str, _Check] = {
    "bookkeeperClientTimeoutInSeconds": _Check(at_most(10)),
    "bookkeeperClientHealthCheckEnabled": _Check(is_word("true")),
    "bookkeeperClientHealthCheckIntervalSeconds": _Check(at_most(15)),
    "bookkeeperClientQuarantineRatio": _Check(
        lambda value: number_in(value) != 1.0, lambda estate, _: len(estate.brokers) > FEW_BROKERS
    ),
    "metadataStoreSessionTimeoutMillis": _Check(at_most(15_000)),
    "bookkeeperClientExposeStatsToPrometheus": _Check(is_word("true")),
    "bookkeeperClientLimitStatsLogging": _Check(is_word("false")),
    "managedLedgerPrometheusStatsLatencyRolloverSeconds": _Check(at_most(10)),
    "managedLedgerCacheEvictionTimeThresholdMillis": _Check(at_least(10_000)),
    "managedLedgerCacheEvictionFrequency": _Check(at_most(10), lambda _, broker: (broker.lanes or 0) >= MANY_LANES),
}
_BEST = {**BROKER_DETECTION, **BROKER_FIXED, "bookkeeperClientQuarantineRatio": QUARANTINE_RATIO}
"""The values that `tune cluster` recommends, with their reasons."""


def wrong_settings(estate: Estate) -> Iterator[Finding]:
    """Report settings of the table, one finding for each with the brokers that have it wrong."""
    for name, check in _CHECKS.items():
        asked = [broker for broker in estate.brokers if name in broker.settings and check.matters(estate, broker)]
        wrong = [each for each in asked if not check.is_good(each.settings[name])]
        if wrong:
            yield warn(
                f"{name} of {_names(wrong, estate)}",
                figure=f"{wrong[0].settings[name] or 'empty'}, wanted {_BEST[name].value}",
                reason=_BEST[name].reason,
                fix=f"Set it in broker.conf of {_names(wrong, estate)}, and restart one broker after the other.",
            )


def network_speed(estate: Estate) -> Iterator[Finding]:
    unknown = [
        broker
        for broker in estate.brokers
        if broker.network_in is not None
        and broker.network_in.limit <= 0
        and not _set(broker.settings.get("loadBalancerOverrideBrokerNicSpeedGbps", ""))
    ]
    if unknown and len(estate.brokers) > 1:
        limit = unknown[0].network_in.limit if unknown[0].network_in else 0.0
        yield warn(
            f"{_names(unknown, estate)} do not know the speed of their network",
            figure=f"limit {limit:g} kbit/s",
            reason="bandwidth does not count when load is balanced",
            fix="Set loadBalancerOverrideBrokerNicSpeedGbps in broker.conf.",
        )


def _set(value: str) -> bool:
    """Return whether an optional number is set. Brokers print Optional[1.0], Optional.empty or nothing."""
    return any(letter.isdigit() for letter in value)


def load_manager(estate: Estate) -> Iterator[Finding]:
    """Report which load manager runs, and strategies that do not fit together."""
    kinds = sorted({broker.manager for broker in estate.brokers if broker.manager is not None})
    if len(estate.brokers) < 2 or not kinds:
        return
    named = ", ".join(kinds)
    if len(kinds) > 1:
        yield _manager_finding(f"brokers run different load managers: {named}", "they do not see each other's load")
    elif kinds[0] in (LoadManager.SIMPLE, LoadManager.NONE):
        yield _manager_finding(f"the load manager is {named}", "load stays where it is, on a restarted broker none")
    else:
        yield Finding(Level.OK, f"load manager {named}", figure=f"{len(estate.brokers)} brokers")
    yield from _strategies(estate)


def _manager_finding(what: str, reason: str) -> Finding:
    fix = "Set loadManagerClassName to ModularLoadManagerImpl or ExtensibleLoadManagerImpl on every broker."
    return warn(what, reason=reason, fix=fix)


def _strategies(estate: Estate) -> Iterator[Finding]:
    settings = next((broker.settings for broker in estate.brokers if broker.settings), {})
    shedder, placement = (
        settings.get(name, "").rpartition(".")[2]
        for name in ("loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy")
    )
    if (shedder == "AvgShedder") != (placement == "AvgShedder"):
        yield warn(
            "AvgShedder is set for shedding or for placement only",
            figure=f"shedding {shedder}, placement {placement}",
            reason="the two decide against each other: what one unloads, the other puts elsewhere",
            fix="Set both loadBalancerLoadSheddingStrategy and loadBalancerLoadPlacementStrategy to it, or neither.",
        )
    if settings.get("loadBalancerSheddingEnabled") == "false":
        yield warn(
            "load shedding is off",
            figure=f"{len(estate.brokers)} brokers",
            reason="a restarted broker stays empty, and an overloaded one keeps its lanes",
            fix="Set loadBalancerSheddingEnabled=true in broker.conf.",
        )


def differing(estate: Estate) -> Iterator[Finding]:
    """Report settings whose values differ between brokers, apart from those that each has for itself."""
    asked = [broker for broker in estate.brokers if broker.settings]
    if len(asked) < 2:
        return
    names = sorted(set.intersection(*({*each.settings} for each in asked)))
    different = [
        name
        for name in names
        if not name.startswith(_OF_ONE_BROKER) and len({each.settings[name] for each in asked}) > 1
    ]
    if different:
        shown = "; ".join(
            f"{name}: " + ", ".join(f"{each.settings[name] or 'empty'} at {each.name}" for each in asked)
            for name in different[:_SHOWN_DIFFERENCES]
        )
        yield warn(
            f"settings differ between brokers: {', '.join(different[:_SHOWN_DIFFERENCES])}",
            figure=f"{len(different)} settings; {shown}",
            reason="what happens to a lane depends on the broker that has it",
            fix="Give all brokers the same broker.conf, and restart those that have another.",
        )


def _names(brokers: list[BrokerLoad], estate: Estate) -> str:
    if len(brokers) == len(estate.brokers) > 1:
        return "all brokers"
    return ", ".join(f"broker {broker.name}" for broker in brokers)
