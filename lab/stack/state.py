"""The state of the running servers in `state.json`."""

from pathlib import Path

from pydantic import BaseModel

from fairlane.local_stack import is_alive
from lab.stack.estate.shape import EstatePorts, EstateShape
from lab.stack.stored import StoredFile


class ServerState(BaseModel, frozen=True):
    """One server that was started. `birth` distinguishes it from a later process with the same pid."""

    pid: int
    birth: str
    program: str
    version: str
    ports: dict[str, int]

    @property
    def alive(self) -> bool:
        """Return whether that same process is still alive."""
        return is_alive(self.pid, self.birth)


class StackPorts(BaseModel, frozen=True):
    """The ports at which clients reach the servers of a local stack."""

    broker: int
    web: int
    redis: int


class EstateState(BaseModel, frozen=True):
    """The servers of an estate that takes the place of the standalone Pulsar."""

    shape: EstateShape
    ports: EstatePorts
    servers: dict[str, ServerState]
    """By name: zookeeper, bookie-1, broker-1 and so on; those that were started."""

    @property
    def alive(self) -> bool:
        """Return whether all servers are alive."""
        return all(name in self.servers and self.servers[name].alive for name in self.shape.names())

    def living(self) -> "EstateState":
        """Return the state without servers that have ended."""
        return self.model_copy(update={"servers": {name: each for name, each in self.servers.items() if each.alive}})

    def with_server(self, name: str, server: ServerState) -> "EstateState":
        return self.model_copy(update={"servers": {**self.servers, name: server}})


class StackState(BaseModel, frozen=True):
    """The servers of a local stack; None for one that was not started or was stopped."""

    format: int = 1
    pulsar: ServerState | None = None
    """The standalone Pulsar."""
    estate: EstateState | None = None
    """The estate, if there is one in place of the standalone Pulsar."""
    redis: ServerState | None = None
    ready: bool = False
    """Whether `stack up` has completed since they were started."""
    ports: StackPorts | None = None
    """Ports of the last `stack up` that completed.

    They stay in force until `stack down`, even if a server ends.
    """

    @property
    def alive(self) -> bool:
        """Return whether all servers are alive."""
        pulsar = self.pulsar if self.estate is None else self.estate
        return pulsar is not None and pulsar.alive and self.redis is not None and self.redis.alive

    def living(self) -> "StackState":
        """Return the state without servers that have ended."""
        return self.model_copy(
            update={
                "pulsar": self.pulsar if self.pulsar and self.pulsar.alive else None,
                "estate": self.estate.living() if self.estate else None,
                "redis": self.redis if self.redis and self.redis.alive else None,
                "ready": self.ready and self.alive,
            }
        )

    def server_ports(self) -> StackPorts:
        """Return the ports of Pulsar (of an estate, those of its first broker) and Redis, which must be known."""
        if self.redis is None or (self.pulsar is None and self.estate is None):
            raise ValueError("the stack is not running")
        redis = self.redis.ports["redis"]
        if self.pulsar is None:
            assert self.estate is not None, "there is one of them"
            return StackPorts(broker=self.estate.ports.brokers[0], web=self.estate.ports.webs[0], redis=redis)
        return StackPorts(broker=self.pulsar.ports["broker"], web=self.pulsar.ports["web"], redis=redis)


def load(path: Path) -> StackState:
    """Read a state file; return an empty state if there is none."""
    return _stored(path).load() or StackState()


def save(path: Path, state: StackState) -> None:
    """Replace the state file."""
    _stored(path).save(state)


def _stored(path: Path) -> StoredFile[StackState]:
    return StoredFile(path, StackState, "Stop its servers by hand if any are running, then delete the file.")
