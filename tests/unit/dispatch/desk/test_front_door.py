"""The door of one process while Redis does not answer."""

from types import SimpleNamespace
from typing import Any

import pytest

from backends.settings import ProducerOptions, PulsarSettings, RedisSettings
from dispatcher.access.principal import Principal, Scope
from dispatcher.model.errors import LimitReached, Unreachable
from producers.desk.access_book import CHANGES_S
from producers.desk.front_door import FrontDoor
from producers.desk.request_places import RequestPlaces
from tests.unit.dispatch.desk.test_access_book import World

SHOP = Principal(kind="key", name="1", app="shop", scopes=frozenset({Scope.READ}))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def door(world: World) -> FrontDoor:
    pulsar = PulsarSettings(url="pulsar://127.0.0.1:1", admin_url="http://127.0.0.1:1")
    settings: Any = SimpleNamespace(
        redis=RedisSettings(url="redis://127.0.0.1:1/0"), pulsar=pulsar, producer=ProducerOptions()
    )
    door = FrontDoor(settings)
    door.book = world.book
    return door


def test_readiness_names_no_address(door: FrontDoor) -> None:
    with pytest.raises(Unreachable) as failed:
        door.check_ready()
    assert "127.0.0.1" not in f"{failed.value.cause} {failed.value.next_step}"


def test_requests_do_not_wait_for_a_redis_that_has_not_answered_for_long(
    door: FrontDoor, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestPlaces, "use", lambda *_: False)
    with pytest.raises(LimitReached):
        door.take_request(SHOP)
    world.clock.advance(CHANGES_S + 1)
    door.take_request(SHOP)
