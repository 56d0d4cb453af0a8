"""Shared by all tests: an environment of their own, and a real Pulsar, Redis and Spark for those that ask for them."""

import asyncio
import gc
import inspect
import logging
import os
import re
import secrets
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from backends.extras import Missing
from backends.settings import EstateSettings, PulsarSettings, RedisSettings
from benchmarks.estate.servers import SHAPE, EstateServers
from dispatcher.model import shown
from fairlane.local_stack import StackAddresses, cache_folder
from fairlane.settings import Settings
from lab.stack.errors import StackError
from lab.stack.stack import LocalStack
from spark_jobs.session.session import SessionSettings, make_session, require_spark
from tests.stack_keeper import held
from tests.thorough import THOROUGH, TIMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Servers and Spark sessions live for seconds or minutes here: what the JVM's second compiler costs, it never saves.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:-UsePerfData")
GIVEN = dict(os.environ)
"""The environment as it was before any test."""
ADDRESSES = ("FAIRLANE_PULSAR_URL", "FAIRLANE_PULSAR_ADMIN_URL", "FAIRLANE_REDIS_URL")

# How long an example takes is the machine's.
hypothesis.settings.register_profile("desk", deadline=None, max_examples=max(1, round(100 * TIMES)))
hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("desk"), derandomize=True)
# In CI nothing is drawn: a new counterexample is found at a desk, not by somebody's unrelated change.
hypothesis.settings.load_profile("ci" if GIVEN.get("CI") == "true" else "desk")


def pytest_configure() -> None:
    """A run that a shell put in the background ignores interrupts, and so would all that tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class SparkInOneProcess(LoadFileScheduling):  # type: ignore[misc]
    """Keeps the tests of a file together, and those of Spark too: each process that has some starts a session."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if is_spark(Path(file)) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return SparkInOneProcess(config, log) if config.getvalue("dist") == "loadfile" else None


def is_spark(file: Path) -> bool:
    return file.parent.name == "spark_jobs"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs servers by what it asks for, so that `-m "not needs_stack"` can be relied on. Spark and the seeds
    take one process for minutes each: they begin first, so that all processes end together."""
    items.sort(key=lambda item: not is_spark(item.path) and item.path.parent.name != "simulation")
    is_thorough = re.compile("|".join(translate(form) for one in THOROUGH for form in (one, f"{one}::*"))).match
    for item in items:
        if asks_for(item, "stack") or asks_for(item, "estate"):
            item.add_marker("needs_stack")
        if asks_for(item, "estate"):
            item.add_marker("alone")
        if is_thorough(item.nodeid) is not None:
            item.add_marker("thorough")


def asks_for(item: pytest.Item, fixture: str) -> bool:
    """Return whether a test has the fixture, rather than a parameter of that name."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return fixture in getattr(item, "fixturenames", ()) and fixture not in parameters


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test in an event loop of its own, of the fixture `loop_factory` if there is one. Fixtures that are
    async contexts are entered in that loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = inspect.signature(pyfuncitem.obj).parameters
    factory: Any = pyfuncitem.funcargs.get("loop_factory")
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_in_contexts(pyfuncitem.obj, {name: pyfuncitem.funcargs[name] for name in arguments}))
    return True


async def _in_contexts(test: Callable[..., Awaitable[None]], given: dict[str, Any]) -> None:
    async with AsyncExitStack() as stack:
        for name, value in given.items():
            if isinstance(value, AbstractAsyncContextManager):
                given[name] = await stack.enter_async_context(value)
        await test(**given)


def pytest_collection_finish() -> None:
    """Freeze all imported modules and collected tests: they live to the end, so searches for cycles can skip them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer's, and no local stack of theirs, reaches a test."""
    for name in list(os.environ):
        if name.startswith("FAIRLANE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("FAIRLANE_HOME", str(tmp_path / "no-stack"))
    monkeypatch.setenv("FAIRLANE_CACHE", str(cache_folder(GIVEN)))


@pytest.fixture(autouse=True)
def own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that a test gives to this process is hidden in that test only."""
    monkeypatch.setattr(shown.KNOWN, "_forms", ())


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command run inside a test sets up logging for that test only."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@contextmanager
def skipped_without(what: str) -> Iterator[None]:
    """Skip a test if the block does not find what it needs, which is a failure with CI=true."""
    try:
        yield
    except (StackError, Missing) as error:
        if GIVEN.get("CI") == "true":
            raise
        pytest.skip(f"no {what}: {error}")


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackAddresses]:
    """Servers for the whole run: the ones named in the environment, else a local stack that the run's processes share.
    Tests have names of their own there: see fresh_settings."""
    if all(GIVEN.get(name) for name in ADDRESSES):
        pulsar, admin, redis = (GIVEN[name] for name in ADDRESSES)
        yield StackAddresses(pulsar, admin, redis)
        return
    home = folder_of_run(tmp_path_factory) / "stack"
    with held(home):
        with skipped_without("servers"):
            addresses = LocalStack(home, cache=cache_folder(GIVEN), env=GIVEN).up(provision_as=small_tenant("t-shared"))
        yield addresses


@pytest.fixture(scope="session")
def estate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EstateServers]:
    """ZooKeeper, three bookies, two brokers and Redis for the whole run. Each test leaves all of them running."""
    home = folder_of_run(tmp_path_factory) / "an estate with spaces"
    with held(home):
        with skipped_without("servers"):
            servers = EstateServers(home, cache_folder(GIVEN), GIVEN, small_tenant("t-shared"), SHAPE)
        yield servers


@pytest.fixture(autouse=True)
def estate_repaired(request: pytest.FixtureRequest) -> Iterator[None]:
    """Resume and start again what a test of the estate stopped or killed."""
    yield
    if asks_for(request.node, "estate"):
        request.getfixturevalue("estate").repair()


@pytest.fixture
def estate_settings(estate: EstateServers) -> Iterator[Settings]:
    """Settings of the estate with a provisioned tenant and a key prefix of its own; all of it is deleted afterwards."""
    with fresh_names(estate.addresses) as fresh:
        nodes = EstateSettings(bookie_http=estate.addresses.bookie_http, brokers=estate.addresses.brokers)
        yield fresh.model_copy(update={"estate": nodes})


def folder_of_run(factory: pytest.TempPathFactory) -> Path:
    """One for all processes of this run."""
    of_process = factory.getbasetemp()
    return of_process.parent if "PYTEST_XDIST_WORKER" in GIVEN else of_process


@pytest.fixture(scope="session")
def needs_spark() -> None:
    with skipped_without("Spark"):
        require_spark(GIVEN)


@pytest.fixture(scope="session")
def spark(needs_spark: None) -> Iterator["SparkSession"]:
    """One small local Spark for all tests of a process; an attempt that fails is tried once more."""
    conf = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    session = make_session(SessionSettings(app_name="tests", master="local[2,2]", driver_memory="1g", conf=conf))
    yield session
    session.stop()


@pytest.fixture
def fresh_settings(stack: StackAddresses) -> Iterator[Settings]:
    """Settings with a provisioned tenant and a key prefix that no other test has; all of it is deleted afterwards."""
    with fresh_names(stack) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def module_settings(stack: StackAddresses) -> Iterator[Settings]:
    """The same, for all tests of a module together."""
    with fresh_names(stack) as fresh:
        yield fresh


@contextmanager
def fresh_names(stack: StackAddresses) -> Iterator[Settings]:
    """A provisioned tenant and a key prefix, for as long as the context lasts."""
    from lab.isolation import provisioned

    fresh = settings_for(stack, f"t{secrets.token_hex(6)}")
    with provisioned(fresh):
        yield fresh


def settings_for(stack: StackAddresses, name: str) -> Settings:
    """Settings for the stack's servers in the names of a tenant and a prefix."""
    where = {"url": stack.pulsar_url, "admin_url": stack.pulsar_admin_url}
    return Settings(
        pulsar=small_tenant(name).model_copy(update=where),
        redis=RedisSettings(url=stack.redis_url, prefix=name),
    )


def small_tenant(name: str) -> PulsarSettings:
    """Few namespaces and topics, since each costs the broker something."""
    return PulsarSettings(tenant=name, namespaces=2, bundles=1, shared_lanes=2, outcome_partitions=2)
