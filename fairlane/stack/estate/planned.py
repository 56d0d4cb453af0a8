"""A plan of `fairlane tune cluster --write` on this machine: its own files, with addresses and directories of here.

Nothing is added from the distribution's files, as where the plan's units start the servers.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from fairlane.stack import pulsar_conf
from fairlane.stack.errors import StackError
from fairlane.stack.estate import conf
from fairlane.stack.estate.shape import AUTORECOVERY, ZOOKEEPER, EstatePorts, kind_of

FILES = {
    ZOOKEEPER: "zookeeper.conf",
    "bookie": "bookkeeper.conf",
    AUTORECOVERY: "autorecovery.conf",
    "broker": "broker.conf",
}
_MEMORY = re.compile(r'_MEM=([^"]*)"')


@dataclass(frozen=True)
class PlanFiles:
    """The folder of a plan. Its methods raise StackError if a file is missing, or is none of a plan."""

    folder: Path

    def write(self, name: str, directory: Path, ports: EstatePorts) -> Path:
        """Write the configuration of a server; return its path."""
        file = FILES[kind_of(name)]
        text = self._text(file)
        return pulsar_conf.write_conf(directory / file, pulsar_conf.merged(_alone(text), _here(name, text, ports)))

    def memory(self, name: str) -> tuple[str, ...]:
        """Return the options of Java's memory, as in the unit of the server."""
        unit = f"units/pulsar-{kind_of(name)}.service"
        found = _MEMORY.search(self._text(unit))
        if found is None:
            raise StackError(f"{self.folder / unit} names no memory.", _WRITE)
        return tuple(found[1].split())

    def _text(self, file: str) -> str:
        try:
            return (self.folder / file).read_text()
        except OSError as error:
            raise StackError(f"{self.folder / file} cannot be read: {error.strerror}.", _WRITE) from error


_WRITE = "Write a plan: `fairlane tune cluster --write DIR`."


def _alone(text: str) -> str:
    """Leave out the other servers of a ZooKeeper."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("server."))


def _here(name: str, text: str, ports: EstatePorts) -> dict[str, str]:
    """Return the settings that this machine replaces."""
    kind = kind_of(name)
    if kind == ZOOKEEPER:
        return {**conf.zookeeper_addresses(ports), "dataDir": "data", "dataLogDir": "log"}
    if kind == AUTORECOVERY:
        own = {name: value for name, value in conf.bookie_addresses(name, ports).items() if not name.startswith("http")}
        return {**own, "prometheusStatsHttpEnable": "false"}
    if kind == "bookie":
        return {
            **conf.bookie_addresses(name, ports),
            "journalDirectories": "data/journal",
            "ledgerDirectories": ",".join(f"data/ledgers{number or ''}" for number in range(_directories(text))),
        }
    numbers = ports.of(name)
    return {**conf.cluster_of(ports), **pulsar_conf.addresses(numbers["broker"], numbers["web"])}


def _directories(text: str) -> int:
    """Return the number of ledger directories."""
    [line] = [line for line in text.splitlines() if line.startswith("ledgerDirectories=")]
    return line.count(",") + 1
