"""What tests on a real Pulsar share: a client, the administration and the names of a tenant of their own."""

from collections.abc import Iterator

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import close, connect, topics
from dispatcher.wire.topics import Topics
from fairlane.settings import Settings


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
def names(fresh_settings: Settings) -> Topics:
    return topics(fresh_settings.pulsar)


@pytest.fixture
def lane(admin: PulsarAdmin, names: Topics) -> str:
    """A task's own lane, empty."""
    lane = names.own_lane("a-task")
    admin.create_lane(lane)
    return lane
