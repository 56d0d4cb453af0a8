"""Bundles of a real estate are drained, balanced, stopped and put back, while lanes are published to."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import close, connect
from backends.pulsar.provision import deprovision, provision
from backends.pulsar.record_producer import CHECK_S, CHECKS
from backends.settings import PulsarSettings
from benchmarks.estate.servers import EstateServers
from benchmarks.estate.steady_lanes import SteadyLanes
from dispatcher.wire.topics import Topics
from estate.facts.bundles import BundleAdmin
from estate.plans.placement import bundles_for
from fairlane.cli.base import exit_codes
from fairlane.cli.main import run
from fairlane.settings import Settings
from tests.conftest import settings_for
from tests.integration.worker_crew import environment, eventually, let_commands_use
from tests.unit.command_line import CommandLine
from tests.unit.estate.equal_bundles import name_of, spread_of_lane

LANES = 32
ANSWER_S = 5
"""The client's limit for one request. Until it is over, the client doubles the time between lookups that fail."""
WORST_PAUSE_S = (CHECKS + 1) * CHECK_S + ANSWER_S
"""Asked are 0.6 s on a machine at rest. On a busy one lookups fail for ANSWER_S. Once in some 1,500 moves of a topic a
producer never gets a receipt again, and is replaced."""
ENDS_S = 60.0


@dataclass(frozen=True)
class Moved:
    """A tenant with lanes that are published to, and the command line on it."""

    settings: Settings
    lanes: SteadyLanes
    call: Callable[..., tuple[str, str]]

    def owners(self) -> dict[str, str]:
        """Return the owner of each bundle of the tenant."""
        with BundleAdmin(self.settings.pulsar) as admin:
            return {
                bundle: answer.broker
                for answer in admin.read()
                for bundle in answer.owned
                if bundle.startswith(f"{self.settings.pulsar.tenant}/")
            }

    def owned_by(self, broker: str) -> list[str]:
        return [bundle for bundle, owner in self.owners().items() if owner == broker]


@pytest.fixture(scope="module")
def tenant(estate: EstateServers) -> Iterator[Settings]:
    """A tenant with 40 bundles and 32 lanes."""
    settings = settings_for(estate.addresses, "t-moves")
    pulsar = settings.pulsar.model_copy(update={"namespaces": 8, "bundles": 4, "shared_lanes": 4})
    provision(pulsar)
    admin = PulsarAdmin(pulsar)
    for lane in lanes_of(pulsar):
        admin.create_lane(lane)
    admin.close()
    yield settings.model_copy(update={"pulsar": pulsar})
    deprovision(pulsar)


def lanes_of(settings: PulsarSettings) -> list[str]:
    names = Topics(settings.tenant, settings.namespaces)
    return [names.own_lane(f"task-{number}") for number in range(LANES)]


@pytest.fixture
def moved(tenant: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> Iterator[Moved]:
    own, settings = tenant.pulsar, tenant.model_copy(update={"home": tmp_path / "home"})
    let_commands_use(settings, monkeypatch)

    def call(*arguments: str, code: int = exit_codes.OK) -> tuple[str, str]:
        return cli(["estate", *arguments], code)

    client = connect(own.model_copy(update={"operation_timeout_s": ANSWER_S}))
    try:
        with SteadyLanes(client, lanes_of(own)) as lanes:
            lanes.wait_for_all()
            yield Moved(settings, lanes, call)
    finally:
        close(client)


def test_a_drain_leaves_nothing_behind_and_its_undo_restores_every_owner(moved: Moved, estate: EstateServers) -> None:
    drained = estate.broker_web("broker-2")
    before = moved.owners()
    assert moved.owned_by(drained)
    with moved.lanes.longest_pause(2 * WORST_PAUSE_S) as pause:
        document = json.loads(moved.call("drain", drained, "-o", "json")[0])
    assert {move["state"] for move in document["moves"]} == {"verified"}
    assert moved.owned_by(drained) == []
    assert pause.seconds <= WORST_PAUSE_S
    moved.call("balance", "--undo")
    moves = {move["bundle"] for move in document["moves"]}
    assert {bundle: owner for bundle, owner in moved.owners().items() if bundle in moves} == {
        bundle: before[bundle] for bundle in moves & before.keys()
    }
    assert "There is no run of moves to undo" in moved.call("balance", "--undo", code=exit_codes.NOT_FOUND)[1]
    moved.lanes.check_nothing_lost()


def test_lanes_of_a_broker_that_hangs_are_published_again_and_nothing_is_lost(
    moved: Moved, estate: EstateServers, caplog: pytest.LogCaptureFixture
) -> None:
    """Their producers are replaced, since they get no receipts."""
    with estate.paused("broker-2"):
        eventually(lambda: "publishing again" in caplog.text, 2 * CHECKS * CHECK_S, "producers are replaced")
    moved.lanes.wait_for_all(ENDS_S)
    assert moved.lanes.stored().lost == 0


def test_balance_puts_every_bundle_where_the_plan_says(moved: Moved, estate: EstateServers) -> None:
    moved.call("drain", estate.broker_web("broker-1"))
    planned = json.loads(moved.call("balance", "--goal", "lanes", "--dry-run", "-o", "json")[0])
    assert planned["spread_before"] > 1
    assert moved.owned_by(estate.broker_web("broker-1")) == []
    document = json.loads(moved.call("balance", "--goal", "lanes", "-o", "json")[0])
    assert {move["state"] for move in document["moves"]} == {"verified"}
    owners = moved.owners()
    assert all(owners[move["bundle"]] == move["target"] for move in document["moves"])
    again = json.loads(moved.call("balance", "--goal", "lanes", "--dry-run", "-o", "json")[0])
    assert again["moves"] == []
    assert again["spread_before"] <= 0.1


def test_a_run_that_is_stopped_finishes_what_it_began_and_can_be_undone(moved: Moved, estate: EstateServers) -> None:
    drained = estate.broker_web("broker-2")
    moved.call("balance", "--goal", "lanes")
    before = moved.owners()
    command = [sys.executable, "-m", "fairlane", "estate", "drain", drained, "--at-once", "1", "-o", "json"]
    running = subprocess.Popen(command, env=environment(moved.settings), stdout=subprocess.PIPE, text=True)
    eventually(lambda: _stopped(moved), ENDS_S, "a run stops")
    output, _ = running.communicate(timeout=ENDS_S)
    states = {move["bundle"]: move["state"] for move in json.loads(output)["moves"]}
    assert set(states.values()) <= {"verified", "skipped"}
    assert "skipped" in states.values()
    now = moved.owners()
    kept = {bundle for bundle, state in states.items() if state == "skipped"} & before.keys()
    assert all(now[bundle] == before[bundle] for bundle in kept)
    moved.call("balance", "--undo")
    own, now = states.keys() & before.keys(), moved.owners()
    assert {bundle: now.get(bundle) for bundle in own} == {bundle: before[bundle] for bundle in own}


def _stopped(moved: Moved) -> bool:
    return run(["estate", "balance", "--stop"]) == exit_codes.OK


def test_a_second_run_on_this_machine_is_refused(moved: Moved, estate: EstateServers) -> None:
    from estate.moves.logs import MoveLogs

    with MoveLogs(moved.settings.home_folder / "moves").run():
        error = moved.call("drain", estate.broker_web("broker-2"), code=exit_codes.REFUSED)[1]
    assert "under way on this machine" in error


def test_standing_topics_begin_new_ledgers(moved: Moved) -> None:
    admin = PulsarAdmin(moved.settings.pulsar)
    control = Topics(moved.settings.pulsar.tenant).control
    before = admin.last_entry(control)
    rows = json.loads(moved.call("spread", "-o", "json")[0])
    assert {row["state"] for row in rows} == {"verified"}
    assert control in {row["topic"] for row in rows}
    assert admin.last_entry(control)[0] != before[0]
    admin.close()


def test_a_broker_that_does_not_exist_is_not_found(moved: Moved, estate: EstateServers) -> None:
    error = moved.call("drain", "nowhere:8080", code=exit_codes.NOT_FOUND)[1]
    assert estate.broker_web("broker-1") in error


def test_a_large_lane_is_in_the_bundles_that_the_rule_says(moved: Moved, estate: EstateServers) -> None:
    """Pulsar's own lookup agrees with the CRC32 of this project."""
    admin, count = PulsarAdmin(moved.settings.pulsar), bundles_for(brokers=5)
    namespace = f"{moved.settings.pulsar.tenant}/wide"
    admin.create_namespace(namespace, {"bundles": {"numBundles": count}})
    lane = f"persistent://{namespace}/large"
    admin.create_lane(lane, partitions=8)
    for number in range(8):
        admin.owner_of_topic(f"{lane}-partition-{number}")
    with BundleAdmin(moved.settings.pulsar) as bundles:
        owned = {bundle for answer in bundles.read() for bundle in answer.owned if bundle.startswith(f"{namespace}/")}
    assert owned == {f"{namespace}/{name_of(bundle)}" for bundle in spread_of_lane(lane, 8, count)}
    assert len(owned) == 8
    admin.close()
