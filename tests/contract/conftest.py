"""Worlds for the same test bodies over memory and over every Redis there is: one in this process, and every server."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backends.keys import Keys
from backends.redis_client import Scripts, lua_folder
from backends.redis_view import CLAIM_MAX_MS, RedisView, open_view, restart_guard
from backends.registry import Registry
from backends.settings import RedisSettings
from simulator.server import MemoryRedis
from tests.contract.ledger_worlds import MemoryWorld, RedisWorld, World, Worlds, in_process_worlds, redis_worlds
from tests.contract.moved_clock import lua_with_test_clock
from tests.redis_server import binaries, running

IN_PROCESS = "in-process"
EVERY_REDIS = [IN_PROCESS, *sorted(binaries())]


@pytest.fixture(scope="session")
def test_lua(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger's scripts under a clock that tests move."""
    return lua_with_test_clock(tmp_path_factory.mktemp("ledger") / "lua")


@contextmanager
def worlds_of(engine: str, test_lua: Path) -> Iterator[Worlds]:
    """Make fresh worlds in a Redis of this engine."""
    if engine == IN_PROCESS:
        yield in_process_worlds()
        return
    with running(binaries()[engine]) as server, redis_worlds(server.url, test_lua) as worlds:
        yield worlds


@pytest.fixture(scope="session", params=sorted(binaries()))
def real_worlds(request: pytest.FixtureRequest, test_lua: Path) -> Iterator[Worlds]:
    """Makes fresh worlds in a server of this engine."""
    with worlds_of(request.param, test_lua) as worlds:
        yield worlds


@pytest.fixture(scope="session", params=EVERY_REDIS)
def script_worlds(request: pytest.FixtureRequest, test_lua: Path) -> Iterator[Worlds]:
    """Makes fresh worlds that the scripts keep, in this process or in a server."""
    with worlds_of(request.param, test_lua) as worlds:
        yield worlds


@pytest.fixture(scope="session", params=["memory", *EVERY_REDIS])
def worlds(request: pytest.FixtureRequest, test_lua: Path) -> Iterator[Worlds]:
    """Makes fresh worlds, in memory or in a Redis."""
    if request.param == "memory":
        yield MemoryWorld
        return
    with worlds_of(request.param, test_lua) as made:
        yield made


@pytest.fixture
def redis_world(script_worlds: Worlds) -> RedisWorld:
    world = script_worlds()
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
def server_view(server_url: str) -> Iterator[RedisView]:
    """A view that clients can open by its server's address."""
    yield from wiped_after(view_at(server_url))


@pytest.fixture(scope="module", params=EVERY_REDIS)
def opens_view(request: pytest.FixtureRequest) -> Iterator[Callable[[], RedisView]]:
    if request.param == IN_PROCESS:
        yield view_in_process
        return
    with running(binaries()[request.param]) as server:
        yield lambda: view_at(server.url)


@pytest.fixture
def view(opens_view: Callable[[], RedisView]) -> Iterator[RedisView]:
    yield from wiped_after(opens_view())


@pytest.fixture
def registry(view: RedisView) -> Registry:
    return Registry(view)


def view_at(url: str) -> RedisView:
    return open_view(RedisSettings(url=url, prefix="test"))


def view_in_process() -> RedisView:
    """An empty view in a Redis in this process, by the time of day."""
    client = MemoryRedis(lambda: int(time.time() * 1000)).client()
    keys = Keys("test")
    scripts = Scripts(client, lua_folder("backends"), on_restart=restart_guard(client, keys, CLAIM_MAX_MS))
    for known in (scripts, scripts.of(lua_folder("quotas"))):
        known.check()  # or they are loaded when a test has made its view, which is then one before a restart
    return RedisView(client, keys, scripts, f"memory, prefix {keys.prefix}")


def wiped_after(view: RedisView) -> Iterator[RedisView]:
    yield view
    view.wipe()
    view.close()
