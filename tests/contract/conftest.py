"""Worlds for the same test bodies over memory and over every Redis and Valkey there is on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.redis_view import RedisView, open_view
from backends.registry import Registry
from backends.settings import RedisSettings
from tests.contract.ledger_worlds import MemoryWorld, RedisWorld, World, Worlds, in_process_worlds, redis_worlds
from tests.contract.moved_clock import lua_with_test_clock
from tests.redis_server import binaries, running


@pytest.fixture(scope="session")
def test_lua(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger's scripts under a clock that tests move."""
    return lua_with_test_clock(tmp_path_factory.mktemp("ledger") / "lua")


@pytest.fixture(scope="session", params=sorted(binaries()))
def real_worlds(request: pytest.FixtureRequest, test_lua: Path) -> Iterator[Worlds]:
    """Makes fresh worlds in a server of this engine."""
    with running(binaries()[request.param]) as server, redis_worlds(server.url, test_lua) as worlds:
        yield worlds


@pytest.fixture(scope="session", params=["memory", "in-process", *sorted(binaries())])
def worlds(request: pytest.FixtureRequest, test_lua: Path) -> Iterator[Worlds]:
    """Makes fresh worlds: in memory, in a Redis in this process or in a server."""
    if request.param in ("memory", "in-process"):
        yield MemoryWorld if request.param == "memory" else in_process_worlds()
        return
    with running(binaries()[request.param]) as server, redis_worlds(server.url, test_lua) as made:
        yield made


@pytest.fixture
def redis_world(real_worlds: Worlds) -> RedisWorld:
    world = real_worlds()
    assert isinstance(world, RedisWorld)
    return world


@pytest.fixture
def world(worlds: Worlds) -> World:
    return worlds()


@pytest.fixture(scope="module", params=sorted(binaries().items()), ids=lambda named: named[0])
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param[1]) as server:
        yield server.url


@pytest.fixture
def view(server_url: str) -> Iterator[RedisView]:
    view = open_view(RedisSettings(url=server_url, prefix="test"))
    yield view
    view.wipe()
    view.close()


@pytest.fixture
def registry(view: RedisView) -> Registry:
    return Registry(view)
