"""CHECK on a real estate: every broker and bookie is asked, and what is configured is set by REST."""

from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.redis.view import open_view
from backends.settings import EstateSettings, OffloadSettings
from benchmarks.estate.servers import SHAPE, EstateServers
from dispatcher.analysis.finding import Finding
from dispatcher.model.errors import InvalidInput, Refused
from dispatcher.wire.topics import SUBSCRIPTION
from estate.facts.provision import SYSTEM_GROUP, provision_estate
from estate.findings import estate_findings
from fairlane.settings import Settings
from tests.integration.pulsar_helpers import bookies_of
from tests.integration.worker_crew import eventually

LEDGERS = 24


def of_estate(settings: Settings, **fields: object) -> Settings:
    usual = {"bookie_http": settings.estate.bookie_http, "brokers": settings.estate.brokers}
    estate = EstateSettings.model_validate({**usual, **fields})
    return settings.model_copy(update={"estate": estate})


@pytest.fixture
def admin(estate: EstateServers, estate_settings: Settings) -> Iterator[PulsarAdmin]:
    """The groups of bookies and the isolation policy belong to the whole cluster: they are removed afterwards."""
    with closing(PulsarAdmin(estate_settings.pulsar)) as client:
        yield client
        for name in SHAPE.bookie_names():
            for group in ("default", SYSTEM_GROUP):
                client.delete(f"bookies/racks-info/{estate.bookie_id(name)}?group={group}")
        client.delete(f"clusters/estate/namespaceIsolationPolicies/{SYSTEM_GROUP}")


def levels(settings: Settings) -> dict[str, str]:
    return {one.what: one.level for one in estate_findings(settings) if one.level in ("warn", "fail")}


def finding(settings: Settings, beginning: str) -> Finding:
    (one,) = [one for one in estate_findings(settings) if one.what.startswith(beginning)]
    return one


def test_every_node_is_asked_and_nothing_fails(estate_settings: Settings) -> None:
    settled = "nothing fails: servers that have just started are slow at first"
    eventually(lambda: "fail" not in levels(estate_settings).values(), 30, settled)
    assert finding(estate_settings, "the nodes that answered").figure == "2 of 2 brokers, 3 of 3 bookies"
    assert finding(estate_settings, "a bookie can be lost").figure == "3 writable bookies, ensembles of 2"
    assert not [what for what in levels(estate_settings) if what.startswith(("settings differ", "bookkeeper"))]


def test_ensembles_of_three_on_three_bookies_fail_and_say_why(estate_settings: Settings) -> None:
    three = of_estate(estate_settings, ensemble=3)
    changes = provision_estate(three.pulsar, three.estate)
    assert changes[0].endswith("ensembles of 3, 2 copies, 2 acknowledged")
    assert not provision_estate(three.pulsar, three.estate)
    spare = finding(three, "no bookie to spare")
    assert (spare.level, spare.figure) == ("fail", "3 writable bookies, ensembles of 3")
    assert "stops every lane" in spare.reason
    with pytest.raises(Refused, match="there are 3 bookies"):
        provision_estate(three.pulsar, of_estate(estate_settings, ensemble=4).estate)


def test_racks_and_the_bookies_and_brokers_of_the_system_namespace_are_set(
    estate_settings: Settings, estate: EstateServers, admin: PulsarAdmin
) -> None:
    first, second, third = (estate.bookie_id(name) for name in SHAPE.bookie_names())
    racks = {first: "/r1", second.partition(":")[0]: "/r2", third: "/r2"}
    wanted = of_estate(estate_settings, racks=racks, system_bookies=[third], system_brokers=["127[.].*"])
    changes = provision_estate(wanted.pulsar, wanted.estate)
    assert [f"bookie {first}: rack /r1, group default", f"bookie {second}: rack /r2, group default"] == changes[:2]
    assert f"bookie {third}: rack /r2, group {SYSTEM_GROUP}" in changes
    assert not provision_estate(wanted.pulsar, wanted.estate)
    assert admin.document("bookies/racks-info")[SYSTEM_GROUP][third]["rack"] == "/r2"
    with pytest.raises(InvalidInput, match="names nowhere, which is no bookie"):
        provision_estate(wanted.pulsar, of_estate(estate_settings, racks={"nowhere": "/r1"}).estate)


def test_with_racks_no_new_ledger_has_all_its_copies_in_one(
    estate_settings: Settings, estate: EstateServers, admin: PulsarAdmin
) -> None:
    racks = {
        estate.bookie_id(name): rack for name, rack in zip(SHAPE.bookie_names(), ("/r1", "/r2", "/r2"), strict=True)
    }
    wanted = of_estate(estate_settings, racks=racks)
    provision_estate(wanted.pulsar, wanted.estate)
    in_one: list[str] = []
    for attempt in range(10):  # brokers learn of racks from the metadata, soon after the call
        topics = [
            f"persistent://{estate_settings.pulsar.tenant}/shared/racks-{attempt}-{number}" for number in range(LEDGERS)
        ]
        in_one = [topic for topic in topics if not in_both_racks(admin, topic, racks)]
        if not in_one:
            break
    assert in_one == []


def in_both_racks(admin: PulsarAdmin, topic: str, racks: Mapping[str, str]) -> bool:
    """Create a topic, and return whether the bookies of its ledger are in two racks."""
    admin.create_topic(topic)
    return len({racks[bookie] for bookie in bookies_of(admin, topic)}) == 2


def test_an_offload_policy_is_set_and_the_system_topics_go_on(estate_settings: Settings, admin: PulsarAdmin) -> None:
    offload = OffloadSettings(driver="filesystem", options={"fileSystemURI": "file:///tmp/offloaded"})
    wanted = of_estate(estate_settings, offload=offload)
    assert "has no offload policy" in finding(wanted, "namespace").what
    assert provision_estate(wanted.pulsar, wanted.estate)[0].endswith("of a topic go to filesystem")
    assert not provision_estate(wanted.pulsar, wanted.estate)
    assert not [what for what in levels(wanted) if "offload" in what]


def test_a_stray_subscription_is_named_with_its_backlog(estate_settings: Settings, admin: PulsarAdmin) -> None:
    topic = f"persistent://{estate_settings.pulsar.tenant}/shared/low-0"
    admin.create_subscription(topic, "copy")
    assert SUBSCRIPTION in admin.subscriptions(topic)
    named = [f"subscriptions that are not Fairlane's, one is copy of {topic}"]
    seen = "it is named: brokers renew their statistics every ten seconds"
    eventually(lambda: [what for what in levels(estate_settings) if "copy of" in what] == named, 30, seen)


def test_a_broker_and_a_bookie_that_hang_are_findings_while_the_others_answer(
    estate_settings: Settings, estate: EstateServers
) -> None:
    with estate.paused("broker-2"), estate.paused("bookie-2"):
        found = {one.what: one for one in estate_findings(estate_settings)}
    assert found["the nodes that answered"].figure == "1 of 2 brokers, 2 of 3 bookies"
    assert found[f"broker {estate.broker_web('broker-2')} does not answer"].level == "fail"
    assert found[f"bookie {estate.bookie_id('bookie-2')} was not looked at"].level == "warn"


def test_a_killed_bookie_is_gone_and_leaves_none_to_spare(estate_settings: Settings, estate: EstateServers) -> None:
    estate.kill("bookie-3")
    gone = f"bookie {estate.bookie_id('bookie-3')} is gone"
    eventually(lambda: levels(estate_settings).get(gone) == "warn", 45, "its session with ZooKeeper ends")
    assert levels(estate_settings)["no bookie to spare"] == "fail"


def test_a_killed_broker_is_named_when_pulsar_has_forgotten_it_and_counted_without_redis(
    estate_settings: Settings, estate: EstateServers
) -> None:
    """The number is the one that provisioning found."""
    found = of_estate(estate_settings, brokers=None)
    assert levels(found)["the number of brokers is not known"] == "warn"
    assert provision_estate(found.pulsar, found.estate)[0].startswith("2 brokers: ")
    assert not provision_estate(found.pulsar, found.estate)
    assert not [what for what in levels(found) if "broker" in what], "and each is noted"
    estate.kill("broker-2")
    gone = f"broker {estate.broker_web('broker-2')} is gone"
    eventually(lambda: levels(found).get(gone) == "fail", 45, "its session with ZooKeeper ends")
    with closing(open_view(found.redis)) as view:
        view.wipe()
    assert not provision_estate(found.pulsar, found.estate), "a lost broker is not provisioned away"
    assert finding(found, gone).figure == "last seen by `fairlane provision`"
    reported = levels(found)
    assert (reported["brokers are lost"], reported["no broker to spare"]) == ("fail", "warn")
    estate.repair()  # topics are deleted afterwards, and their owner may still be the one that was killed


def test_without_an_address_of_bookies_doctor_says_that_they_were_not_looked_at(estate_settings: Settings) -> None:
    assert levels(of_estate(estate_settings, bookie_http=None))["the bookies were not looked at"] == "warn"


def test_a_wrong_address_of_bookies_names_each(estate_settings: Settings, estate: EstateServers) -> None:
    reported = levels(of_estate(estate_settings, bookie_http="http://{host}:9"))
    assert all(f"bookie {estate.bookie_id(name)} was not looked at" in reported for name in SHAPE.bookie_names())
