"""One Kafka, or one Pulsar, for a part of the measurement: on free ports, with data that is deleted afterwards."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from benchmarks.kafka.installing import KafkaTools
from dispatcher.model.errors import FairlaneError
from fairlane.local_stack import cache_folder
from lab.stack import distribution, java, launch, ports, processes, pulsar_server
from lab.stack.homes import Home
from lab.stack.ports import HOST
from lab.stack.state import ServerState

READY_S = 300.0
STOP_S = 20.0
KAFKA_HEAP = "-Xmx1g"
"""Kafka's own default, and that of the Pulsar it is compared with."""
PORTS_FROM = 19_092


@contextmanager
def kafka(folder: Path, tools: KafkaTools, *, fsync: bool) -> Iterator[str]:
    """Start Kafka in KRaft's combined mode; yield its address. fsync: each append is synced before it is confirmed."""
    port = ports.choose(PORTS_FROM)
    controller = ports.choose(port + 1)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        **({"log.flush.interval.messages": "1"} if fsync else {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    conf, log = folder / "server.properties", folder / "kafka.log"
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    program = [str(java.find(os.environ).program), KAFKA_HEAP, "-cp", f"{tools.jars}/*"]
    _run([*program, "kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(conf)])
    pid = processes.start_detached([*program, "kafka.Kafka", str(conf)], folder, log, os.environ)
    with _serving(pid, "kafka", {"broker": port}, log, lambda: True):
        yield f"{HOST}:{port}"


def _cluster_id() -> str:
    """Return an id as Kafka makes them: 22 characters of base64."""
    return uuid4().hex[:22]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FairlaneError(f"Kafka's storage could not be formatted: {done.stdout[-500:]}{done.stderr[-500:]}")


@contextmanager
def pulsar(folder: Path, *, fsync: bool) -> Iterator[tuple[str, str]]:
    """Start the local stack's Pulsar; yield its two addresses. fsync: its journal is synced (Pulsar's default)."""
    home = Home(folder)
    home.make()
    chosen = pulsar_server.PulsarPorts(
        broker=(broker := ports.choose(PORTS_FROM + 300)),
        web=(web := ports.choose(broker + 1)),
        bookie=ports.choose(web + 1),
    )
    unpacked = distribution.ensure(cache_folder(os.environ), os.environ, lambda _: None)
    more = {"journalSyncData": str(fsync).lower()}
    command = pulsar_server.command(java.find(os.environ), unpacked, home, chosen, more)
    log = home.logs / "console.log"
    pid = processes.start_detached(command, home.pulsar, log, pulsar_server.environment(os.environ))
    with _serving(pid, "pulsar", asdict(chosen), log, lambda: pulsar_server.is_ready(web)):
        yield f"pulsar://{HOST}:{broker}", f"http://{HOST}:{web}"


@contextmanager
def _serving(pid: int, name: str, numbers: dict[str, int], log: Path, ready: Callable[[], bool]) -> Iterator[None]:
    """Wait until the server is ready; stop it afterwards and delete its data."""
    server: ServerState | None = None
    try:
        server = launch.started(pid, name, "", numbers, log)
        launch.wait_ready(server, ready, (log,), READY_S)
        yield
    finally:
        if server is not None:
            processes.stop(server.pid, server.birth, STOP_S)
        shutil.rmtree(log.parent if name == "kafka" else log.parent.parent, ignore_errors=True)
