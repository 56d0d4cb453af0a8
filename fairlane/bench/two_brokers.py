"""Two brokers on this machine for as long as a benchmark needs them: the second can be stopped and go on.

The first is a Pulsar standalone that keeps its metadata in the ZooKeeper of the distribution, so that another broker
can join its cluster; it has the bookie as well.
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import urllib3

from backends.pulsar_admin import PulsarAdmin
from backends.settings import PulsarSettings
from dispatcher.errors import FairlaneError
from dispatcher.topics import SUBSCRIPTION, topics_of_lane
from fairlane.stack import distribution, java, launch, ports, processes, pulsar_conf, pulsar_server
from fairlane.stack.homes import Home
from fairlane.stack.state import ServerState

NAMESPACE = "public/bench"
TOPIC = f"persistent://{NAMESPACE}/wide"
BUNDLES = 64
"""Topics of a bundle are on one broker; with so many hardly two of the partitions are in one."""
ZOOKEEPER = {"PULSAR_STANDALONE_USE_ZOOKEEPER": "1"}
BROKER = "org.apache.pulsar.PulsarBrokerStarter"
CLUSTER = "standalone"
READY_S = 180.0
STOP_S = 20.0
OF_SECOND: dict[str, str] = {
    "clusterName": CLUSTER,
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "functionsWorkerEnabled": "false",
    # Who was asked for a topic first keeps it.
    "loadBalancerEnabled": "false",
}


@dataclass(frozen=True)
class TwoBrokers:
    """settings: how the first is reached; both answer for all topics. topic: has partitions, of which the second broker
    serves those in `blocked`. second: can be stopped."""

    settings: PulsarSettings
    topic: str
    blocked: tuple[int, ...]
    second: ServerState

    def pause(self) -> None:
        """Stops the second broker where it stands: its connections stay open and nothing is answered."""
        os.kill(self.second.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.second.pid, signal.SIGCONT)


@contextmanager
def two_brokers(folder: Path, cache: Path, partitions: int, say: Callable[[str], None]) -> Iterator[TwoBrokers]:
    """Starts both in `folder`, and stops and deletes them afterwards.

    A broker alone takes every topic that it is asked for, so all partitions but one are asked for before the second is
    there.
    """
    env = {**os.environ, **ZOOKEEPER}
    found, unpacked = java.find(env), distribution.ensure(cache, env, say)
    chosen, zookeeper = _ports()
    started: list[ServerState] = []

    def start(number: int) -> str:
        home = Home(folder / f"broker-{number + 1}")
        home.make()
        say(f"starting broker {number + 1} on port {chosen[number].broker}")
        command = _command(number, found, unpacked, home, chosen[number], zookeeper)
        started.append(_started(command, home, env))
        logs = (home.logs / "pulsar-console.log", home.logs / "pulsar.log")
        launch.wait_ready(started[-1], lambda: pulsar_server.is_ready(chosen[number].web), logs, READY_S)
        return f"http://{ports.HOST}:{chosen[number].web}"

    try:
        first_url = start(0)
        settings = PulsarSettings(url=f"pulsar://{ports.HOST}:{chosen[0].broker}", admin_url=first_url)
        names = _created(settings, partitions)
        owners = [_taken(name, first_url) for name in names[1:]]
        owners.insert(0, _taken(names[0], start(1)))
        blocked = tuple(number for number, owner in enumerate(owners) if owner != settings.url)
        if not blocked or len(blocked) == partitions:
            raise FairlaneError(f"All partitions are on one broker: {owners}.", "Run it again.")
        with closing(PulsarAdmin(settings)) as admin:
            admin.create_subscription(TOPIC, SUBSCRIPTION)
        yield TwoBrokers(settings, TOPIC, blocked, started[1])
    finally:
        for server in reversed(started):
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGCONT)
            processes.stop(server.pid, server.birth, STOP_S)
        shutil.rmtree(folder, ignore_errors=True)


def _created(settings: PulsarSettings, partitions: int) -> list[str]:
    with closing(PulsarAdmin(settings)) as admin:
        admin.create_namespace(NAMESPACE, {"bundles": {"numBundles": BUNDLES}})
        admin.create_topic(TOPIC, partitions)
    return topics_of_lane(TOPIC, partitions)


def _ports() -> tuple[list[pulsar_server.PulsarPorts], int]:
    """Free ones, away from those of local stacks."""
    numbers: list[int] = []
    for preferred in (16_650, 16_651, 18_080, 18_081, 13_181, 12_181):
        numbers.append(ports.choose(preferred, numbers))
    broker, broker2, web, web2, bookie, zookeeper = numbers
    first, second = pulsar_server.PulsarPorts(broker, web, bookie), pulsar_server.PulsarPorts(broker2, web2, 0)
    return [first, second], zookeeper


def _command(
    number: int, found: java.Java, unpacked: Path, home: Home, chosen: pulsar_server.PulsarPorts, zookeeper: int
) -> list[str]:
    if number == 0:
        conf = pulsar_conf.write(unpacked, home.pulsar, chosen.broker, chosen.web)
        more = ["--zookeeper-dir=zookeeper", f"--zookeeper-port={zookeeper}"]
        arguments = [*pulsar_server.standalone_arguments(conf, chosen), *more]
        return pulsar_server.java_command(found, unpacked, home, pulsar_server.MAIN, arguments)
    store = f"zk:{ports.HOST}:{zookeeper}"
    where = {"metadataStoreUrl": store, "configurationMetadataStoreUrl": store}
    conf = pulsar_conf.write(unpacked, home.pulsar, chosen.broker, chosen.web, "broker.conf", {**OF_SECOND, **where})
    return pulsar_server.java_command(found, unpacked, home, BROKER, ["--broker-conf", str(conf)])


def _started(command: list[str], home: Home, env: Mapping[str, str]) -> ServerState:
    console = home.logs / "pulsar-console.log"
    pid = processes.start_detached(command, home.pulsar, console, pulsar_server.environment(env))
    birth = processes.birth_of(pid)
    if birth is None:
        raise launch.died("Pulsar", console)
    return ServerState(pid=pid, birth=birth, program="pulsar", version=distribution.VERSION, ports={})


def _taken(topic: str, admin_url: str) -> str:
    """Asks a broker for the topic with authority: it takes it if nobody has it. The address of who has it then."""
    http = urllib3.PoolManager(retries=urllib3.Retry(5, backoff_factor=0.2, status_forcelist=(500, 503)))
    path = topic.replace("persistent://", "persistent/")
    try:
        answer = http.request("GET", f"{admin_url}/lookup/v2/topic/{path}?authoritative=true")
        return str(answer.json()["brokerUrl"])
    finally:
        http.clear()
