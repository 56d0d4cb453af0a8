"""The servers of an estate of the local stack by name, and what a bad day does to them."""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from backends.settings import PulsarSettings
from fairlane.local_stack import StackAddresses
from fairlane.settings import Settings
from lab.stack import processes
from lab.stack import state as states
from lab.stack.estate.shape import EstatePorts, EstateRequest, EstateShape, host_of
from lab.stack.homes import Home
from lab.stack.launch import StackOptions
from lab.stack.stack import LocalStack
from lab.stack.state import EstateState, ServerState

SHAPE = EstateShape(bookies=3, brokers=2)
"""The estate of the benchmarks and of the tests."""


class EstateServers:
    """The servers of one estate, by name: zookeeper, bookie-1, broker-1 and so on. Making it starts them."""

    def __init__(
        self,
        home: Path,
        cache: Path,
        env: Mapping[str, str],
        tenant: PulsarSettings,
        shape: EstateShape,
        broker_settings: Mapping[str, str] | None = None,
        bookie_settings: Mapping[str, str] | None = None,
    ) -> None:
        """Settings take the place of the usual ones, at each start of a server. Raises a StackError."""
        self._home, self._cache, self._env, self._tenant, self._shape = home, cache, env, tenant, shape
        self.broker_settings, self._bookie_settings = dict(broker_settings or {}), bookie_settings or {}
        self.start_missing()

    def start_missing(self, shape: EstateShape | None = None) -> StackAddresses:
        """Start the servers that do not run. A larger shape stays."""
        running = self._state().estate
        usual = self._shape if running is None else running.shape
        request = EstateRequest(shape or usual, self.broker_settings, self._bookie_settings)
        self.addresses = self._stack(StackOptions(estate=request)).up(provision_as=self._tenant)
        return self.addresses

    def stop(self) -> None:
        """Stop all servers and delete their data."""
        for name in self.estate().servers:
            self.resume(name)
        self._stack(StackOptions()).down(wipe=True)

    def _stack(self, options: StackOptions) -> LocalStack:
        return LocalStack(self._home, options, cache=self._cache, env=self._env)

    def _state(self) -> states.StackState:
        return states.load(Home(self._home).state_file)

    def estate(self) -> EstateState:
        estate = self._state().estate
        assert estate is not None, "the estate was started"
        return estate

    @property
    def ports(self) -> EstatePorts:
        return self.estate().ports

    def names(self) -> list[str]:
        return self.estate().shape.names()

    def server(self, name: str) -> ServerState:
        return self.estate().servers[name]

    def broker_web(self, name: str) -> str:
        """Return host:port of the REST address of a broker."""
        return f"127.0.0.1:{self.ports.of(name)['web']}"

    def bookie_id(self, name: str) -> str:
        return f"{host_of(name)}:{self.ports.bookie}"

    def bookie_http(self, name: str) -> str:
        return f"http://{host_of(name)}:{self.ports.bookie_http}"

    # ------------------------------------------------------------ bad days
    def kill(self, name: str) -> None:
        """Kill a server at once; `start_missing` starts it again."""
        server = self.server(name)
        processes.stop(server.pid, server.birth, 0.0)

    def terminate(self, name: str) -> None:
        server = self.server(name)
        processes.stop(server.pid, server.birth, 20.0)

    def pause(self, name: str) -> None:
        """Freeze a server: connections stay open, nothing is answered. Longer than 25 s ends a bookie."""
        os.kill(self.server(name).pid, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.server(name).pid, signal.SIGCONT)

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        self.pause(name)
        try:
            yield
        finally:
            self.resume(name)

    @contextmanager
    def slowed(self, name: str, stopped_s: float = 0.4, of_s: float = 0.5) -> Iterator[None]:
        """Stop a server for `stopped_s` of every `of_s`."""
        ended = threading.Event()

        def stop_and_go() -> None:
            while not ended.is_set():
                self.pause(name)
                ended.wait(stopped_s)
                self.resume(name)
                ended.wait(of_s - stopped_s)

        thread = threading.Thread(target=stop_and_go, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.resume(name)

    def repair(self) -> None:
        """Resume and start whatever was left stopped or dead."""
        estate = self.estate()
        for name in estate.servers:
            self.resume(name)
        if not self._state().living().ready:
            self.start_missing()


@contextmanager
def rehearsal(settings: Settings) -> Iterator[tuple[EstateServers, Settings]]:
    """Start an estate in a folder of its own, and yield it with settings that name it. Raises a StackError."""
    with TemporaryDirectory(prefix="fairlane-estate-") as folder:
        estate = EstateServers(Path(folder), settings.cache_folder, os.environ, settings.pulsar, SHAPE)
        try:
            yield estate, at(estate, settings, Path(folder))
        finally:
            estate.stop()


def at(estate: EstateServers, settings: Settings, home: Path) -> Settings:
    """Return the settings with the addresses of an estate."""
    here = estate.addresses
    pulsar = settings.pulsar.model_copy(update={"url": here.pulsar_url, "admin_url": here.pulsar_admin_url})
    redis = settings.redis.model_copy(update={"url": here.redis_url})
    of_estate = settings.estate.model_copy(update={"bookie_http": here.bookie_http})
    update = {"pulsar": pulsar, "redis": redis, "estate": of_estate, "home": home}
    return settings.model_copy(update=update)
