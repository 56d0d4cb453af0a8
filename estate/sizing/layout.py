"""Where a machine's disks and CPUs go: journal and ledgers, broker and bookie."""

from dataclasses import dataclass

from estate.sizing.needs import ClusterNeeds, DiskKind

MIN_CPUS = 4
"""Below this, nothing is pinned: Java's own threads would wait for each other."""
SYSTEM_CPUS_FROM = 8
"""From this many on, the first CPU of a machine is the system's."""


@dataclass(frozen=True)
class CpuSet:
    """CPUs of one server; `cpus` is empty if it is not pinned."""

    cpus: range = range(0)
    numa_node: int | None = None
    """The NUMA node that they and their memory are on, if it is one."""

    @property
    def directives(self) -> list[str]:
        """Return the lines of a systemd unit that pin a server to the CPUs."""
        if not self.cpus:
            return []
        last = f"-{self.cpus[-1]}" if len(self.cpus) > 1 else ""
        numa = [] if self.numa_node is None else ["NUMAPolicy=bind", f"NUMAMask={self.numa_node}"]
        return [f"AllowedCPUs={self.cpus[0]}{last}", *numa]


@dataclass(frozen=True)
class MachineLayout:
    """Directories and CPUs of a machine."""

    journal: str
    ledgers: tuple[str, ...]
    broker: CpuSet
    bookie: CpuSet
    reasons: tuple[str, ...]


def layout_of(needs: ClusterNeeds, broker_part: float) -> MachineLayout:
    """Return the layout of each machine. broker_part: the broker's part of the CPU that a mixed machine needs."""
    disks = needs.machines.disks
    first = 1 if disks == 1 else 2
    ledgers = tuple(f"/data/{number}/ledgers" for number in range(first, disks + 1))
    broker, bookie = _cpus(needs, broker_part)
    return MachineLayout("/data/1/journal", ledgers, broker, bookie, tuple(_reasons(needs)))


def _reasons(needs: ClusterNeeds) -> list[str]:
    machines = needs.machines
    alone = "The journal has a disk of its own: it is written in order, and each entry waits for its sync."
    shared = "Journal and ledgers share the only disk; a second one for the journal keeps syncs short."
    reasons = [shared if machines.disks == 1 else alone]
    if machines.disk is DiskKind.HDD:
        reasons.append("A hard disk takes some hundred syncs a second: put the journal on an SSD.")
    reasons.append("ZooKeeper's data and log are on the system's disk, away from journal and ledgers.")
    if machines.numa_nodes > 1:
        reasons.append("CPUs are numbered node by node here, which `lscpu` must confirm; if not, edit AllowedCPUs.")
    return reasons


def _cpus(needs: ClusterNeeds, broker_part: float) -> tuple[CpuSet, CpuSet]:
    """Return the CPUs of the broker and the bookie."""
    machines = needs.machines
    if machines.cpus < MIN_CPUS:
        return CpuSet(), CpuSet()
    free = range(1 if machines.cpus >= SYSTEM_CPUS_FROM else 0, machines.cpus)
    if not needs.mixed:
        return CpuSet(free), CpuSet(free)
    if machines.numa_nodes > 1:
        of_node = machines.cpus // machines.numa_nodes
        return CpuSet(free[: of_node - free[0]], 0), CpuSet(range(of_node, 2 * of_node), 1)
    cut = min(max(round(len(free) * broker_part), 1), len(free) - 1)
    return CpuSet(free[:cut]), CpuSet(free[cut:])
