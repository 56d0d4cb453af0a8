"""Worlds for the same test bodies over every Redis there is: one in this process, and every server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.redis.client import lua_folder
from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView, open_view
from backends.settings import RedisSettings
from backends.system_clock import SystemClock
from benchmarks.redis_server import binaries, running
from lab.simulator.redis.server import MemoryRedis
from lab.simulator.world import view_in
from tests.contract.ledger_worlds import LawWorld, Worlds, in_process_worlds, redis_worlds
from tests.contract.moved_clock import lua_with_test_clock

IN_PROCESS = "in-process"
SERVERS = [
    pytest.param(engine, marks=[pytest.mark.thorough] * (number > 0))
    for number, engine in enumerate(sorted(binaries()))
]
"""Every server; `make test` asks the first one."""
EVERY_REDIS = [pytest.param(IN_PROCESS, marks=pytest.mark.thorough), *SERVERS]
"""The one in this process is compared with a server command by command in test_memory_redis.py, also by `make test`."""


@pytest.fixture(scope="session")
def test_lua(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger's scripts under a clock that tests move."""
    return lua_with_test_clock(tmp_path_factory.mktemp("ledger") / "lua")


def worlds_of(engine: str, test_lua: Path) -> Iterator[Worlds]:
    """Make fresh worlds in a Redis of this engine."""
    if engine == IN_PROCESS:
        yield in_process_worlds()
        return
    with running(binary=binaries()[engine]) as server, redis_worlds(server.url, test_lua) as worlds:
        yield worlds


@pytest.fixture(scope="session", params=SERVERS)
def real_worlds(request: pytest.FixtureRequest, test_lua: Path) -> Iterator[Worlds]:
    """Makes fresh worlds in a server of this engine."""
    yield from worlds_of(request.param, test_lua)


@pytest.fixture(scope="session", params=EVERY_REDIS)
def worlds(request: pytest.FixtureRequest, test_lua: Path) -> Iterator[Worlds]:
    """Makes fresh worlds, in this process or in a server."""
    yield from worlds_of(request.param, test_lua)


@pytest.fixture
def world(worlds: Worlds) -> LawWorld:
    return worlds()


@pytest.fixture
def live(world: LawWorld) -> LawWorld:
    """A world in which the task t is live."""
    world.add("t")
    return world


@pytest.fixture(scope="module", params=SERVERS)
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(binary=binaries()[request.param]) as server:
        yield server.url


@pytest.fixture
def server_view(server_url: str) -> Iterator[RedisView]:
    """A view that clients can open by its server's address."""
    yield from wiped_after(view_at(server_url))


@pytest.fixture(scope="module", params=EVERY_REDIS)
def opens_view(request: pytest.FixtureRequest) -> Iterator[Callable[[], RedisView]]:
    if request.param == IN_PROCESS:
        yield lambda: with_scripts(view_in(MemoryRedis(SystemClock().wall_ms), "test"))
        return
    with running(binary=binaries()[request.param]) as server:
        yield lambda: view_at(server.url)


@pytest.fixture
def view(opens_view: Callable[[], RedisView]) -> Iterator[RedisView]:
    yield from wiped_after(opens_view())


@pytest.fixture
def registry(view: RedisView) -> Registry:
    return Registry(view)


def view_at(url: str) -> RedisView:
    return with_scripts(open_view(RedisSettings(url=url, prefix="test")))


def with_scripts(view: RedisView) -> RedisView:
    """A view whose server knows all scripts."""
    for known in (view.scripts, view.scripts.of(lua_folder("quotas"))):
        known.check()  # or they are loaded when a test has made its view, which is then one before a restart
    return view


def wiped_after(view: RedisView) -> Iterator[RedisView]:
    yield view
    view.wipe()
    view.close()
