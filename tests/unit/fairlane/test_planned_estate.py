"""The files of a plan on this machine: its settings stay, its addresses and directories are those of here."""

from pathlib import Path

import pytest

from estate.sizing.conf_files import Site, files_of
from estate.sizing.needs import ClusterNeeds, parse_machines
from estate.sizing.plan import plan_cluster
from fairlane.stack.errors import AlreadyRunning, StackError
from fairlane.stack.estate.planned import FILES, PlanFiles
from fairlane.stack.estate.shape import EstateRequest, EstateShape, kind_of
from fairlane.stack.launch import StackOptions
from fairlane.stack.stack import LocalStack
from tests.unit.estate.test_conf_files import properties
from tests.unit.fairlane.test_estate_shape import PORTS, SHAPE, stored

NEEDS = ClusterNeeds(targets_per_s=1e4, machines=parse_machines("3x4GiB,2cpu,3xnvme"), mixed=True)
NAMES = EstateShape(bookies=2, brokers=2, autorecovery=True).names()
OF_HERE = {"zookeeper": "dataDir", "bookie": "journalDirectories", "autorecovery": "zkServers", "broker": "clusterName"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in files_of(plan_cluster(NEEDS), Site()).items():
        (tmp_path / "plan" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "plan" / name).write_text(text)
    return tmp_path / "plan"


@pytest.mark.parametrize("name", NAMES)
def test_settings_of_the_plan_stay_and_no_address_or_directory_of_it_does(
    name: str, folder: Path, tmp_path: Path
) -> None:
    planned = properties((folder / FILES[kind_of(name)]).read_text())
    here = properties(PlanFiles(folder).write(name, tmp_path, PORTS).read_text())
    text = " ".join(here.values())
    assert not [word for word in ("zookeeper-", "/data/", "/var/lib", "2181", "3181", "8080") if word in text]
    changed = {setting for setting in planned if here.get(setting) != planned[setting]}
    assert OF_HERE[kind_of(name)] in changed
    words = ("Port", "Director", "Dir", "server.", "Store", "Servers", "cluster")
    assert all(any(word in setting for word in words) for setting in changed)


def test_every_ledger_directory_has_one_here(folder: Path, tmp_path: Path) -> None:
    here = properties(PlanFiles(folder).write("bookie-2", tmp_path, PORTS).read_text())
    assert here["ledgerDirectories"] == "data/ledgers,data/ledgers1"
    assert here["advertisedAddress"] == "127.0.0.3"


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_that_of_the_unit(name: str, folder: Path) -> None:
    flags = PlanFiles(folder).memory(name)
    assert [flag[:4] for flag in flags] == ["-Xms", "-Xmx", "-XX:"]


def test_a_folder_without_a_plan_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="cannot be read") as error:
        PlanFiles(tmp_path).write("broker-1", tmp_path, PORTS)
    assert "tune cluster --write" in error.value.next_step
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "pulsar-broker.service").write_text("[Unit]\n")
    with pytest.raises(StackError, match="names no memory"):
        PlanFiles(tmp_path).memory("broker-1")


def test_an_estate_that_runs_does_not_change_to_a_plan(folder: Path, tmp_path: Path) -> None:
    stored(tmp_path)
    with pytest.raises(AlreadyRunning, match="does not have the files of"):
        LocalStack(tmp_path, StackOptions(estate=EstateRequest(SHAPE).with_plan(folder))).up()
