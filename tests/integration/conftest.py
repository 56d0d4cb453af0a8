"""Fixtures of tests on a real Pulsar: a client, the administration and the names of a tenant of their own."""

from collections.abc import Iterator

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import close, connect, topics
from backends.pulsar.record_topics import SnapshotTopics
from dispatcher.wire.topics import Topics
from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.pulsar_helpers import Tenant
from tests.integration.worker_crew import Crew, crew
from tests.unit.command_line import CommandLine


@pytest.fixture
def client(fresh_settings: Settings) -> Iterator[pulsar.Client]:
    client = connect(fresh_settings.pulsar)
    yield client
    close(client)


@pytest.fixture
def admin(fresh_settings: Settings) -> Iterator[PulsarAdmin]:
    admin = PulsarAdmin(fresh_settings.pulsar)
    yield admin
    admin.close()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def names(fresh_settings: Settings) -> Topics:
    return topics(fresh_settings.pulsar)


@pytest.fixture
def tenant(client: pulsar.Client, admin: PulsarAdmin, names: Topics) -> Tenant:
    return Tenant(client, admin, names)


@pytest.fixture
def shelf(tenant: Tenant) -> SnapshotTopics:
    return SnapshotTopics(tenant.client, tenant.admin, tenant.names)


@pytest.fixture
def lane(admin: PulsarAdmin, names: Topics) -> str:
    """A task's own lane, empty."""
    lane = names.own_lane("a-task")
    admin.create_lane(lane)
    return lane


@pytest.fixture
def api(fresh_settings: Settings) -> Iterator[PushClient]:
    with PushClient.connect(fresh_settings) as client:
        yield client


@pytest.fixture(scope="module")
def members(module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Two workers for all tests of a module."""
    with crew(module_settings, tmp_path_factory.mktemp("crew"), "w1", "w2") as here:
        yield here


@pytest.fixture
def push_client(module_settings: Settings, members: Crew) -> Iterator[PushClient]:
    """A client of the service of `members`."""
    with PushClient.connect(module_settings) as client:
        yield client
        client.set_capacity(0)
