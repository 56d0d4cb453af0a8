"""A cluster that was started with the files of a plan: doctor takes it, it grows, and its brokers are told apart.

These servers have the plan's settings alone, and not those of the local stack.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.provision import Finding
from backends.system_clock import SystemClock
from benchmarks.estate.servers import EstateServers
from benchmarks.estate.steady_lanes import steady_lanes
from dispatcher.wire.topics import Topics
from fairlane.checks.doctor import examine
from fairlane.cli.base import exit_codes
from fairlane.cli.main import run
from fairlane.estate.view import EstateView, EstateViewer
from fairlane.isolation import environment
from fairlane.settings import Settings
from fairlane.stack.errors import StackError
from fairlane.stack.estate.shape import EstateShape
from fairlane.stack.homes import default_cache
from tests.conftest import GIVEN, settings_for, small_tenant
from tests.integration.pulsar_helpers import eventually

pytestmark = [pytest.mark.alone, pytest.mark.needs_stack, pytest.mark.timeout(600)]

TENANT = "t-planned"
LANES = 8
SHAPE = EstateShape(bookies=3, brokers=2)
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"


@dataclass(frozen=True)
class Planned:
    """An estate, and the folder of the plan that it was started with."""

    estate: EstateServers
    folder: Path

    @property
    def settings(self) -> Settings:
        here = self.estate.addresses
        settings = settings_for(here, TENANT)
        of_estate = settings.estate.model_copy(update={"bookie_http": here.bookie_http})
        return settings.model_copy(update={"estate": of_estate})

    def restart_with(self, lines: str, *brokers: str) -> None:
        """Add lines to the file of the brokers, and start these again."""
        with (self.folder / "broker.conf").open("a") as file:
            file.write(lines)
        for broker in brokers:
            self.estate.terminate(broker)
        self.estate.start_missing()

    def findings(self) -> list[Finding]:
        """Return what doctor finds once both brokers answer it in time, which servers that just started may not."""
        found: list[Finding] = []

        def all_answered() -> bool:
            found[:] = examine(self.settings, SystemClock())
            return not any(one.what.endswith("does not answer") for one in found)

        eventually(all_answered, "answers of all brokers")
        return found


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    folder = tmp_path_factory.mktemp("plan")
    needs = ["--targets-per-s", "10k", "--machines", "3x3GiB,2cpu,nvme", "--mixed"]
    assert run(["tune", "cluster", *needs, "--write", str(folder)]) == exit_codes.OK
    home = tmp_path_factory.mktemp("planned estate")
    try:
        estate = EstateServers(home, default_cache(GIVEN), os.environ, small_tenant(TENANT), SHAPE, folder)
    except StackError as error:
        if GIVEN.get("CI") == "true":
            raise
        pytest.skip(f"no servers: {error}")
    yield Planned(estate, folder)
    estate.stop()


def test_a_cluster_that_was_started_with_the_files_of_a_plan_passes_doctor(planned: Planned) -> None:
    found = planned.findings()
    assert [one.what for one in found if one.level == "fail"] == []
    of_this_machine = "writes to the metadata store are slow"
    assert [one.what for one in found if one.level == "warn" and one.what != of_this_machine] == []
    [nodes] = [one for one in found if one.what.startswith("the nodes that answered")]
    assert nodes.figure == "2 of 2 brokers, 3 of 3 bookies"


def test_an_added_bookie_gets_its_part_of_the_standing_topics_while_lanes_are_published_to(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    with steady_lanes(planned.settings.pulsar, LANES) as lanes:
        planned.estate.start_missing(EstateShape(bookies=4, brokers=2))
        use(planned.settings, monkeypatch)
        run_until_it_succeeds("spread")
        lanes.wait_for_all()
        lanes.check_nothing_lost()
    settings = planned.settings.pulsar
    names = Topics(settings.tenant, settings.namespaces, settings.shared_lanes, settings.outcome_partitions)
    ensembles = [newest_ensemble(planned.settings, topic) for topic in names.standing_lanes()]
    assert planned.estate.bookie_id("bookie-4") in {bookie for ensemble in ensembles for bookie in ensemble}
    assert all(len(ensemble) == 2 for ensemble in ensembles)


def use(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands use these settings."""
    sizes = {
        "FAIRLANE_PULSAR_SHARED_LANES": str(settings.pulsar.shared_lanes),
        "FAIRLANE_PULSAR_OUTCOME_PARTITIONS": str(settings.pulsar.outcome_partitions),
    }
    for name, value in {**environment(settings), **sizes}.items():
        monkeypatch.setenv(name, value)


def run_until_it_succeeds(*arguments: str) -> None:
    """Run a command of `fairlane estate`, again if a broker of a busy machine did not answer in time."""
    deadline_s = time.monotonic() + 90
    while run(["estate", *arguments]) != exit_codes.OK:
        assert time.monotonic() < deadline_s, f"estate {' '.join(arguments)} does not succeed"


def newest_ensemble(settings: Settings, topic: str) -> set[str]:
    """The bookies that store the newest entries of a topic."""
    with closing(PulsarAdmin(settings.pulsar)) as admin:
        path = topic.replace("persistent://", "persistent/")
        ledgers = admin.document(f"{path}/internalStats?metadata=true")["ledgers"]
    [*_, last] = re.findall(r"\d+=\[([^\]]*)\]", ledgers[-1]["metadata"])
    return set(last.replace(" ", "").split(","))


def test_a_setting_that_differs_between_brokers_is_a_finding(planned: Planned) -> None:
    planned.restart_with("dispatcherMaxReadBatchSize=50\n", "broker-2")
    [differ] = [one for one in planned.findings() if one.what.startswith("settings differ")]
    assert differ.level == "warn"
    assert "dispatcherMaxReadBatchSize" in f"{differ.what} {differ.figure}"


def test_with_the_extensible_load_manager_brokers_are_shown(planned: Planned) -> None:
    """The last one: its load manager cannot run beside the other."""
    planned.restart_with(f"loadManagerClassName={EXTENSIBLE}\n", "broker-1", "broker-2")
    with steady_lanes(planned.settings.pulsar, LANES), EstateViewer(planned.settings) as viewer:
        looks: list[EstateView] = []

        def all_answered() -> bool:
            looks.append(viewer.look())
            states = {row["state"] for row in looks[-1].brokers}
            return looks[-1].metadata["load_manager"] == "extensible" and states == {"leader", "up"}

        eventually(all_answered, "answers of both brokers, with the other load manager")
    assert all(row["cpu"] is not None for row in looks[-1].brokers)
