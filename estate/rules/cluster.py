"""One look at an estate: frozen facts about brokers, bookies and bundles.

A figure is None if no node reported it. None never means zero, nor that all is well.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class LoadManager(StrEnum):
    """The kind of load manager that a broker runs."""

    MODULAR = "modular"
    EXTENSIBLE = "extensible"
    SIMPLE = "simple"
    NONE = "none"
    """Load balancing is off; a standalone server has none."""


class BookieMode(StrEnum):
    """The state in which the metadata lists a bookie."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"
    GONE = "gone"
    """It has a cookie, but is not registered: dead, or cut off from the metadata."""
    UNKNOWN = "unknown"
    """No bookie could be asked."""


@dataclass(frozen=True)
class Usage:
    """Use of one resource of a broker, in the unit of its limit."""

    used: float
    limit: float
    """Zero or negative if the broker does not know it, as Pulsar on a virtual machine does not know its network's."""

    @property
    def share(self) -> float | None:
        """Return used / limit; None without a limit."""
        return self.used / self.limit if self.limit > 0 else None


@dataclass(frozen=True, kw_only=True)
class BrokerLoad:
    """One broker, in one look. A broker that did not answer has a `failure` and no figures."""

    name: str
    """host:port of its REST address."""
    failure: str = ""
    """Why it did not answer, or answered in part; empty if it answered."""
    gone: bool = False
    """Whether the cluster does not list it any more, and an earlier command saw it."""
    manager: LoadManager | None = None
    cpu: Usage | None = None
    """In per cent; 100 for each core."""
    direct: Usage | None = None
    """Direct memory, in MB."""
    network_in: Usage | None = None
    """In kbit/s."""
    bytes_in: float | None = None
    bytes_out: float | None = None
    bundles: tuple[str, ...] = ()
    """The bundles that it owns and reported, as tenant/namespace/range."""
    lanes: int | None = None
    """Topics that it serves."""
    publish_p50_ms: float | None = None
    """Time from a message's arrival to its receipt."""
    publish_p99_ms: float | None = None
    metadata_put_p99_ms: float | None = None
    """Time of a write to the metadata store, as this broker sees it: of those between two looks, None without any."""
    metadata_get_p99_ms: float | None = None
    cache_hit_ratio: float | None = None
    """Share of reads served from memory; None if nothing was read."""
    throttled_connections: int | None = None
    """Connections that are not read because too much is waiting to be stored."""
    bookies_p99_ms: Mapping[str, float] = field(default_factory=dict)
    """p99 of a write, by host:port of the bookie, as this broker sees it. Bookies without traffic are left out."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Broker settings in force; empty if the broker did not say."""

    @property
    def answered(self) -> bool:
        return not self.failure


@dataclass(frozen=True, kw_only=True)
class BookieState:
    """One bookie, in one look."""

    name: str
    """Its id, host:port of its data port."""
    mode: BookieMode = BookieMode.UNKNOWN
    """As the metadata lists it."""
    failure: str = ""
    """Why its HTTP interface did not answer; empty if it did."""
    rack: str | None = None
    """None: no rack was given to it."""
    disk_used: float | None = None
    """Share of its disks in use, 0 to 1."""
    broker_p99_ms: float | None = None
    """p99 of a write to it: the largest that any broker sees. None without traffic."""
    write_p50_ms: float | None = None
    """As the bookie itself measures it."""
    write_p99_ms: float | None = None
    queue_p99_ms: float | None = None
    """Time in the queue of its write threads."""
    journal_queue_p99_ms: float | None = None
    fsync_p99_ms: float | None = None
    """Time of a sync of its journal, as the bookie itself measures it."""
    ledgers: int | None = None
    """Ledgers with data on it."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Bookie settings in force; empty if the bookie did not say."""

    @property
    def answered(self) -> bool:
        return not self.failure

    @property
    def writable(self) -> bool:
        return self.mode is BookieMode.WRITABLE


@dataclass(frozen=True, kw_only=True)
class NamespaceState:
    """How a namespace of ours stores its topics."""

    name: str
    """tenant/namespace."""
    ensemble: int
    """Bookies over which a ledger is spread."""
    write_quorum: int
    """Copies of an entry."""
    ack_quorum: int
    """Copies that are acknowledged before the receipt."""
    bundles: int
    """Number of its bundles."""
    offload: Mapping[str, str] = field(default_factory=dict)
    """Its offload policy; empty if it has none."""


@dataclass(frozen=True)
class StraySubscription:
    """A subscription in our namespaces that is not ours."""

    topic: str
    name: str
    backlog: int


@dataclass(frozen=True)
class LedgerPlacement:
    """The bookies that hold the newest entries of a topic."""

    topic: str
    bookies: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Estate:
    """Everything that one look showed."""

    brokers: tuple[BrokerLoad, ...] = ()
    bookies: tuple[BookieState, ...] = ()
    namespaces: tuple[NamespaceState, ...] = ()
    broker_number: int | None = None
    """Brokers that the cluster has when none is lost; None if nobody said or stored it."""
    broker_names: tuple[str, ...] = ()
    """The brokers that the last provisioning found, if none was lost then."""
    leader: str | None = None
    """host:port of the REST address of the broker that leads; None if unknown."""
    auditor: str | None = None
    """The bookie that looks for lost copies; None if unknown."""
    under_replicated: int | None = None
    """Ledgers with missing copies; None if unknown."""
    strays: tuple[StraySubscription, ...] = ()
    ledgers: tuple[LedgerPlacement, ...] = ()
    """A sample: the ledgers of the system topics."""
    offload_errors: Mapping[str, str] = field(default_factory=dict)
    """The error of the last offload, by topic; those of the system topics."""
    bookies_asked: bool = True
    """Whether there was an address for the bookies' HTTP interfaces."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Parts of the cluster itself that could not be read, and why: `brokers`, `bookies`, `policies/NAMESPACE` …"""

    def writable_bookies(self) -> tuple[BookieState, ...]:
        return tuple(bookie for bookie in self.bookies if bookie.writable)

    def largest_ensemble(self) -> int | None:
        """Return the largest ensemble size of our namespaces; None if none was read."""
        return max((namespace.ensemble for namespace in self.namespaces), default=None)


@dataclass(frozen=True, kw_only=True)
class Expectations:
    """Settings of Fairlane that the estate is checked against."""

    guarded: bool = False
    """Whether a guard isolates slow nodes."""
    racks: Mapping[str, str] = field(default_factory=dict)
    """Rack by bookie, as configured."""
    offload: bool = False
    """Whether an offload policy is configured for the system namespace."""
    system_namespace: str = ""
    system_brokers: tuple[str, ...] = ()
    """Regular expressions of the brokers for the system namespace; empty: any."""
    system_bookies: tuple[str, ...] = ()
    """Bookies for the system namespace, hosts or host:port; empty: any."""
    envelope_bytes: int = 33_000
    """Size of a large envelope."""
