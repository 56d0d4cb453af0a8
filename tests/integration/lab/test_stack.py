"""The real local stack: started, used, hurt, stopped, started again; beside the one the other tests use."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pulsar
import pytest
import redis

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import topics
from backends.pulsar.provision import provision
from backends.settings import PulsarSettings
from benchmarks import redis_server
from dispatcher.model.errors import NotFound, Unreachable
from dispatcher.wire.topics import SUBSCRIPTION, Topics
from fairlane import PushClient, Settings
from fairlane.cli.base import exit_codes
from fairlane.local_stack import StackAddresses, addresses_in_force, birth_of, cache_folder
from lab.stack.stack import LocalStack
from producers.desk.front_door import FrontDoor
from tests.conftest import GIVEN, settings_for
from tests.integration.worker_crew import audience, crew, eventually, on_redis, push
from tests.stack_keeper import held
from tests.unit.command_line import CommandLine
from tests.unit.web.console.console_world import Visitor, visited
from web.console.pages import PAGES

IDLE_LIMIT_BYTES = 700 * 2**20


@pytest.fixture(scope="module")
def local(stack: StackAddresses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack of this module's own, in a path with spaces; the shared one already has the usual ports, or others do."""
    home = tmp_path_factory.mktemp("stack") / "a home with spaces"
    with held(home):
        yield LocalStack(home, cache=cache_folder(GIVEN), env=GIVEN)


def pid_of(local: LocalStack, name: str) -> int:
    return int(local.status().servers[name]["pid"])


def test_up_twice_at_once_makes_one_stack(local: LocalStack) -> None:
    reported: list[str] = []
    answers: list[StackAddresses] = []
    calls = [threading.Thread(target=lambda: answers.append(local.up(reported.append))) for _ in range(2)]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert sorted(answer.already_running for answer in answers) == [False, True]
    assert len({answer.redis_url for answer in answers}) == 1
    assert addresses_in_force(local.home) is not None
    assert sum(line.startswith("starting Pulsar") for line in reported) == 1


def test_it_is_small_and_says_where_it_is(local: LocalStack, monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> None:
    local.up()
    assert 0 < local.status().servers["pulsar"]["memory_bytes"] < IDLE_LIMIT_BYTES
    monkeypatch.setenv("FAIRLANE_HOME", str(local.home))
    shown = json.loads(cli(["stack", "status", "-o", "json"]).out)
    assert shown["running"] is True
    assert shown["pulsar"]["version"] == "4.0.8"
    assert {"broker", "web", "bookie"} == set(shown["pulsar"]["ports"])
    sources = {row["name"]: row["source"] for row in json.loads(cli(["config", "show", "-o", "json"]).out)}
    assert sources["pulsar.url"] == sources["redis.url"] == "local stack"
    cli(["doctor"])
    assert "nothing to change" in cli(["provision"]).err


def test_with_its_redis_dead_commands_ask_no_other_and_say_which(
    local: LocalStack, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    addresses = local.up()
    monkeypatch.setenv("FAIRLANE_HOME", str(local.home))
    with PushClient.connect(Settings()) as client:
        client.submit(push(id="alive", channel="null"), ["t"])
    os.kill(pid_of(local, "redis"), signal.SIGKILL)
    eventually(lambda: not local.status().running, 20, "Redis is dead")

    with redis_server.running(port=int(addresses.redis_url.rpartition(":")[2].partition("/")[0])):
        printed = cli(["task", "show", "alive"], exit_codes.UNREACHABLE).err
        assert f"Redis of the local stack ({addresses.redis_url}) is not running. Run `fairlane stack up`." in printed
        cli(["worker"], exit_codes.UNREACHABLE)
        found = cli(["doctor"], exit_codes.FAILURE).out
        assert addresses.redis_url in found
        assert addresses.pulsar_url in found
        again = local.up()
        assert again.redis_url != addresses.redis_url
        cli(["task", "show", "alive"])
    os.kill(pid_of(local, "redis"), signal.SIGKILL)
    eventually(lambda: not local.status().running, 20, "Redis is dead")
    assert local.up().redis_url == again.redis_url


@pytest.mark.timeout(240)
def test_a_broker_that_is_killed_is_started_again_and_nothing_is_lost_or_sent_twice(
    local: LocalStack, tmp_path: Path
) -> None:
    """In the middle of sending: receipts and acknowledgements are lost, and no target is sent twice for that."""
    addresses = local.up()
    survivor = pid_of(local, "redis")
    send(addresses, b"kept")
    settings = settings_for(addresses, "fairlane")
    with crew(settings, tmp_path, "w1", "w2") as members, PushClient.connect(settings) as client:
        client.set_capacity(1_000)
        handles = {
            tier: client.submit(push(tier=tier, expected_targets=4_000), audience(4_000, tier))
            for tier in ("high", "medium", "low")
        }
        eventually(lambda: handles["high"].progress().targets.sent > 2_000, 30, "it is in full swing")
        os.kill(pid_of(local, "pulsar"), signal.SIGKILL)
        eventually(lambda: not local.status().running, 20, "Pulsar is dead")
        assert local.up().pulsar_url == addresses.pulsar_url
        assert pid_of(local, "redis") == survivor
        for tier, handle in handles.items():
            members.check_sent_once(handle, audience(4_000, tier), 120)
        again = client.submit(push(), audience(100, "again"))
        assert again.wait(60).targets.sent == 100
        assert [members.leave(name) for name in ("w1", "w2")] == [0, 0]
    assert receive(addresses) == b"kept"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("emptied", [False, True], ids=["with its data", "emptied"])
def test_a_broker_that_is_killed_while_redis_is_gone_sends_nothing_twice(
    local: LocalStack, tmp_path: Path, emptied: bool
) -> None:
    """The broker forgets acknowledgements and its counts of deliveries, so only the ledger knows what was sent."""
    durable = ("--appendonly", "yes", "--dir", str(tmp_path))
    with redis_server.running(*durable) as server:
        settings = on_redis(settings_for(local.up(), tmp_path.name[-32:]), server.url)  # one Redis for each tenant
        eventually(lambda: provisioned(settings), 60, "the broker provisions; one that was just killed may refuse")
        with crew(settings, tmp_path / "crew", "w1", "w2") as members, PushClient.connect(settings) as client:
            client.set_capacity(3_000)
            going = client.submit(push(expected_targets=30_000), audience(30_000))
            eventually(lambda: going.progress().targets.sent > 9_000, 30, "it is in full swing")
            server.kill()
            os.kill(pid_of(local, "pulsar"), signal.SIGKILL)
            eventually(lambda: not local.status().running, 20, "Pulsar is dead")
            with suppress(Unreachable):
                local.up()
            local.up()  # a broker that was just killed may refuse to provision at first
            give_up_s = time.monotonic() + 20  # clients wait longer and longer before they connect again
            eventually(
                lambda: unacknowledged(settings, going.id) > 0 or time.monotonic() > give_up_s,
                30,
                "the workers are sent the lane again",
            )
            sent_s = time.monotonic()
            eventually(lambda: time.monotonic() > sent_s + 2.0, 5, "there was time to send some of it")
            with redis_server.running(*([] if emptied else durable), port=server.port):
                members.check_sent_once(going, audience(30_000), 150)
                assert [members.leave(name) for name in ("w1", "w2")] == [0, 0]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
async def test_console_says_on_every_page_that_pulsar_does_not_answer_until_it_does(
    local: LocalStack, tmp_path: Path, how: signal.Signals
) -> None:
    settings = settings_for(local.up(), "fairlane")
    with crew(settings, tmp_path, "w1") as members, PushClient.connect(settings) as client:
        members.await_view()
        client.submit(push(id="seen", channel="null"), ["t"])
        key, broker = client.access.create(None, ["operator"]).token, pid_of(local, "pulsar")
        with FrontDoor(settings) as door:
            async with visited(door) as visitor:
                await visitor.sign_in(key)
                await pages_say(visitor, is_lost=False)
                os.kill(broker, how)
                try:
                    await pages_say(visitor, is_lost=True)
                finally:
                    await asyncio.to_thread(local.up) if how is signal.SIGKILL else os.kill(broker, signal.SIGCONT)
                await pages_say(visitor, is_lost=False)


async def pages_say(visitor: Visitor, *, is_lost: bool) -> None:
    """Wait until every page says that Pulsar is lost, or none does any more."""
    async with asyncio.timeout(60):
        for page in PAGES:
            while True:
                seen = await visitor.get(page.path.replace("{id}", "seen"))
                assert seen.status == 200
                if ("Pulsar does not answer" in seen.text) is is_lost:
                    break
                await asyncio.sleep(0.2)


def provisioned(settings: Settings) -> bool:
    with suppress(Unreachable):
        provision(settings.pulsar)
        return True
    return False


def unacknowledged(settings: Settings, task: str) -> int:
    """How many messages of the task's lane workers hold."""
    with closing(PulsarAdmin(settings.pulsar)) as admin, suppress(NotFound, Unreachable):
        found = admin.stats(topics(settings.pulsar).own_lane(task))["subscriptions"].get(SUBSCRIPTION, {})
        return int(found.get("unackedMessages", 0))
    return 0


def test_what_was_stopped_keeps_its_data(local: LocalStack) -> None:
    addresses = local.up()
    send(addresses, b"kept")
    with redis.Redis.from_url(addresses.redis_url) as client:
        client.set("kept", "yes")
    assert local.down()
    assert not local.status().running
    assert addresses_in_force(local.home) is None
    again = local.up()
    assert receive(again) == b"kept"
    with redis.Redis.from_url(again.redis_url) as client:
        assert client.get("kept") == b"yes"


def test_wipe_leaves_nothing(local: LocalStack) -> None:
    local.up()
    pids = [pid_of(local, "pulsar"), pid_of(local, "redis")]
    assert local.down(wipe=True)
    assert all(birth_of(pid) is None for pid in pids)
    assert [path.name for path in local.home.iterdir()] == ["lock"]


def lane() -> str:
    """None of those that small_tenant has, so that the workers of these tests leave it alone."""
    return Topics().shared_lane(7)


def send(addresses: StackAddresses, body: bytes) -> None:
    settings = PulsarSettings(url=addresses.pulsar_url, admin_url=addresses.pulsar_admin_url)
    with closing(PulsarAdmin(settings)) as admin, closing(quiet_client(addresses)) as client:
        assert admin.subscriptions(lane()) == [SUBSCRIPTION]
        client.create_producer(lane()).send(body)


def receive(addresses: StackAddresses) -> bytes:
    """The first message of the lane, which is not acknowledged."""
    with closing(quiet_client(addresses)) as client:
        consumer = client.subscribe(lane(), SUBSCRIPTION, consumer_type=pulsar.ConsumerType.Shared)
        return bytes(consumer.receive(20_000).data())


def quiet_client(addresses: StackAddresses) -> pulsar.Client:
    return pulsar.Client(addresses.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
