"""Sizes follow from the load: the example of the source comes out, and more load never asks for less."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from estate.sizing.load import load_of
from estate.sizing.memory import split_memory
from estate.sizing.needs import GIB, MIB, ClusterNeeds, DiskKind, Machines, parse_machines
from estate.sizing.plan import ClusterPlan, plan_cluster
from estate.sizing.settings import bookie_settings, broker_settings

MACHINES = parse_machines("3x32GiB,8cpu,nvme")
NEEDS = ClusterNeeds(targets_per_s=50_000, machines=MACHINES, mixed=True)


@st.composite
def needs(draw: st.DrawFn) -> ClusterNeeds:
    machines = Machines(
        count=draw(st.integers(7, 60)),
        memory_bytes=draw(st.integers(1, 512)) * GIB,
        cpus=draw(st.integers(1, 128)),
        disk=draw(st.sampled_from(DiskKind)),
        disks=draw(st.integers(1, 8)),
    )
    return ClusterNeeds(
        targets_per_s=draw(st.floats(1, 1e7)),
        machines=machines,
        chunk=draw(st.integers(1, 500)),
        target_bytes=draw(st.integers(1, 2_000)),
        copies=draw(st.integers(1, 5)),
        lanes=draw(st.integers(1, 100_000)),
        backlog_targets=draw(st.floats(1, 1e10)),
        mixed=draw(st.booleans()),
    )


def test_a_machine_of_128_gb_is_divided_as_in_the_source() -> None:
    split = split_memory(128 * GIB, broker=True, bookie=True)
    of_broker, of_bookie = split.java["broker"], split.java["bookie"]
    shares = (split.system_bytes, of_broker.total_bytes, of_bookie.total_bytes, split.page_cache_bytes)
    assert [share // GIB for share in shares] == [2, 31, 32, 63]
    assert (of_broker.heap_bytes // GIB, of_broker.direct_bytes // GIB) == (10, 21)
    assert (of_bookie.heap_bytes // GIB, of_bookie.direct_bytes // GIB) == (10, 22)


@given(st.integers(1, 1024), st.booleans(), st.booleans())
def test_the_parts_of_a_machine_are_its_memory(gib: int, broker: bool, bookie: bool) -> None:
    split = split_memory(gib * GIB, broker=broker, bookie=bookie or not broker)
    java = [part.total_bytes for part in split.java.values()]
    assert split.system_bytes + sum(java) + split.page_cache_bytes == gib * GIB
    assert all(part > 0 for part in (*java, split.system_bytes, split.page_cache_bytes))


def test_large_envelopes_are_read_ahead_as_the_local_stack_does() -> None:
    settings = bookie_settings(plan_cluster(NEEDS))
    assert settings["dbStorage_readAheadCacheBatchSize"].value == 100
    assert settings["dbStorage_readAheadCacheBatchBytesSize"].value == 2 * MIB


@given(needs())
def test_caches_fit_into_direct_memory_and_every_figure_has_a_reason(need: ClusterNeeds) -> None:
    plan = plan_cluster(need)
    brokers, bookies = broker_settings(plan), bookie_settings(plan)
    assert all(figure.reason for figures in (plan.figures, brokers, bookies) for figure in figures.values())
    used = sum(int(brokers[name].value) for name in BROKER_CACHES) * MIB
    assert used <= plan.broker_memory.direct_bytes
    caches = sum(int(bookies[name].value) for name in BOOKIE_CACHES) * MIB
    assert caches + int(bookies["dbStorage_rocksDB_blockCacheSize"].value) <= plan.bookie_memory.direct_bytes
    read_ahead = int(bookies["dbStorage_readAheadCacheBatchBytesSize"].value)
    assert 2 * read_ahead <= int(bookies["dbStorage_readAheadCacheMaxSizeMb"].value) * MIB


BROKER_CACHES = ("managedLedgerCacheSizeMB", "maxMessagePublishBufferSizeInMB", "managedLedgerMaxReadsInFlightSizeInMB")
BOOKIE_CACHES = ("dbStorage_writeCacheMaxSizeMb", "dbStorage_readAheadCacheMaxSizeMb")


@given(needs(), st.floats(1, 100))
def test_more_load_never_asks_for_less_and_never_for_the_machines_that_are_not_there(
    need: ClusterNeeds, times: float
) -> None:
    plan, busier = plan_cluster(need), plan_cluster(replace(need, targets_per_s=need.targets_per_s * times))
    assert plan.enough >= busier.enough
    assert busier.load.stored_bytes_per_s >= plan.load.stored_bytes_per_s
    total = need.machines.count * (2 if need.mixed else 1)
    assert plan.brokers + plan.bookies == total


@given(needs())
def test_a_plan_that_is_enough_can_lose_a_broker_and_a_bookie(need: ClusterNeeds) -> None:
    plan = plan_cluster(need)
    if plan.enough:
        assert plan.brokers >= 2
        assert plan.bookies >= need.copies + 1


def remarks(plan: ClusterPlan) -> str:
    return " ".join(plan.remarks)


def test_what_is_too_few_is_said_with_its_reason() -> None:
    three = plan_cluster(replace(NEEDS, mixed=False))
    assert "1 brokers are too few: 2 for one may be lost" in remarks(three) or "bookies are too few" in remarks(three)
    slow = replace(NEEDS, targets_per_s=5e6, machines=parse_machines("3x32GiB,8cpu,hdd"))
    assert "to the busiest disks" in remarks(plan_cluster(slow))


def test_more_than_four_brokers_have_64_bundles() -> None:
    assert plan_cluster(NEEDS).bundles == 4
    assert plan_cluster(replace(NEEDS, machines=replace(MACHINES, count=6))).bundles == 64


def test_small_envelopes_share_entries_and_large_ones_do_not() -> None:
    assert load_of(replace(NEEDS, chunk=1)).entry_bytes > 50 * 64
    assert load_of(NEEDS).entry_bytes == load_of(NEEDS).envelope_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3x32GiB,8cpu,nvme", {"count": 3, "memory_bytes": 32 * GIB, "cpus": 8, "disk": "nvme", "disks": 1}),
        ("128GiB,32cpu,2xssd,4TB,25Gbps,2numa", {"count": 1, "disks": 2, "disk_bytes": 4e12, "network_gbps": 25.0}),
    ],
)
def test_machines_are_read(text: str, expected: dict[str, object]) -> None:
    machines = parse_machines(text)
    assert {name: getattr(machines, name) for name in expected} == expected


@pytest.mark.parametrize(
    "text",
    ["", "3", "3x32GB,8cpu", "3x32GiB", "0x32GiB,8cpu", "1x32GiB,0cpu", "1x0GiB,8cpu", "1x8GiB,8cpu,tape",
     "1x8GiB,8cpu,ssd,nvme", "1x8GiB,2cpu,4numa", "1x8GiB,8cpu,0TB", "1x8GiB,8cpu,0xssd"],
)  # fmt: skip
def test_what_are_no_machines_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match="machines") as error:
        parse_machines(text)
    assert "3x32GiB,8cpu,nvme" in error.value.next_step


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"targets_per_s": 0.0}, "targets_per_s"),
        ({"targets_per_s": float("nan")}, "targets_per_s"),
        ({"chunk": 501}, "at most 500"),
        ({"target_bytes": 2_000_000}, "do not fit"),
        ({"copies": 6}, "copies"),
        ({"machines": replace(MACHINES, count=1), "mixed": False}, "Give more|1 machines leave"),
        ({"machines": replace(MACHINES, count=1)}, "1 machines leave 1 bookies for 2 copies"),
    ],
)
def test_needs_that_cannot_be_met_are_refused(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        plan_cluster(replace(NEEDS, **wrong))  # type: ignore[arg-type]  # of any kind
