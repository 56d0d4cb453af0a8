"""The plan of an estate: how many brokers and bookies, and what each of them gets, with reasons."""

import math
from dataclasses import dataclass

from dispatcher.model.errors import InvalidInput
from estate.plans.placement import USUAL_BUNDLES, bundles_for
from estate.sizing.figures import Figure, mb
from estate.sizing.load import BUSY_PART, LANE_WRITES, OUTCOME_DAYS, ClusterLoad, load_of
from estate.sizing.memory import JavaMemory, MemorySplit, split_memory
from estate.sizing.needs import GIB, ClusterNeeds, DiskKind

DISK_BYTES_PER_S = {DiskKind.NVME: 1.0e9, DiskKind.SSD: 4.0e8, DiskKind.HDD: 1.2e8}
"""Sequential writes of one disk. Assumed: measure yours."""
USED_PART = 0.5
"""Part of a machine's CPU, disk and network that the busiest time may take, so that one machine less still serves."""
FULL_PART = 0.75
"""Part of the disks that may be in use: a bookie refuses writes at 0.95."""


@dataclass(frozen=True, kw_only=True)
class ClusterPlan:
    """Everything that a plan recommends."""

    needs: ClusterNeeds
    load: ClusterLoad
    brokers: int
    bookies: int
    broker_memory: JavaMemory
    bookie_memory: JavaMemory
    bundles: int
    figures: dict[str, Figure]
    """By name, in the order in which they are shown."""
    remarks: tuple[str, ...]
    """Needs that the machines are too few or too small for."""

    @property
    def enough(self) -> bool:
        return not self.remarks

    @property
    def broker_part(self) -> float:
        """Return the broker's part of the CPU that a machine with a broker and a bookie needs."""
        broker, bookie = self.load.broker_cpus / self.brokers, self.load.bookie_cpus / self.bookies
        return broker / (broker + bookie)


def plan_cluster(needs: ClusterNeeds) -> ClusterPlan:
    """Return the plan of an estate. Raises InvalidInput if there are too few machines to store an entry."""
    load = load_of(needs)
    wanted = {"brokers": _wanted_brokers(needs, load), "bookies": _wanted_bookies(needs, load)}
    brokers, bookies = _divided(needs, *(max(reasons.values()) for reasons in wanted.values()))
    numbers = {"brokers": brokers, "bookies": bookies}
    of_brokers = split_memory(needs.machines.memory_bytes, broker=True, bookie=needs.mixed)
    of_bookies = split_memory(needs.machines.memory_bytes, broker=needs.mixed, bookie=True)
    bundles = bundles_for(brokers)
    figures = {
        **_load_figures(needs, load),
        **{kind: Figure(number, _because(number, wanted[kind], needs)) for kind, number in numbers.items()},
        **_memory_figures(needs, of_brokers, of_bookies),
        **_share_figures(needs, load, brokers, bookies),
        "bundles of a namespace": Figure(bundles, _why_bundles(brokers, bundles)),
        "metadata writes for all lanes": Figure(needs.lanes * LANE_WRITES, f"{LANE_WRITES} for each lane"),
    }
    remarks = tuple(
        f"{number} {kind} are too few: {least} for {reason}."
        for kind, number in numbers.items()
        for reason, least in wanted[kind].items()
        if least > number
    )
    return ClusterPlan(
        needs=needs,
        load=load,
        brokers=brokers,
        bookies=bookies,
        broker_memory=of_brokers.java["broker"],
        bookie_memory=of_bookies.java["bookie"],
        bundles=bundles,
        figures=figures,
        remarks=remarks,
    )


# ---------------------------------------------------------------- numbers of machines
def _wanted_brokers(needs: ClusterNeeds, load: ClusterLoad) -> dict[str, int]:
    """Return how many brokers each reason asks for."""
    cpus = needs.machines.cpus / (2 if needs.mixed else 1)
    return {
        "one may be lost": 2,
        f"{load.broker_cpus:.2g} cores of CPU": math.ceil(load.broker_cpus / (cpus * USED_PART)),
        f"{mb(load.moved_bytes_per_s)}/s over the network": math.ceil(load.moved_bytes_per_s / _network(needs)),
    }


def _wanted_bookies(needs: ClusterNeeds, load: ClusterLoad) -> dict[str, int]:
    machines = needs.machines
    cpus = machines.cpus / (2 if needs.mixed else 1)
    busiest = disk_factor(needs) * load.stored_bytes_per_s
    return {
        "one more than an entry has copies, so that one may be lost": needs.copies + 1,
        f"{load.bookie_cpus:.2g} cores of CPU": math.ceil(load.bookie_cpus / (cpus * USED_PART)),
        f"{mb(busiest)}/s to the busiest disks": math.ceil(busiest / (DISK_BYTES_PER_S[machines.disk] * USED_PART)),
        f"{mb(load.kept_bytes)} on disks": math.ceil(
            load.kept_bytes / (ledger_disks(needs) * machines.disk_bytes * FULL_PART)
        ),
    }


def disk_factor(needs: ClusterNeeds) -> int:
    """Return how often a bookie's busiest disk gets each entry: journal and ledger share it if it is the only one."""
    return 2 if needs.machines.disks == 1 else 1


def _network(needs: ClusterNeeds) -> float:
    """Return the bytes per second that a machine may move, both directions together."""
    return needs.machines.network_gbps * 1e9 / 8 * 2 * USED_PART


def ledger_disks(needs: ClusterNeeds) -> int:
    """Return how many disks of a bookie hold ledgers: all, or all but the journal's."""
    return max(1, needs.machines.disks - 1)


def _divided(needs: ClusterNeeds, brokers: int, bookies: int) -> tuple[int, int]:
    """Return how many machines run brokers, and how many bookies: all of them, in the proportion of what is wanted.

    Raises InvalidInput if they are too few to store an entry.
    """
    count, copies = needs.machines.count, needs.copies
    of_brokers = of_bookies = count
    if not needs.mixed:
        least, most = min(copies + 1, count - 1), max(count - 2, 1)
        of_bookies = min(max(round(count * bookies / (brokers + bookies)), least), max(least, most))
        of_brokers = max(count - of_bookies, 0)
    if not of_brokers or of_bookies < copies:
        raise InvalidInput(
            f"tuning: {count} machines leave {of_bookies} bookies for {copies} copies of each entry.",
            "Give more machines, or let each run both with --mixed.",
        )
    return of_brokers, of_bookies


def _because(number: int, wanted: dict[str, int], needs: ClusterNeeds) -> str:
    reason, least = max(wanted.items(), key=lambda item: item[1])
    whose = "all machines, which run both" if needs.mixed else "the machines, divided by need"
    return f"{whose}; at least {least}: {reason}" if number >= least else f"{least} would be needed: {reason}"


def _why_bundles(brokers: int, bundles: int) -> str:
    if bundles == USUAL_BUNDLES:
        return f"enough for {brokers} brokers: partitions of a lane are in 4 bundles"
    return f"with fewer, the partitions of a lane are in 4 bundles and use 4 of {brokers} brokers (CRC32)"


def _why_writes(needs: ClusterNeeds) -> str:
    if needs.machines.disks == 1:
        return "of a bookie: each entry goes to the journal and to a ledger, on one disk"
    return "of a bookie: the journal, which each entry goes to"


# ---------------------------------------------------------------- figures
def _load_figures(needs: ClusterNeeds, load: ClusterLoad) -> dict[str, Figure]:
    chunk = f"{needs.targets_per_s:,.0f} targets/s in envelopes of {needs.chunk}"
    return {
        "envelopes per s": Figure(load.envelopes_per_s, chunk),
        "envelope": Figure(f"{load.envelope_bytes:,} bytes", f"{needs.chunk} x {needs.target_bytes} bytes and a head"),
        "to brokers": Figure(
            f"{mb(load.in_bytes_per_s)}/s", "lanes and outcomes, of 200 bytes an envelope", assumed=True
        ),
        "to bookies": Figure(f"{mb(load.stored_bytes_per_s)}/s", f"the same, {needs.copies} copies"),
        "entries per s": Figure(load.entries_per_s, "small envelopes share one", assumed=True),
    }


def _memory_figures(needs: ClusterNeeds, broker: MemorySplit, bookie: MemorySplit) -> dict[str, Figure]:
    halves = "half of what the system leaves is page cache, half is Java; heap is a third of it"
    if needs.mixed:
        return {"memory of a machine": Figure(_split(broker), halves)}
    return {
        "memory of a broker": Figure(_split(broker), "three quarters are Java: a broker reads no files", assumed=True),
        "memory of a bookie": Figure(_split(bookie), halves),
    }


def _split(split: MemorySplit) -> str:
    parts = [f"system {split.system_bytes / GIB:.3g}"]
    for name, java in split.java.items():
        heap, direct = java.heap_bytes / GIB, java.direct_bytes / GIB
        parts.append(f"{name} {java.total_bytes / GIB:.3g} ({heap:.3g} + {direct:.3g})")
    return ", ".join([*parts, f"page cache {split.page_cache_bytes / GIB:.3g} GiB"])


def _share_figures(needs: ClusterNeeds, load: ClusterLoad, brokers: int, bookies: int) -> dict[str, Figure]:
    kept, gbps = load.kept_bytes / bookies, load.moved_bytes_per_s / brokers * 8 / 1e9
    cores = "cores at the busiest time, by measured costs"
    days = f"{OUTCOME_DAYS} days of outcomes at {BUSY_PART:.0%} of the busiest rate"
    return {
        "CPU of a broker": Figure(load.broker_cpus / brokers, cores),
        "CPU of a bookie": Figure(load.bookie_cpus / bookies, cores),
        "network of a broker": Figure(f"{gbps:.2g} Gbps", "in, out and to all copies"),
        "writes to the busiest disk": Figure(
            f"{mb(disk_factor(needs) * load.stored_bytes_per_s / bookies)}/s", _why_writes(needs)
        ),
        "kept on a bookie": Figure(mb(kept), f"{needs.backlog_targets:,.0f} targets that wait; {days}", assumed=True),
    }
