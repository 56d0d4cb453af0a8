"""A cluster with the settings of `tune cluster`: doctor accepts it, it grows, it loses a rack, its brokers differ.

The settings are those of a plan for the memory that the servers of the local stack have.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import connect, topics
from backends.system_clock import SystemClock
from benchmarks.estate.servers import SHAPE, EstateServers
from benchmarks.estate.steady_lanes import steady_lanes
from dispatcher.analysis.finding import Finding
from dispatcher.wire.topics import Topics
from estate.facts.bundles import BundleAdmin
from estate.facts.provision import provision_estate
from estate.sizing.figures import texts_of
from estate.sizing.memory import JavaMemory
from estate.sizing.needs import MIB, ClusterNeeds, parse_machines
from estate.sizing.plan import plan_cluster
from estate.sizing.settings import bookie_settings, broker_settings
from estate.view import EstateView, EstateViewer
from fairlane.checks.doctor import examine
from fairlane.cli.base import exit_codes
from fairlane.cli.main import run
from fairlane.local_stack import cache_folder
from fairlane.settings import Settings
from lab.isolation import isolated, provisioned
from lab.stack.estate.shape import EstateShape
from tests.actors import running
from tests.conftest import GIVEN, settings_for, skipped_without, small_tenant
from tests.integration.pulsar_helpers import bookies_of, eventually
from tests.integration.worker_crew import let_commands_use

pytestmark = [pytest.mark.alone, pytest.mark.needs_stack, pytest.mark.timeout(600)]

TENANT = "t-tuned"
LANES = 8
RACKS = {"/r1": ("bookie-1",), "/r2": ("bookie-2", "bookie-3", "bookie-4")}
BROKER_MEMORY, BOOKIE_MEMORY = JavaMemory(256 * MIB, 256 * MIB), JavaMemory(128 * MIB, 160 * MIB)
"""Memory of a server of the local stack."""
OBSERVED_S = 5.0
WORST_PAUSE_S = 6.0
"""Asked is 1 s on a machine at rest; a bookie that hangs costs 5.5 s."""
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"


@dataclass(frozen=True)
class Tuned:
    """An estate with the settings of a plan."""

    estate: EstateServers

    @property
    def settings(self) -> Settings:
        here = self.estate.addresses
        settings = settings_for(here, TENANT)
        of_estate = settings.estate.model_copy(update={"bookie_http": here.bookie_http})
        return settings.model_copy(update={"estate": of_estate})

    def restart_with(self, name: str, value: str, *brokers: str) -> None:
        """Set one setting of brokers, and start these again."""
        self.estate.broker_settings[name] = value
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
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tuned]:
    plan = plan_cluster(ClusterNeeds(targets_per_s=1e4, machines=parse_machines("3x3GiB,2cpu,nvme"), mixed=True))
    small = replace(plan, broker_memory=BROKER_MEMORY, bookie_memory=BOOKIE_MEMORY, brokers=SHAPE.brokers)
    brokers, bookies = texts_of(broker_settings(small)), texts_of(bookie_settings(small))
    del bookies["autoRecoveryDaemonEnabled"]  # no unit of its own does that work here
    home = tmp_path_factory.mktemp("tuned estate")
    with skipped_without("servers"):
        estate = EstateServers(home, cache_folder(GIVEN), os.environ, small_tenant(TENANT), SHAPE, brokers, bookies)
    yield Tuned(estate)
    estate.stop()


def test_a_cluster_with_the_settings_of_a_plan_passes_doctor(tuned: Tuned) -> None:
    found = tuned.findings()
    assert [one.what for one in found if one.level == "fail"] == []
    of_this_machine = "writes to the metadata store are slow"
    assert [one.what for one in found if one.level == "warn" and one.what != of_this_machine] == []
    [nodes] = [one for one in found if one.what.startswith("the nodes that answered")]
    assert nodes.figure == "2 of 2 brokers, 3 of 3 bookies"


def test_an_added_bookie_gets_its_part_of_the_standing_topics_while_lanes_are_published_to(
    tuned: Tuned, monkeypatch: pytest.MonkeyPatch
) -> None:
    with steady_lanes(tuned.settings.pulsar, LANES) as lanes:
        tuned.estate.start_missing(EstateShape(bookies=4, brokers=2))
        let_commands_use(tuned.settings, monkeypatch)
        run_until_it_succeeds("spread")
        lanes.wait_for_all()
        lanes.check_nothing_lost()
    settings = tuned.settings.pulsar
    names = Topics(settings.tenant, settings.namespaces, settings.shared_lanes, settings.outcome_partitions)
    with closing(PulsarAdmin(settings)) as admin:
        ensembles = [bookies_of(admin, topic) for topic in names.standing_lanes()]
    assert tuned.estate.bookie_id("bookie-4") in {bookie for ensemble in ensembles for bookie in ensemble}
    assert all(len(ensemble) == 2 for ensemble in ensembles)


def run_until_it_succeeds(*arguments: str) -> None:
    """Run a command of `fairlane estate`, again if a broker of a busy machine did not answer in time."""
    deadline_s = time.monotonic() + 90
    while run(["estate", *arguments]) != exit_codes.OK:
        assert time.monotonic() < deadline_s, f"estate {' '.join(arguments)} does not succeed"


def test_a_lost_rack_stops_no_lane_for_long_and_loses_nothing(tuned: Tuned) -> None:
    """One copy of every entry is in each of two racks, and the only bookie of one is killed."""
    estate, settings = tuned.estate, tuned.settings
    racks = {estate.bookie_id(name): rack for rack, names in RACKS.items() for name in names}
    provision_estate(settings.pulsar, settings.estate.model_copy(update={"racks": racks}))
    own = isolated(settings, "racks", namespaces=4)
    with provisioned(own), steady_lanes(own.pulsar, LANES) as lanes:
        with lanes.longest_pause() as pause:
            for bookie in RACKS["/r1"]:
                estate.kill(bookie)
            time.sleep(OBSERVED_S)
        assert lanes.stored().lost == 0
    estate.start_missing()
    print(f"longest pause of a lane when a rack is lost: {pause.seconds:.2f} s")
    assert pause.seconds < WORST_PAUSE_S


def test_a_slow_bookie_does_not_fill_the_brokers_direct_memory(tuned: Tuned) -> None:
    """Receipts follow two of three copies. Entries wait in the brokers for the third, which a slow bookie stores.

    Without the setting the brokers ran out of direct memory in three of four runs.
    """
    tuned.restart_with("bookkeeper_waitTimeoutOnBackpressureMs", "1000", "broker-1", "broker-2")
    settings, slow = tuned.settings, tuned.estate.bookie_id("bookie-2")
    looks: list[EstateView] = []
    with copies(settings, 3, 3, 2), EstateViewer(settings) as viewer, tuned.estate.slowed("bookie-2"):

        def look(stop: threading.Event) -> None:
            while not stop.wait(1.0):
                looks.append(viewer.look())

        with running(look):
            lost = flood(settings, 2 * publish_buffer_bytes(settings))
            named = f"bookie {slow} is slow"
            eventually(lambda: any(named in one for view in looks for one in view.wrong), named)
    assert lost == 0
    shares = [row["direct_memory"] for view in looks for row in view.brokers if row["direct_memory"] is not None]
    print(f"{publish_buffer_bytes(settings) >> 20} MiB of buffer, {max(shares):.2f} of direct memory used at most")
    assert 0 < max(shares) < 0.9


@contextmanager
def copies(settings: Settings, *sizes: int) -> Iterator[None]:
    """Give new ledgers these sizes of ensemble, write quorum and ack quorum."""
    names = ("ensemble", "write_quorum", "ack_quorum")
    for_now = settings.estate.model_copy(update=dict(zip(names, sizes, strict=True)))
    usual = settings.estate.model_copy(update=dict.fromkeys(names, 2))
    provision_estate(settings.pulsar, for_now)
    yield
    provision_estate(settings.pulsar, usual)


def publish_buffer_bytes(settings: Settings) -> int:
    """Return the memory that a broker takes for messages that have no receipt yet."""
    with closing(PulsarAdmin(settings.pulsar)) as admin:
        return int(admin.document("brokers/configuration/runtime")["maxMessagePublishBufferSizeInMB"]) * 2**20


def flood(settings: Settings, size: int) -> int:
    """Publish this many bytes to new lanes as fast as they are taken. Return the number of messages not stored."""
    body, results = os.urandom(2**15), Counter[Any]()
    lanes = [topics(settings.pulsar).own_lane(f"flood-{number}") for number in range(LANES)]
    numbers = range(size // len(body) // LANES)
    with closing(PulsarAdmin(settings.pulsar)) as admin:
        for lane in lanes:
            admin.create_lane(lane)
    with closing(connect(settings.pulsar)) as client:
        producers = [
            client.create_producer(lane, send_timeout_millis=0, block_if_queue_full=True, batching_enabled=False)
            for lane in lanes
        ]
        for number in numbers:
            for producer in producers:
                message = number.to_bytes(4) + body
                producer.send_async(message, lambda result, _: results.update([result]))
        for producer in producers:
            producer.flush()
        assert results == {pulsar.Result.Ok: len(numbers) * LANES}
        return sum(len({*numbers} - numbers_in(client, lane)) for lane in lanes)


def numbers_in(client: pulsar.Client, lane: str) -> set[int]:
    found = set[int]()
    with closing(client.create_reader(lane, pulsar.MessageId.earliest)) as reader:
        while reader.has_message_available():
            found.add(int.from_bytes(reader.read_next(20_000).data()[:4]))
    return found


def test_a_setting_that_differs_between_brokers_is_a_finding(tuned: Tuned) -> None:
    tuned.restart_with("dispatcherMaxReadBatchSize", "50", "broker-2")
    [differ] = [one for one in tuned.findings() if one.what.startswith("settings differ")]
    assert differ.level == "warn"
    assert "dispatcherMaxReadBatchSize" in f"{differ.what} {differ.figure}"


def test_with_the_extensible_load_manager_brokers_are_shown_and_drained(
    tuned: Tuned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one: its load manager cannot run beside the other."""
    tuned.restart_with("loadManagerClassName", EXTENSIBLE, "broker-1", "broker-2")
    with steady_lanes(tuned.settings.pulsar, LANES) as lanes, EstateViewer(tuned.settings) as viewer:
        looks: list[EstateView] = []

        def all_answered() -> bool:
            looks.append(viewer.look())
            states = {row["state"] for row in looks[-1].brokers}
            return looks[-1].metadata["load_manager"] == "extensible" and states == {"leader", "up"}

        eventually(all_answered, "answers of both brokers, with the other load manager")
        assert all(row["cpu"] is not None for row in looks[-1].brokers)
        let_commands_use(tuned.settings, monkeypatch)
        drained = tuned.estate.broker_web("broker-2")
        run_until_it_succeeds("drain", drained)
        lanes.wait_for_all()
        lanes.check_nothing_lost()
    with BundleAdmin(tuned.settings.pulsar) as bundles:
        owned = {answer.broker: answer.owned for answer in bundles.read()}
    assert [bundle for bundle in owned[drained] if bundle.startswith(f"{TENANT}/")] == []
