"""Findings about broker settings: each that costs lanes time when a node is lost, and those that differ."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from estate.cluster import BrokerLoad, Estate, LoadManager
from estate.rules.finding import EstateFinding, Level
from estate.rules.nodes import is_standalone

MANY_BROKERS = 3
"""With more brokers, a bookie that all of them leave at once swings the load of the others."""
MANY_LANES = 1_000
MAX_EVICTIONS_S = 10.0
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


@dataclass(frozen=True, kw_only=True)
class SettingRule:
    """A broker setting that decides how long lanes stop when a node is lost, or whether that is seen."""

    name: str
    good: Callable[[str], bool]
    wanted: str
    reason: str


def _at_most(number: float) -> Callable[[str], bool]:
    return lambda value: _number(value) is not None and (_number(value) or 0.0) <= number


def _at_least(number: float) -> Callable[[str], bool]:
    return lambda value: _number(value) is not None and (_number(value) or 0.0) >= number


def _is(word: str) -> Callable[[str], bool]:
    return lambda value: value.lower() == word


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


SETTING_RULES: tuple[SettingRule, ...] = (
    SettingRule(
        name="bookkeeperClientTimeoutInSeconds",
        good=_at_most(10),
        wanted="5 to 10",
        reason="lanes stop for this long when a bookie hangs: 30 s were measured, 5.5 s with 5",
    ),
    SettingRule(
        name="bookkeeperClientHealthCheckEnabled",
        good=_is("true"),
        wanted="true",
        reason="each new lane waits for a bookie that hangs",
    ),
    SettingRule(
        name="bookkeeperClientHealthCheckIntervalSeconds",
        good=_at_most(15),
        wanted="at most 15",
        reason="until the next check each new lane waits for a bookie that hangs",
    ),
    SettingRule(
        name="metadataStoreSessionTimeoutMillis",
        good=_at_most(15_000),
        wanted="10000 (the brokers' pauses for garbage collection must stay well below it)",
        reason="lanes of a killed broker stop until its session ends: 31 to 60 s were measured, 13 s with 10000",
    ),
    SettingRule(
        name="bookkeeperClientExposeStatsToPrometheus",
        good=_is("true"),
        wanted="true",
        reason="a slow bookie is seen in the brokers' times of it only",
    ),
    SettingRule(
        name="bookkeeperClientLimitStatsLogging",
        good=_is("false"),
        wanted="false",
        reason="the brokers' times are not kept for each bookie, so a slow one cannot be named",
    ),
    SettingRule(
        name="managedLedgerPrometheusStatsLatencyRolloverSeconds",
        good=_at_most(10),
        wanted="10",
        reason="a slow bookie is seen a minute late",
    ),
    SettingRule(
        name="managedLedgerCacheEvictionTimeThresholdMillis",
        good=_at_least(10_000),
        wanted="10000 or more",
        reason="what was published seconds ago is read from the bookies again",
    ),
)


def wrong_settings(estate: Estate) -> Iterator[EstateFinding]:
    """Report settings of the table, one finding for each with the brokers that have it wrong."""
    if is_standalone(estate):
        return
    for rule in SETTING_RULES:
        wrong = [one for one in estate.brokers if rule.name in one.settings and not rule.good(one.settings[rule.name])]
        if wrong:
            yield EstateFinding(
                level=Level.WARN,
                what=f"{rule.name} of {_names(wrong, estate)}",
                figure=f"{wrong[0].settings[rule.name] or 'empty'}, wanted {rule.wanted}",
                reason=rule.reason,
                fix=f"Set it in broker.conf of {_names(wrong, estate)}, and restart one broker after the other.",
            )


def quarantine(estate: Estate) -> Iterator[EstateFinding]:
    if len(estate.brokers) <= MANY_BROKERS:
        return
    certain = [one for one in estate.brokers if _number(one.settings.get("bookkeeperClientQuarantineRatio", "")) == 1.0]
    if certain:
        yield EstateFinding(
            level=Level.WARN,
            what=f"bookkeeperClientQuarantineRatio of {_names(certain, estate)}",
            figure=f"1.0 with {len(estate.brokers)} brokers, wanted 0.3",
            reason="all brokers leave a failing bookie at once and return at once: the load of the others swings",
            fix="Set it in broker.conf.",
        )


def eviction(estate: Estate) -> Iterator[EstateFinding]:
    """Report brokers with many lanes that look at all of them a hundred times a second."""
    name = "managedLedgerCacheEvictionFrequency"
    busy = [
        one
        for one in estate.brokers
        if (one.lanes or 0) >= MANY_LANES and (_number(one.settings.get(name, "")) or 0.0) > MAX_EVICTIONS_S
    ]
    if busy:
        yield EstateFinding(
            level=Level.WARN,
            what=f"{name} of {_names(busy, estate)}",
            figure=f"{busy[0].settings[name]} with {busy[0].lanes:,} lanes, wanted 1.0",
            reason="a third of a core looks for old entries of 10,000 lanes",
            fix="Set it in broker.conf.",
        )


def network_speed(estate: Estate) -> Iterator[EstateFinding]:
    unknown = [
        one
        for one in estate.brokers
        if one.network_in is not None
        and one.network_in.limit <= 0
        and not _set(one.settings.get("loadBalancerOverrideBrokerNicSpeedGbps", ""))
    ]
    if unknown and len(estate.brokers) > 1:
        limit = unknown[0].network_in.limit if unknown[0].network_in else 0.0
        yield EstateFinding(
            level=Level.WARN,
            what=f"{_names(unknown, estate)} do not know the speed of their network",
            figure=f"limit {limit:g} kbit/s",
            reason="bandwidth does not count when load is balanced",
            fix="Set loadBalancerOverrideBrokerNicSpeedGbps in broker.conf.",
        )


def _set(value: str) -> bool:
    """Return whether an optional number is set. Brokers print Optional[1.0], Optional.empty or nothing."""
    return any(letter.isdigit() for letter in value)


def load_manager(estate: Estate) -> Iterator[EstateFinding]:
    """Report which load manager runs, and strategies that do not fit together."""
    kinds = sorted({one.manager for one in estate.brokers if one.manager is not None})
    if len(estate.brokers) < 2 or not kinds:
        return
    named = ", ".join(kinds)
    if len(kinds) > 1:
        yield _manager_finding(f"brokers run different load managers: {named}", "they do not see each other's load")
    elif kinds[0] in (LoadManager.SIMPLE, LoadManager.NONE):
        yield _manager_finding(f"the load manager is {named}", "load stays where it is, on a restarted broker none")
    else:
        yield EstateFinding(level=Level.OK, what=f"load manager {named}", figure=f"{len(estate.brokers)} brokers")
    yield from _strategies(estate)


def _manager_finding(what: str, reason: str) -> EstateFinding:
    fix = "Set loadManagerClassName to ModularLoadManagerImpl or ExtensibleLoadManagerImpl on every broker."
    return EstateFinding(level=Level.WARN, what=what, reason=reason, fix=fix)


def _strategies(estate: Estate) -> Iterator[EstateFinding]:
    settings = next((one.settings for one in estate.brokers if one.settings), {})
    shedder, placement = (
        settings.get(name, "").rpartition(".")[2]
        for name in ("loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy")
    )
    if (shedder == "AvgShedder") != (placement == "AvgShedder"):
        yield EstateFinding(
            level=Level.WARN,
            what="AvgShedder is set for shedding or for placement only",
            figure=f"shedding {shedder}, placement {placement}",
            reason="the two decide against each other: what one unloads, the other puts elsewhere",
            fix="Set both loadBalancerLoadSheddingStrategy and loadBalancerLoadPlacementStrategy to it, or neither.",
        )
    if settings.get("loadBalancerSheddingEnabled") == "false":
        yield EstateFinding(
            level=Level.WARN,
            what="load shedding is off",
            figure=f"{len(estate.brokers)} brokers",
            reason="a restarted broker stays empty, and an overloaded one keeps its lanes",
            fix="Set loadBalancerSheddingEnabled=true in broker.conf.",
        )


def differing(estate: Estate) -> Iterator[EstateFinding]:
    """Report settings whose values differ between brokers, apart from those that each has for itself."""
    asked = [one for one in estate.brokers if one.settings]
    if len(asked) < 2:
        return
    names = sorted(set.intersection(*({*one.settings} for one in asked)))
    different = [
        name for name in names if not name.startswith(_OF_ONE_BROKER) and len({one.settings[name] for one in asked}) > 1
    ]
    if different:
        shown = "; ".join(
            f"{name}: " + ", ".join(f"{one.settings[name] or 'empty'} at {one.name}" for one in asked)
            for name in different[:_SHOWN_DIFFERENCES]
        )
        yield EstateFinding(
            level=Level.WARN,
            what=f"settings differ between brokers: {', '.join(different[:_SHOWN_DIFFERENCES])}",
            figure=f"{len(different)} settings; {shown}",
            reason="what happens to a lane depends on the broker that has it",
            fix="Give all brokers the same broker.conf, and restart those that have another.",
        )


def _names(brokers: list[BrokerLoad], estate: Estate) -> str:
    if len(brokers) == len(estate.brokers) > 1:
        return "all brokers"
    return ", ".join(f"broker {one.name}" for one in brokers)
