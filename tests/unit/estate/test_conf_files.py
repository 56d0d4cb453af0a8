"""The files of a plan: properties with their reasons, and units that systemd takes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from estate.sizing.conf_files import Site, files_of
from estate.sizing.needs import ClusterNeeds, parse_machines
from estate.sizing.plan import plan_cluster

NUMA = ClusterNeeds(targets_per_s=1e6, machines=parse_machines("4x128GiB,32cpu,3xnvme,2numa"), mixed=True)
SMALL = ClusterNeeds(targets_per_s=1e3, machines=parse_machines("5x4GiB,2cpu,ssd"))
SITE = Site(cluster="eu", zookeeper="zk-1:2181,zk-2:2181")


def properties(text: str) -> dict[str, str]:
    pairs = [line.partition("=") for line in text.splitlines() if line and not line.startswith("#")]
    assert len({name for name, _, _ in pairs}) == len(pairs)
    return {name: value for name, _, value in pairs}


@pytest.mark.parametrize("needs", [NUMA, SMALL], ids=["numa", "small"])
def test_every_setting_has_its_reason_above_it(needs: ClusterNeeds) -> None:
    files = files_of(plan_cluster(needs), SITE)
    for name in ("broker.conf", "bookkeeper.conf", "zookeeper.conf", "autorecovery.conf"):
        lines = files[name].splitlines()
        settings = [at for at, line in enumerate(lines) if not line.startswith("#")]
        assert len(settings) == len(properties(files[name]))
        assert all(lines[at - 1].startswith("# ") for at in settings)


def test_addresses_and_directories_are_those_of_the_site_and_the_disks() -> None:
    files = files_of(plan_cluster(NUMA), SITE)
    broker, bookie = properties(files["broker.conf"]), properties(files["bookkeeper.conf"])
    assert (broker["clusterName"], broker["metadataStoreUrl"]) == ("eu", "zk:zk-1:2181,zk-2:2181")
    assert bookie["zkServers"] == "zk-1:2181,zk-2:2181"
    assert bookie["journalDirectories"] == "/data/1/journal"
    assert bookie["ledgerDirectories"] == "/data/2/ledgers,/data/3/ledgers"
    assert properties(files["zookeeper.conf"])["server.2"] == "zk-2:2888:3888"


def test_a_mixed_machine_with_two_numa_nodes_gives_one_to_each_server() -> None:
    files = files_of(plan_cluster(NUMA), SITE)
    assert "AllowedCPUs=1-15\nNUMAPolicy=bind\nNUMAMask=0\n" in files["units/pulsar-broker.service"]
    assert "AllowedCPUs=16-31\nNUMAPolicy=bind\nNUMAMask=1\n" in files["units/pulsar-bookie.service"]


def test_on_a_mixed_machine_without_numa_no_cpu_is_given_twice() -> None:
    needs = ClusterNeeds(targets_per_s=1e6, machines=parse_machines("4x64GiB,16cpu,nvme"), mixed=True)
    files = files_of(plan_cluster(needs), SITE)
    used = [_cpus(files[f"units/pulsar-{role}.service"]) for role in ("broker", "bookie")]
    assert used[0] | used[1] == set(range(1, 16))
    assert not used[0] & used[1]


def _cpus(unit: str) -> set[int]:
    [text] = [line.partition("=")[2] for line in unit.splitlines() if line.startswith("AllowedCPUs=")]
    first, _, last = text.partition("-")
    return set(range(int(first), int(last or first) + 1))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("needs", [NUMA, SMALL], ids=["numa", "small"])
def test_systemd_takes_the_units(needs: ClusterNeeds, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "pulsar"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    files = files_of(plan_cluster(needs), Site(distribution=str(tmp_path)))
    units = {name: text for name, text in files.items() if name.startswith("units/")}
    assert len(units) == 4
    for name, text in units.items():
        unit = tmp_path / Path(name).name
        unit.write_text(text)
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
