"""The needs of an estate: its load, and the machines that are there for it."""

import re
from dataclasses import dataclass
from enum import StrEnum

from dispatcher.model.errors import InvalidInput
from dispatcher.wire.envelope import MAX_ENVELOPE_BYTES

MIB, GIB = 1024**2, 1024**3
_SHAPE = re.compile(r"(?:(?P<count>\d+)x)?(?P<memory>\d+)GiB,(?P<cpus>\d+)cpu(?P<rest>(?:,[\w.]+)*)")
_DISKS = re.compile(r"(?:(\d+)x)?(nvme|ssd|hdd)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(GB|TB)")
_NETWORK = re.compile(r"(\d+(?:\.\d+)?)Gbps")
_NUMA = re.compile(r"(\d+)numa")
EXAMPLE = "Write, for example, 3x32GiB,8cpu,nvme or 6x128GiB,32cpu,2xnvme,4TB,25Gbps,2numa."


class DiskKind(StrEnum):
    """Kind of the data disks."""

    NVME = "nvme"
    SSD = "ssd"
    HDD = "hdd"


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Machines of one kind. Raises InvalidInput."""

    count: int
    memory_bytes: int
    cpus: int
    disk: DiskKind = DiskKind.NVME
    disks: int = 1
    """Data disks of each."""
    disk_bytes: float = 1e12
    """Size of a data disk."""
    network_gbps: float = 10.0
    numa_nodes: int = 1
    network_assumed: bool = True
    """Whether the network's speed was not given."""

    def __post_init__(self) -> None:
        for name, least in (("count", 1), ("cpus", 1), ("disks", 1), ("numa_nodes", 1), ("memory_bytes", GIB)):
            if getattr(self, name) < least:
                raise InvalidInput(f"machines: {name}: {getattr(self, name):,} is less than {least:,}.", EXAMPLE)
        if self.disk_bytes <= 0 or self.network_gbps <= 0:
            raise InvalidInput("machines: the size of a disk and the network's speed are more than 0.", EXAMPLE)
        if self.numa_nodes > self.cpus:
            raise InvalidInput(f"machines: {self.cpus} CPUs cannot be on {self.numa_nodes} NUMA nodes.", EXAMPLE)


def parse_machines(text: str) -> Machines:
    """Parse COUNTxMEMORY,CPUS,DISKS and, in any order, the size of a disk, the network's speed and NUMA nodes.

    Raises InvalidInput.
    """
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise InvalidInput(f"machines: {text!r} cannot be read.", EXAMPLE)
    given: dict[str, object] = {}
    for part in shape["rest"].split(",")[1:]:
        fields = _part(part)
        if not fields or fields.keys() & given.keys():
            raise InvalidInput(f"machines: {part!r} is not known, or given twice.", EXAMPLE)
        given |= fields
    return Machines(
        count=int(shape["count"] or 1),
        memory_bytes=int(shape["memory"]) * GIB,
        cpus=int(shape["cpus"]),
        network_assumed="network_gbps" not in given,
        **given,  # type: ignore[arg-type]  # as _part says
    )


def _part(text: str) -> dict[str, object]:
    if found := _DISKS.fullmatch(text):
        return {"disks": int(found[1] or 1), "disk": DiskKind(found[2])}
    if found := _SIZE.fullmatch(text):
        return {"disk_bytes": float(found[1]) * (1e9 if found[2] == "GB" else 1e12)}
    if found := _NETWORK.fullmatch(text):
        return {"network_gbps": float(found[1])}
    if found := _NUMA.fullmatch(text):
        return {"numa_nodes": int(found[1])}
    return {}


@dataclass(frozen=True, kw_only=True)
class ClusterNeeds:
    """The load that an estate carries, and its machines. Raises InvalidInput."""

    targets_per_s: float
    """At the busiest time."""
    machines: Machines
    chunk: int = 500
    """Targets of an envelope."""
    target_bytes: int = 64
    """Size of a target with its variables."""
    copies: int = 2
    """Bookies that store an entry."""
    lanes: int = 10_000
    """Lanes at the same time."""
    backlog_targets: float = 100e6
    """Targets that wait at the same time."""
    mixed: bool = False
    """Whether each machine runs a broker and a bookie."""

    def __post_init__(self) -> None:
        for name in ("targets_per_s", "chunk", "target_bytes", "copies", "lanes", "backlog_targets"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInput(f"tuning: {name}: {getattr(self, name)} is not more than 0.")
        if self.chunk > 500:  # the word's definition
            raise InvalidInput(f"tuning: chunk: an envelope has at most 500 targets, not {self.chunk}.")
        if self.chunk * self.target_bytes > MAX_ENVELOPE_BYTES:
            raise InvalidInput(
                f"tuning: {self.chunk} targets of {self.target_bytes:,} bytes do not fit into an envelope of "
                f"{MAX_ENVELOPE_BYTES:,} bytes.",
                "Give a smaller chunk.",
            )
        if self.copies > 5:
            raise InvalidInput(f"tuning: copies: {self.copies} is more than 5.")
