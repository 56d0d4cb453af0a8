"""Lanes made and deleted by REST."""

from concurrent.futures import ThreadPoolExecutor

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from dispatcher.model.errors import NotFound, Unreachable
from dispatcher.wire.topics import SUBSCRIPTION, Topics
from fairlane.settings import Settings
from tests.integration.pulsar_helpers import Tenant, bodies_in, consumer_of, eventually


def test_a_lane_is_made_once_and_holds_what_it_is_sent_before_anybody_attaches(tenant: Tenant, lane: str) -> None:
    tenant.admin.create_lane(lane)
    assert tenant.admin.subscriptions(lane) == [SUBSCRIPTION]
    assert tenant.admin.list_topics("/".join(lane.split("/")[2:4])) == [lane]
    tenant.client.create_producer(lane).send(b"first")
    tenant.admin.create_lane(lane)
    assert bodies_in(tenant.client, lane, 1) == [b"first"]


def test_many_who_make_the_same_lane_at_once_all_find_it_made(admin: PulsarAdmin, lane: str) -> None:
    lanes = [f"{lane}-{number}" for number in range(10)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(admin.create_lane, (each for each in lanes for _ in range(8))))
    assert [admin.subscriptions(each) for each in lanes] == [[SUBSCRIPTION]] * len(lanes)


def test_a_subscription_made_late_gets_what_is_still_there(tenant: Tenant, lane: str) -> None:
    tenant.client.create_producer(lane).send(b"before")
    assert tenant.admin.create_subscription(lane, "second")
    assert not tenant.admin.create_subscription(lane, "second")
    assert tenant.admin.backlog(lane, "second") == 1
    tenant.admin.delete_subscription(lane, "second")
    tenant.admin.delete_subscription(lane, "second")
    with pytest.raises(NotFound):
        tenant.admin.backlog(lane, "second")


def test_a_lane_is_not_deleted_under_those_attached(client: pulsar.Client, admin: PulsarAdmin, lane: str) -> None:
    producer = client.create_producer(lane)
    producer.send(b"undrained")
    assert not admin.delete_topic(lane)
    consumer = consumer_of(client, lane)
    producer.close()
    assert not admin.delete_topic(lane)
    consumer.close()
    assert admin.delete_topic(lane)
    assert admin.delete_topic(lane)  # gone already
    assert not admin.topic_exists(lane)


def test_a_lane_deleted_by_force_does_not_come_back_with_its_consumer(tenant: Tenant, lane: str) -> None:
    consumer = consumer_of(tenant.client, lane)
    assert tenant.admin.delete_topic(lane, force=True)
    with pytest.raises(pulsar.Timeout):
        consumer.receive(1_500)  # longer than the client's first attempts to attach again
    assert not tenant.admin.topic_exists(lane)


def test_an_unloaded_lane_serves_on(client: pulsar.Client, admin: PulsarAdmin, lane: str) -> None:
    producer = client.create_producer(lane)
    producer.send(b"one")
    admin.unload(lane)
    producer.send(b"two")
    assert bodies_in(client, lane, 2) == [b"one", b"two"]
    eventually(lambda: admin.backlog(lane) == 0, "the backlog is gone")


def test_names_that_do_not_exist(admin: PulsarAdmin, names: Topics) -> None:
    missing = names.own_lane("missing")
    assert not admin.topic_exists(missing)
    assert admin.list_topics(f"{names.tenant}/nowhere") == []
    assert admin.namespaces("no-such-tenant") == []
    for ask in (admin.stats, admin.backlog, admin.subscriptions):
        with pytest.raises(NotFound):
            ask(missing)


def test_a_broker_that_is_not_there_is_unreachable(fresh_settings: Settings) -> None:
    admin = PulsarAdmin(fresh_settings.pulsar.model_copy(update={"admin_url": "http://127.0.0.1:9"}))
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9.*refused.*the address is right"):
        admin.health()
