"""Two brokers on this machine for as long as a benchmark needs them: the second can be stopped and resumed.

The first is a Pulsar standalone that keeps its metadata in the ZooKeeper of the distribution, so that another broker
can join its cluster; it contains the bookie as well.
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
from fairlane.stack import distribution, java, launch, ports, processes, pulsar_conf, pulsar_server
from fairlane.stack.homes import Home
from fairlane.stack.state import ServerState

NAMESPACE = "public/bench"
TOPIC = f"persistent://{NAMESPACE}/wide"
BUNDLES = 64
"""Number of bundles. The topics of a bundle are on one broker; with this many, two partitions are rarely in one bundle.
"""
ZOOKEEPER = {"PULSAR_STANDALONE_USE_ZOOKEEPER": "1"}
BROKER = "org.apache.pulsar.PulsarBrokerStarter"
CLUSTER = "standalone"
APART = 900
"""Minimum distance between the ports of two runs."""
READY_S = 180.0
STOP_S = 20.0
OF_SECOND: dict[str, str] = {
    "clusterName": CLUSTER,
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "functionsWorkerEnabled": "false",
    # The first broker asked for a topic keeps it.
    "loadBalancerEnabled": "false",
}


@dataclass(frozen=True)
class TwoBrokers:
    """Two running brokers; both answer for all topics."""

    settings: PulsarSettings
    """Settings that reach the first broker."""
    topic: str
    """A topic with partitions."""
    blocked: tuple[int, ...]
    """The partitions that the second broker serves."""
    second: ServerState
    """The second broker's process, which can be stopped."""

    def pause(self) -> None:
        """Freeze the second broker: its connections stay open, but nothing is answered."""
        os.kill(self.second.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.second.pid, signal.SIGCONT)


class Brokers:
    """Two brokers of a cluster on this machine, started one by one; the second can be ended and started again."""

    def __init__(self, folder: Path, cache: Path, say: Callable[[str], None], more: Mapping[str, str]) -> None:
        """Prepare the brokers without starting them. `more`: settings of both."""
        self._env = {**os.environ, **ZOOKEEPER}
        self._java, self._unpacked = java.find(self._env), distribution.ensure(cache, self._env, say)
        self.ports, self._zookeeper = _ports()
        self._folder, self._say, self._more = folder, say, more
        self._started: dict[int, ServerState] = {}

    @property
    def first(self) -> PulsarSettings:
        """Return settings that reach the first broker, which answers for all topics."""
        return PulsarSettings(url=f"pulsar://{ports.HOST}:{self.ports[0].broker}", admin_url=self.web_url(0))

    def web_url(self, number: int) -> str:
        return f"http://{ports.HOST}:{self.ports[number].web}"

    def server(self, number: int) -> ServerState:
        return self._started[number]

    def start(self, number: int) -> None:
        """Start a broker and wait until it serves."""
        home = Home(self._folder / f"broker-{number + 1}")
        home.make()
        self._say(f"starting broker {number + 1} on port {self.ports[number].broker}")
        command = _command(number, self._java, self._unpacked, home, self.ports[number], self._zookeeper, self._more)
        server = self._started[number] = _started(command, home, self._env)
        logs = (home.logs / "pulsar-console.log", home.logs / "pulsar.log")
        launch.wait_ready(server, lambda: pulsar_server.is_ready(self.ports[number].web), logs, READY_S)

    def kill(self, number: int) -> None:
        """Kill a broker; its topics belong to no broker until its session with ZooKeeper has ended."""
        server = self._started[number]
        processes.stop(server.pid, server.birth, 0.0)

    def stop(self) -> None:
        for number in sorted(self._started, reverse=True):
            server = self._started[number]
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGCONT)
            processes.stop(server.pid, server.birth, STOP_S)


@contextmanager
def brokers_in(
    folder: Path, cache: Path, say: Callable[[str], None], more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Brokers]:
    """Yield two brokers that are not started yet; those started in `folder` are stopped and deleted afterwards."""
    brokers = Brokers(folder, cache, say, more)
    try:
        yield brokers
    finally:
        brokers.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def two_brokers(folder: Path, cache: Path, partitions: int, say: Callable[[str], None]) -> Iterator[TwoBrokers]:
    """Start both brokers in `folder`; stop and delete them afterwards.

    A broker that is alone takes every topic that it is asked for, so all partitions but one are requested before the
    second starts.
    """
    with brokers_in(folder, cache, say) as brokers:
        brokers.start(0)
        names = _created(brokers.first, partitions)
        owners = [take(name, brokers.web_url(0)) for name in names[1:]]
        brokers.start(1)
        owners.insert(0, take(names[0], brokers.web_url(1)))
        blocked = tuple(number for number, owner in enumerate(owners) if owner != brokers.first.url)
        if not blocked or len(blocked) == partitions:
            raise FairlaneError(f"All partitions are on one broker: {owners}.", "Run it again.")
        with closing(PulsarAdmin(brokers.first)) as admin:
            admin.create_subscription(TOPIC, SUBSCRIPTION)
        yield TwoBrokers(brokers.first, TOPIC, blocked, brokers.server(1))


def _created(settings: PulsarSettings, partitions: int) -> list[str]:
    with closing(PulsarAdmin(settings)) as admin:
        admin.create_namespace(NAMESPACE, {"bundles": {"numBundles": BUNDLES}})
        admin.create_topic(TOPIC, partitions)
    return topics_of_lane(TOPIC, partitions)


def _ports() -> tuple[list[pulsar_server.PulsarPorts], int]:
    """Return free ports, away from those of local stacks and other runs: a killed broker leaves its ports free."""
    apart, numbers = secrets.randbelow(APART), list[int]()
    for preferred in (16_650, 16_651, 18_080, 18_081, 13_181, 12_181):
        numbers.append(ports.choose(preferred + apart, numbers))
    broker, broker2, web, web2, bookie, zookeeper = numbers
    first, second = pulsar_server.PulsarPorts(broker, web, bookie), pulsar_server.PulsarPorts(broker2, web2, 0)
    return [first, second], zookeeper


def _command(
    number: int,
    java_program: java.Java,
    unpacked: Path,
    home: Home,
    chosen: pulsar_server.PulsarPorts,
    zookeeper: int,
    settings: Mapping[str, str],
) -> list[str]:
    if number == 0:
        conf = pulsar_conf.write(unpacked, home.pulsar, chosen.broker, chosen.web, more=settings)
        more = ["--zookeeper-dir=zookeeper", f"--zookeeper-port={zookeeper}"]
        arguments = [*pulsar_server.standalone_arguments(conf, chosen), *more]
        return pulsar_server.java_command(java_program, unpacked, home, pulsar_server.MAIN, arguments)
    store = f"zk:{ports.HOST}:{zookeeper}"
    where = {"metadataStoreUrl": store, "configurationMetadataStoreUrl": store}
    conf = pulsar_conf.write(
        unpacked, home.pulsar, chosen.broker, chosen.web, "broker.conf", {**OF_SECOND, **where, **settings}
    )
    return pulsar_server.java_command(java_program, unpacked, home, BROKER, ["--broker-conf", str(conf)])


def _started(command: list[str], home: Home, env: Mapping[str, str]) -> ServerState:
    console = home.logs / "pulsar-console.log"
    pid = processes.start_detached(command, home.pulsar, console, pulsar_server.environment(env))
    birth = processes.birth_of(pid)
    if birth is None:
        raise launch.died("Pulsar", console)
    return ServerState(pid=pid, birth=birth, program="pulsar", version=distribution.VERSION, ports={})


def take(topic: str, admin_url: str) -> str:
    """Ask a broker for the topic with authority: it takes it if no broker has it. Return the address of its broker."""
    http = urllib3.PoolManager(retries=urllib3.Retry(5, backoff_factor=0.2, status_forcelist=(500, 503)))
    path = topic.replace("persistent://", "persistent/")
    try:
        answer = http.request("GET", f"{admin_url}/lookup/v2/topic/{path}?authoritative=true")
        return str(answer.json()["brokerUrl"])
    finally:
        http.clear()
