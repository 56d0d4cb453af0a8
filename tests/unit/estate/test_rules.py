"""Findings of CHECK: each is reported with its level when its case is there, and not otherwise."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dispatcher.analysis.finding import Level
from estate.rules.check import check_estate
from estate.rules.cluster import (
    BookieMode,
    BookieState,
    BrokerLoad,
    Estate,
    Expectations,
    LedgerPlacement,
    LoadManager,
    NamespaceState,
    StraySubscription,
    Usage,
)

GOOD = {
    "bookkeeperClientTimeoutInSeconds": "5",
    "bookkeeperClientHealthCheckEnabled": "true",
    "bookkeeperClientHealthCheckIntervalSeconds": "5",
    "bookkeeperClientQuarantineRatio": "0.3",
    "metadataStoreSessionTimeoutMillis": "10000",
    "bookkeeperClientExposeStatsToPrometheus": "true",
    "bookkeeperClientLimitStatsLogging": "false",
    "managedLedgerPrometheusStatsLatencyRolloverSeconds": "10",
    "managedLedgerCacheEvictionTimeThresholdMillis": "10000",
    "loadBalancerLoadSheddingStrategy": "a.b.ThresholdShedder",
    "loadBalancerLoadPlacementStrategy": "a.b.LeastLongTermMessageRate",
    "loadBalancerSheddingEnabled": "true",
}


def broker(name: str, **fields: Any) -> BrokerLoad:
    settings = GOOD | fields.pop("settings", {})
    usual: dict[str, Any] = {"manager": LoadManager.MODULAR, "network_in": Usage(0, 1e6), "metadata_put_p99_ms": 9.0}
    return BrokerLoad(name=name, settings=settings, **(usual | fields))


def bookie(name: str, **fields: Any) -> BookieState:
    usual: dict[str, Any] = {"mode": BookieMode.WRITABLE, "disk_used": 0.4}
    return BookieState(name=name, **(usual | fields))


def namespace(ensemble: int = 2, write: int = 2, ack: int = 2, **fields: Any) -> NamespaceState:
    usual: dict[str, Any] = {"name": "t/system", "bundles": 4}
    return NamespaceState(ensemble=ensemble, write_quorum=write, ack_quorum=ack, **(usual | fields))


WELL = Estate(
    brokers=(broker("b1:80"), broker("b2:80")),
    broker_number=2,
    bookies=(bookie("k1:3181"), bookie("k2:3181"), bookie("k3:3181")),
    namespaces=(namespace(),),
    leader="b1:80",
    auditor="k1:3181",
    under_replicated=0,
)


def found(estate: Estate, wanted: Expectations = Expectations()) -> dict[str, str]:
    """Return what is wrong, with levels."""
    return {one.what: one.level for one in check_estate(estate, wanted) if one.level in (Level.WARN, Level.FAIL)}


def with_bookies(*bookies: BookieState, **fields: Any) -> Estate:
    return replace(WELL, bookies=bookies, **fields)


def with_settings(settings: Mapping[str, str], brokers: int = 2) -> Estate:
    named = tuple(broker(f"b{number}:80", settings=settings) for number in range(brokers))
    return replace(WELL, brokers=named, broker_number=brokers)


def test_nothing_is_wrong_with_an_estate_that_is_well() -> None:
    assert found(WELL) == {}


def test_no_bookie_to_spare_fails_and_says_why() -> None:
    estate = replace(WELL, namespaces=(namespace(3, 2, 2),))
    (finding,) = [one for one in check_estate(estate) if one.level is Level.FAIL]
    assert (finding.what, finding.figure) == ("no bookie to spare", "3 writable bookies, ensembles of 3")
    assert "stops every lane" in finding.reason
    assert "estate.ensemble" in finding.fix


def test_one_bookie_lost_leaves_none_to_spare() -> None:
    assert found(with_bookies(bookie("k1:1"), bookie("k2:1"), bookie("k3:1", mode=BookieMode.GONE))) == {
        "no bookie to spare": Level.FAIL,
        "bookie k3:1 is gone": Level.WARN,
    }


GONE = BrokerLoad(name="b2:80", failure="last seen at 14:05:10", gone=True)
ONE_LEFT = {"brokers are lost": Level.FAIL, "no broker to spare": Level.WARN}
BUNDLE = "t/system/r"
CASES: list[tuple[str, Estate, Expectations, dict[str, Level]]] = [
    ("one copy", replace(WELL, namespaces=(namespace(1, 1, 1),)), Expectations(), {"entries have one": Level.FAIL}),
    ("early receipts", replace(WELL, namespaces=(namespace(2, 2, 1),)), Expectations(), {"receipts are": Level.WARN}),
    ("guarded", replace(WELL, namespaces=(namespace(2, 2, 1),)), Expectations(guarded=True), {}),
    ("dead broker", replace(WELL, brokers=(broker("b1:80"), BrokerLoad(name="b2:80", failure="no answer in time"))),
     Expectations(), {"broker b2:80 does not answer": Level.FAIL, **ONE_LEFT}),
    ("forgotten broker", replace(WELL, brokers=(broker("b1:80"),)), Expectations(), ONE_LEFT),
    ("remembered broker", replace(WELL, brokers=(broker("b1:80"), GONE)), Expectations(),
     {"broker b2:80 is gone": Level.FAIL, **ONE_LEFT}),
    ("one of three brokers forgotten", replace(WELL, broker_number=3), Expectations(),
     {"brokers are lost": Level.FAIL}),
    ("a broker is all there is", replace(WELL, brokers=(broker("b1:80"),), broker_number=1), Expectations(),
     {"no broker to spare": Level.WARN}),
    ("number of brokers unknown", replace(WELL, broker_number=None), Expectations(),
     {"the number of brokers": Level.WARN}),
    ("more brokers", replace(WELL, broker_number=1), Expectations(), {"there are more brokers": Level.WARN}),
    ("brokers not listed", replace(WELL, brokers=(broker("b1:80"),), unread={"brokers": "answered 403"}),
     Expectations(), {"the list of brokers": Level.FAIL}),
    ("bookie without HTTP", with_bookies(*WELL.bookies[:2], bookie("k3:3181", failure="refused")), Expectations(),
     {"bookie k3:3181 was not looked at": Level.WARN}),
    ("bookies not asked", replace(WELL, bookies_asked=False), Expectations(), {"the bookies were not": Level.WARN}),
    ("read-only", with_bookies(*WELL.bookies, bookie("k4:3181", mode=BookieMode.READ_ONLY)), Expectations(),
     {"bookie k4:3181 is read-only": Level.WARN}),
    ("full disk", with_bookies(*WELL.bookies[1:], bookie("k1:3181", disk_used=0.9)), Expectations(),
     {"the disk of bookie k1:3181": Level.WARN}),
    ("no auditor", replace(WELL, auditor=None), Expectations(), {"no auditor": Level.WARN}),
    ("copies missing", replace(WELL, under_replicated=3), Expectations(), {"ledgers lack copies": Level.WARN}),
    ("slow metadata", replace(WELL, brokers=(broker("b1:80", metadata_put_p99_ms=301.0), broker("b2:80"))),
     Expectations(), {"writes to the metadata": Level.WARN}),
    ("stray", replace(WELL, strays=(StraySubscription("persistent://t/shared/a", "copy", 7),)), Expectations(),
     {"subscriptions that are not": Level.WARN}),
    ("unread list", replace(WELL, unread={"bookies": "answered 500"}), Expectations(), {"the list of": Level.FAIL}),
    ("a bookie without rack", with_bookies(bookie("k1:1", rack="/r1"), bookie("k2:1"), bookie("k3:1", rack="/r2")),
     Expectations(), {"bookies without a rack: k2:1": Level.WARN}),
    ("racks wanted", WELL, Expectations(racks={"k1": "/r1"}), {"bookies without a rack": Level.WARN}),
    ("one rack", with_bookies(bookie("k1:1", rack="/r1"), bookie("k2:1", rack="/r1"), bookie("k3:1", rack="/r2"),
     ledgers=(LedgerPlacement("t", ("k1:1", "k2:1")),)), Expectations(), {"all copies of the newest": Level.FAIL}),
    ("two racks", with_bookies(bookie("k1:1", rack="/r1"), bookie("k2:1", rack="/r1"), bookie("k3:1", rack="/r2"),
     ledgers=(LedgerPlacement("t", ("k1:1", "k3:1")),)), Expectations(), {}),
    ("few bundles", with_settings({}, brokers=5), Expectations(), {"namespaces have fewer": Level.WARN}),
    ("no offload", WELL, Expectations(offload=True, system_namespace="t/system"), {"namespace t/system": Level.WARN}),
    ("NIC", replace(WELL, brokers=(broker("b1:80", network_in=Usage(0, -1000)), broker("b2:80"))), Expectations(),
     {"broker b1:80 do not know": Level.WARN}),
    ("NIC set", replace(WELL, brokers=(broker("b1:80", network_in=Usage(0, -1000),
     settings={"loadBalancerOverrideBrokerNicSpeedGbps": "Optional[1.0]"}),
     broker("b2:80", settings={"loadBalancerOverrideBrokerNicSpeedGbps": "Optional[1.0]"}))), Expectations(), {}),
    ("simple manager", replace(WELL, brokers=tuple(replace(one, manager=LoadManager.SIMPLE) for one in WELL.brokers)),
     Expectations(), {"the load manager is simple": Level.WARN}),
    ("two managers", replace(WELL, brokers=(broker("b1:80"), broker("b2:80", manager=LoadManager.EXTENSIBLE))),
     Expectations(), {"brokers run different": Level.WARN}),
    ("half Avg", with_settings({"loadBalancerLoadSheddingStrategy": "a.AvgShedder"}), Expectations(),
     {"AvgShedder": Level.WARN}),
    ("no shedding", with_settings({"loadBalancerSheddingEnabled": "false"}), Expectations(),
     {"load shedding is off": Level.WARN}),
    ("quarantine", with_settings({"bookkeeperClientQuarantineRatio": "1.0"}, brokers=4), Expectations(),
     {"bookkeeperClientQuarantineRatio of all": Level.WARN}),
    ("few brokers", with_settings({"bookkeeperClientQuarantineRatio": "1.0"}, brokers=3), Expectations(), {}),
    ("differing", replace(WELL, brokers=tuple(broker(f"b{n}:80", settings={"maxMessageSize": str(n)}) for n in (1, 2))),
     Expectations(), {"settings differ between brokers: maxMessageSize": Level.WARN}),
    ("read-ahead", with_bookies(*WELL.bookies[:2], bookie("k3:3181", settings={
     "dbStorage_readAheadCacheBatchSize": "1000", "dbStorage_readAheadCacheMaxSizeMb": "32"})), Expectations(),
     {"bookie k3:3181 reads ahead": Level.WARN}),
    ("many evictions", replace(WELL, brokers=(broker("b2:80", lanes=10_000,
     settings={"managedLedgerCacheEvictionFrequency": "100.0"}), broker("b3:80",
     settings={"managedLedgerCacheEvictionFrequency": "100.0"}))), Expectations(),
     {"managedLedgerCacheEvictionFrequency of broker b2:80": Level.WARN}),
    ("failed offload", replace(WELL, namespaces=(namespace(offload={"managedLedgerOffloadDriver": "S3"}),),
     offload_errors={"t": "no NAR"}), Expectations(offload=True, system_namespace="t/system"),
     {"the last offload of t failed": Level.WARN}),
    ("system copies elsewhere", replace(WELL, ledgers=(LedgerPlacement("t", ("k1:3181", "k2:3181")),)),
     Expectations(system_namespace="t/system", system_bookies=("k1", "k3:3181")),
     {"the newest records of t/system are on k2:3181": Level.WARN}),
    ("system elsewhere", replace(WELL, brokers=(broker("b1:80"), broker("b2:80", bundles=(BUNDLE,)))),
     Expectations(system_namespace="t/system", system_brokers=("b1",)), {"topics of t/system are on b2": Level.WARN}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("estate", "wanted", "findings"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_each_case_is_reported(estate: Estate, wanted: Expectations, findings: dict[str, Level]) -> None:
    reported = found(estate, wanted)
    assert len(reported) == len(findings), reported
    for what, level in findings.items():
        assert [level] == [of for one, of in reported.items() if one.startswith(what)], reported


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bookkeeperClientTimeoutInSeconds", "30"),
        ("bookkeeperClientHealthCheckEnabled", "false"),
        ("bookkeeperClientHealthCheckIntervalSeconds", "60"),
        ("metadataStoreSessionTimeoutMillis", "30000"),
        ("bookkeeperClientExposeStatsToPrometheus", "false"),
        ("bookkeeperClientLimitStatsLogging", "true"),
        ("managedLedgerPrometheusStatsLatencyRolloverSeconds", "60"),
        ("managedLedgerCacheEvictionTimeThresholdMillis", "1000"),
        ("metadataStoreSessionTimeoutMillis", "nonsense"),
    ],
)
def test_each_default_of_pulsar_that_costs_time_is_reported(name: str, value: str) -> None:
    assert found(with_settings({name: value})) == {f"{name} of all brokers": Level.WARN}
    one = replace(WELL, brokers=(broker("b1:80"), broker("b2:80", settings={name: value})))
    assert f"{name} of broker b2:80" in found(one)
    assert any(what.startswith("settings differ between brokers") for what in found(one))


def test_the_ports_of_a_broker_may_differ() -> None:
    brokers = tuple(broker(f"b{n}:80", settings={"webServicePort": f"Optional[{n}]"}) for n in (1, 2))
    assert found(replace(WELL, brokers=brokers)) == {}


def test_every_warning_has_a_reason_and_a_fix() -> None:
    findings = [one for _, estate, wanted, _ in CASES for one in check_estate(estate, wanted)]
    assert all(one.reason and one.fix for one in findings if one.level in (Level.WARN, Level.FAIL))


def test_a_standalone_server_gets_notes_and_no_warning() -> None:
    settings = {"isRunningStandalone": "true", "bookkeeperClientTimeoutInSeconds": "30"}
    one = Estate(
        brokers=(broker("b1:80", manager=LoadManager.NONE, settings=settings),),
        bookies=(BookieState(name="k1:1", failure="not asked"),),
        namespaces=(namespace(1, 1, 1),),
        bookies_asked=False,
    )
    assert found(one) == {}
    assert [finding.what for finding in check_estate(one) if finding.level is Level.NOTE] == [
        "the bookie inside of the standalone Pulsar was not looked at",
        "one server holds the only copy of everything",
    ]


def test_an_estate_of_which_nothing_is_known_is_not_well() -> None:
    nothing = Estate(brokers=(BrokerLoad(name="b1:80", failure="refused"),), unread={"brokers": "refused"})
    assert Level.FAIL in found(nothing).values()
    assert not [one for one in check_estate(nothing) if one.level is Level.OK]
