"""The shape of an estate: the number of its servers, their names, addresses and ports."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from dispatcher.model.errors import Refused
from lab.stack import ports
from lab.stack.homes import Home
from lab.stack.stored import StoredFile

ZOOKEEPER = "zookeeper"
APART = 10
"""Minimum distance between the first ports of two estates."""


class EstateShape(BaseModel, frozen=True):
    """The number of bookies and brokers. Numbers of servers begin with 1."""

    bookies: int
    brokers: int

    def bookie_names(self) -> list[str]:
        return [f"bookie-{number}" for number in range(1, self.bookies + 1)]

    def broker_names(self) -> list[str]:
        return [f"broker-{number}" for number in range(1, self.brokers + 1)]

    def names(self) -> list[str]:
        """Return the names of all servers, in the order in which they are started."""
        return [ZOOKEEPER, *self.others()]

    def others(self) -> list[str]:
        """Return the names of all servers but ZooKeeper."""
        return [*self.bookie_names(), *self.broker_names()]

    def includes(self, other: "EstateShape") -> bool:
        return self.bookies >= other.bookies and self.brokers >= other.brokers


@dataclass(frozen=True)
class EstateRequest:
    """An estate to start."""

    shape: EstateShape
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the brokers that are started, in place of the local stack's."""
    bookie_settings: Mapping[str, str] = field(default_factory=dict)


class EstatePorts(BaseModel, frozen=True):
    """The ports of an estate. Bookies have the same ports, each at an address of its own."""

    zookeeper: int
    zookeeper_http: int
    """Its metrics."""
    bookie: int
    bookie_http: int
    """REST and metrics of the bookies."""
    brokers: tuple[int, ...] = ()
    """The binary protocol, in the order of the brokers."""
    webs: tuple[int, ...] = ()
    """REST and metrics."""

    def of(self, name: str) -> dict[str, int]:
        """Return the ports of one server, by what they are for."""
        kind, _, number = name.partition("-")
        if kind == ZOOKEEPER:
            return {"zookeeper": self.zookeeper, "http": self.zookeeper_http}
        if kind == "bookie":
            return {"bookie": self.bookie, "http": self.bookie_http}
        return {"broker": self.brokers[int(number) - 1], "web": self.webs[int(number) - 1]}


def kind_of(name: str) -> str:
    """Return zookeeper, bookie or broker."""
    return name.partition("-")[0]


def host_of(name: str) -> str:
    """Return the address of a server.

    Racks are looked up by host, without the port, so each bookie has an address of its own in 127/8.
    """
    kind, _, number = name.partition("-")
    return f"127.0.0.{int(number) + 1}" if kind == "bookie" else ports.HOST


class StoredEstate(BaseModel, frozen=True):
    """Kept with the data: the ports, to some of which it is bound, and the number of bookies that hold some of it."""

    ports: EstatePorts
    shape: EstateShape


def stored_estate(home: Home) -> StoredFile[StoredEstate]:
    """Return the file of the ports and the shape of an estate with data."""
    return StoredFile(
        home.estate / "estate.json", StoredEstate, "Delete the estate's data: `fairlane stack down --wipe`."
    )


def refuse_fewer_bookies(stored: StoredEstate | None, shape: EstateShape) -> None:
    """Raise Refused if data is on more bookies than would be started."""
    if stored is not None and stored.shape.bookies > shape.bookies:
        raise Refused(
            f"The estate's data is spread over {stored.shape.bookies} bookies; {shape.bookies} would lose some of it.",
            f"Ask for {stored.shape.bookies} bookies or more, or delete the data: `fairlane stack down --wipe`.",
        )


def choose_own_ports(home: Home) -> EstatePorts:
    """Choose ports for ZooKeeper and the bookies, away from those of other homes."""
    first = ports.own_port(home.estate, APART)
    chosen: list[int] = []
    for offset in range(4):
        chosen.append(ports.choose(first + offset, chosen))
    zookeeper, zookeeper_http, bookie, bookie_http = chosen
    return EstatePorts(zookeeper=zookeeper, zookeeper_http=zookeeper_http, bookie=bookie, bookie_http=bookie_http)
