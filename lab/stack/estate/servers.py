"""Servers of an estate: the command line of each, and when it is ready."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.stack import pulsar_server
from lab.stack.errors import ServerDied
from lab.stack.estate import conf
from lab.stack.estate.shape import ZOOKEEPER, EstatePorts, EstateRequest, host_of, kind_of
from lab.stack.homes import Home
from lab.stack.java import Java
from lab.stack.ports import HOST
from lab.stack.pulsar_server import JavaProgram, java_command

METADATA_TIMEOUT_S = 120.0
_SMALL = ("-Xss512k", "-XX:ReservedCodeCacheSize=96m", "-XX:+UseSerialGC")
_MEMORY = {
    ZOOKEEPER: ("-Xms32m", "-Xmx96m", "-XX:MaxDirectMemorySize=32m", *_SMALL),
    "setup": ("-Xms32m", "-Xmx128m", "-XX:TieredStopAtLevel=1", *_SMALL),
    "bookie": ("-Xms64m", "-Xmx128m", "-XX:MaxDirectMemorySize=160m", *_SMALL),
    # Pauses of a larger heap under the serial collector would be seen as slowness of the broker.
    "broker": ("-Xms128m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", "-Xss512k", "-XX:+UseG1GC"),
}
_MAIN = {
    ZOOKEEPER: "org.apache.zookeeper.server.quorum.QuorumPeerMain",
    "setup": "org.apache.pulsar.PulsarClusterMetadataSetup",
    "bookie": "org.apache.bookkeeper.server.Main",
    "broker": "org.apache.pulsar.PulsarBrokerStarter",
}
_CONF = {ZOOKEEPER: (), "bookie": ("--conf",), "broker": ("--broker-conf",)}
"""The arguments before the path of a configuration."""


@dataclass(frozen=True, kw_only=True)
class EstateLaunch:
    """Everything that the command lines of one estate have in common."""

    home: Home
    java: Java
    distribution: Path
    asked: EstateRequest
    ports: EstatePorts

    def directory(self, name: str) -> Path:
        return self.home.estate / name

    def logs(self, name: str) -> Path:
        return self.home.logs / name

    def console(self, name: str) -> Path:
        return self.logs(name) / "console.log"

    def make_directories(self, name: str) -> None:
        self.directory(name).mkdir(parents=True, exist_ok=True)
        self.logs(name).mkdir(parents=True, exist_ok=True)

    def command(self, name: str) -> list[str]:
        """Write the configuration of a server and return its command line."""
        self.make_directories(name)
        kind = kind_of(name)
        return self._java(name, kind, [*_CONF[kind], str(self._write(name, kind))], _MEMORY[kind])

    def _write(self, name: str, kind: str) -> Path:
        directory = self.directory(name)
        if kind == ZOOKEEPER:
            return conf.write_zookeeper(directory, self.ports)
        if kind == "bookie":
            return conf.write_bookie(self.distribution, directory, name, self.ports, self.asked.bookie_settings)
        more = self.asked.broker_settings
        return conf.write_broker(self.distribution, directory, name, self.ports, self.asked.shape, more)

    def _java(self, name: str, kind: str, arguments: list[str], memory: Sequence[str]) -> list[str]:
        program = JavaProgram(_MAIN[kind], arguments, self.directory(name), self.logs(name), memory)
        return java_command(self.java, self.distribution, program)

    def write_metadata(self, env: Mapping[str, str]) -> None:
        """Write the metadata of a new cluster, once. Raises ServerDied."""
        done = self.directory(ZOOKEEPER) / "cluster-created"
        if done.exists():
            return
        store = conf.metadata_store(self.ports)
        web, broker = f"http://{HOST}:{self.ports.webs[0]}", f"pulsar://{HOST}:{self.ports.brokers[0]}"
        arguments = ["-c", conf.CLUSTER, "-md", store, "-cms", store, "-uw", web, "-ub", broker]
        command = self._java(ZOOKEEPER, "setup", arguments, _MEMORY["setup"])
        self._run(command, env)
        done.touch()

    def _run(self, command: list[str], env: Mapping[str, str]) -> None:
        log = self.logs(ZOOKEEPER) / "metadata.log"
        failed = ServerDied("The estate's metadata could not be written.", f"Its log is {log}.")
        with log.open("ab") as output:
            try:
                ended = subprocess.run(
                    command,
                    cwd=self.directory(ZOOKEEPER),
                    env=pulsar_server.environment(env),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=METADATA_TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise failed from None
        if ended.returncode != 0:
            raise failed

    def readiness(self, name: str) -> Callable[[], bool]:
        """Return the function that asks a server whether it is ready, beyond listening on its ports."""
        kind = kind_of(name)
        if kind == "bookie":
            url = f"http://{host_of(name)}:{self.ports.bookie_http}/api/v1/bookie/is_ready"
            return lambda: pulsar_server.answer_of(url) is not None
        if kind == "broker":
            return lambda: pulsar_server.is_ready(self.ports.of(name)["web"])
        return lambda: True
