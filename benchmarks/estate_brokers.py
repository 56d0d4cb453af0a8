"""Two brokers of an estate on this machine for as long as a benchmark needs them.

The second can be stopped, resumed, ended and started again. One bookie stores everything.
"""

import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import urllib3

from backends.pulsar.admin import PulsarAdmin
from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError
from dispatcher.wire.topics import SUBSCRIPTION, topics_of_lane
from lab.stack import lock, ports, processes
from lab.stack.estate.shape import EstatePorts, EstateRequest, EstateShape
from lab.stack.estate.start import EstateStarter, stop
from lab.stack.homes import Home
from lab.stack.launch import StackOptions
from lab.stack.state import EstateState, ServerState, StackPorts

NAMESPACE = "public/bench"
TOPIC = f"persistent://{NAMESPACE}/wide"
BUNDLES = 64
"""Number of bundles. The topics of a bundle are on one broker; with this many, two partitions are rarely in one bundle.
"""
APART = 900
"""Minimum distance between the ports of two runs: a killed broker leaves its ports free."""
READY_S = 180.0
BOOKIES = 1
OF_BROKERS: dict[str, str] = {"loadBalancerEnabled": "false"}
"""The first broker that is asked for a topic keeps it."""


class Brokers:
    """The brokers of an estate on this machine, started one by one."""

    def __init__(self, folder: Path, cache: Path, say: Callable[[str], None], more: Mapping[str, str]) -> None:
        """Prepare the brokers without starting them. `more`: settings of both."""
        apart = secrets.randbelow(APART)
        options = StackOptions(
            ready_timeout_s=READY_S, usual=StackPorts(broker=16_650 + apart, web=18_080 + apart, redis=0)
        )
        home = Home(folder)
        home.make()
        self._starter = EstateStarter(home, cache, os.environ, options)
        self._say, self._settings = say, {**OF_BROKERS, **more}
        self._state: EstateState | None = None

    @property
    def first(self) -> PulsarSettings:
        """Return settings that reach the first broker, which answers for all topics."""
        return PulsarSettings(url=self.url(0), admin_url=self.web_url(0))

    @property
    def ports(self) -> EstatePorts:
        return self._running.ports

    def url(self, number: int) -> str:
        return f"pulsar://{ports.HOST}:{self.ports.brokers[number]}"

    def web_url(self, number: int) -> str:
        return f"http://{ports.HOST}:{self.ports.webs[number]}"

    def server(self, number: int) -> ServerState:
        return self._running.servers[f"broker-{number + 1}"]

    def start(self, count: int) -> None:
        """Start what does not run of the first `count` brokers and of what they need; wait until it serves."""
        request = EstateRequest(EstateShape(bookies=BOOKIES, brokers=count), self._settings)
        before = None if self._state is None else self._state.living()
        with lock.exclusive(lock.MACHINE, self._say):
            self._state = self._starter.start(request, before, self._note, self._say)

    def kill(self, number: int) -> None:
        """Kill a broker; its topics belong to no broker until its session with ZooKeeper has ended."""
        server = self.server(number)
        processes.stop(server.pid, server.birth, 0.0)

    def stop(self) -> None:
        if self._state is None:
            return
        for server in self._state.servers.values():
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGCONT)
        stop(self._state.servers, self._say)

    @property
    def _running(self) -> EstateState:
        assert self._state is not None, "they were started"
        return self._state

    def _note(self, state: EstateState) -> None:
        self._state = state


@contextmanager
def brokers_in(
    folder: Path, cache: Path, say: Callable[[str], None], more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Brokers]:
    """Yield brokers that are not started yet; those started in `folder` are stopped and deleted afterwards."""
    brokers = Brokers(folder, cache, say, more)
    try:
        yield brokers
    finally:
        brokers.stop()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class BlockedTopic:
    """A topic whose partitions two brokers serve; both answer for all topics."""

    brokers: Brokers
    topic: str
    """A topic with partitions."""
    blocked: tuple[int, ...]
    """The partitions that the second broker serves."""

    def pause(self) -> None:
        """Freeze the second broker: its connections stay open, but nothing is answered."""
        os.kill(self.brokers.server(1).pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.brokers.server(1).pid, signal.SIGCONT)


@contextmanager
def blocked_topic(folder: Path, cache: Path, partitions: int, say: Callable[[str], None]) -> Iterator[BlockedTopic]:
    """Start both brokers in `folder`; stop and delete them afterwards.

    A broker that is alone takes every topic that it is asked for, so all partitions but one are requested before the
    second starts.
    """
    with brokers_in(folder, cache, say) as brokers:
        brokers.start(1)
        names = _created(brokers.first, partitions)
        owners = [take(name, brokers.web_url(0)) for name in names[1:]]
        brokers.start(2)
        owners.insert(0, take(names[0], brokers.web_url(1)))
        blocked = tuple(number for number, owner in enumerate(owners) if owner != brokers.url(0))
        if not blocked or len(blocked) == partitions:
            raise FairlaneError(f"All partitions are on one broker: {owners}.", "Run it again.")
        with closing(PulsarAdmin(brokers.first)) as admin:
            admin.create_subscription(TOPIC, SUBSCRIPTION)
        yield BlockedTopic(brokers, TOPIC, blocked)


def _created(settings: PulsarSettings, partitions: int) -> list[str]:
    with closing(PulsarAdmin(settings)) as admin:
        admin.create_namespace(NAMESPACE, {"bundles": {"numBundles": BUNDLES}})
        admin.create_topic(TOPIC, partitions)
    return topics_of_lane(TOPIC, partitions)


def take(topic: str, admin_url: str) -> str:
    """Ask a broker for the topic with authority: it takes it if no broker has it. Return the address of its broker."""
    http = urllib3.PoolManager(retries=urllib3.Retry(5, backoff_factor=0.2, status_forcelist=(500, 503)))
    path = topic.replace("persistent://", "persistent/")
    try:
        answer = http.request("GET", f"{admin_url}/lookup/v2/topic/{path}?authoritative=true")
        return str(answer.json()["brokerUrl"])
    finally:
        http.clear()
