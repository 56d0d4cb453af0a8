"""A real estate of the local stack: its servers end and come back on their ports, and it grows while it runs."""

from pathlib import Path

import pytest

from backends.pulsar.admin import PulsarAdmin
from benchmarks.estate.servers import SHAPE, EstateServers
from fairlane import PushClient, Settings
from lab.stack.errors import AlreadyRunning
from lab.stack.estate.shape import EstateShape, host_of
from tests.integration.worker_crew import audience, crew, push


def test_every_server_runs_on_an_address_or_port_of_its_own(estate: EstateServers) -> None:
    assert estate.names() == ["zookeeper", "bookie-1", "bookie-2", "bookie-3", "broker-1", "broker-2"]
    places = {(host_of(name), port) for name in estate.names() for port in estate.ports.of(name).values()}
    assert len(places) == 2 * len(estate.names())


def test_tasks_are_sent_through_it(estate_settings: Settings, tmp_path: Path) -> None:
    with crew(estate_settings, tmp_path, "w1") as members, PushClient.connect(estate_settings) as client:
        handle = client.submit(push(), audience(100))
        members.check_sent_once(handle, audience(100), 60)


def test_a_broker_and_a_bookie_that_were_killed_start_again_where_they_were(estate: EstateServers) -> None:
    before = estate.ports
    for name in ("broker-1", "bookie-2"):
        estate.kill(name)
    assert not estate.start_missing().already_running
    assert estate.ports == before
    assert all(server.alive for server in estate.estate().servers.values())


def test_it_does_not_shrink_while_it_runs(estate: EstateServers) -> None:
    with pytest.raises(AlreadyRunning, match="3 bookies and 2 brokers"):
        estate.start_missing(EstateShape(bookies=2, brokers=2))


def test_the_tenant_is_provisioned_by_any_broker(estate_settings: Settings, estate: EstateServers) -> None:
    for name in SHAPE.broker_names():
        url = f"http://{estate.broker_web(name)}"
        admin = PulsarAdmin(estate_settings.pulsar.model_copy(update={"admin_url": url}))
        assert admin.tenant_exists(estate_settings.pulsar.tenant)
        admin.close()
