"""A real Redis with two replicas and three Sentinels: what clients and workers do when the primary changes."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from backends.redis.client import connect
from backends.redis.epochs import Epochs
from backends.redis.keys import REPORT_MS
from backends.redis.sentinel import WATCH_S
from backends.redis.view import CLAIM_MAX_MS, RedisView, open_view
from backends.settings import RedisSettings
from benchmarks import redis_server
from benchmarks.redis_sentinels import SERVICE, SentinelGroup, sentinel_group
from benchmarks.redis_server import RedisServer
from dispatcher.model.errors import FairlaneError, InvalidInput, Refused, Unreachable
from dispatcher.wire.control import FORMAT, EpochStarted
from fairlane import PushClient, Settings
from fairlane.checks.sentinel_checks import sentinel_findings
from lab.simulator.world import World
from tests.contract.ledger_worlds import ask_own, request, task_record
from tests.contract.registry_records import epoch_of
from tests.integration.worker_crew import audience, crew, eventually, on_redis, push
from tests.virtual_clock import VirtualClock

TARGETS = 10_000
NOTICED_S = WATCH_S + 5
BINARY = next(iter(redis_server.binaries().values()))


@pytest.fixture(params=sorted(redis_server.binaries()))
def group(request: pytest.FixtureRequest) -> Iterator[SentinelGroup]:
    with sentinel_group(redis_server.binaries()[request.param]) as group:
        yield group


def kill(group: SentinelGroup) -> None:
    group.primary().kill()


def fail_over(group: SentinelGroup) -> None:
    group.fail_over()


WAYS = (kill, fail_over)


def view_of(group: SentinelGroup) -> RedisView:
    return open_view(RedisSettings(url=group.url, prefix="test"))


def answers(call: Callable[[], object]) -> bool:
    try:
        call()
    except Unreachable:
        return False
    return True


def named_another(group: SentinelGroup, old: RedisServer) -> bool:
    return group.primary() is not old


# ---------------------------------------------------------------- one client
@pytest.mark.parametrize("way", WAYS)
def test_a_client_follows_to_the_new_primary_and_nothing_is_granted_until_the_longest_claim_has_ended(
    group: SentinelGroup, way: Callable[[SentinelGroup], None]
) -> None:
    """After a failover that an operator asked for, the old primary answers for ten seconds more."""
    with closing(view_of(group)) as view:
        world = World(VirtualClock(), view=view)
        world.write(task_record("t"))
        assert world.ledger.lease(request(1, ask_own("t", 0, 1))).ready
        old = group.primary()
        way(group)
        eventually(lambda: answers(view.ping) and "." in epoch_of(Epochs(view)).id, 30, "it notices")
        found = epoch_of(Epochs(view))
        eventually(lambda: named_another(group, old), 10, "the first Sentinel knows it too")
        assert (found.ready, found.announced, found.marked) == (False, False, False)
        assert CLAIM_MAX_MS - 5_000 < found.wait_ms - REPORT_MS <= CLAIM_MAX_MS, "from when it was noticed"
        assert not world.ledger.lease(request(2, ask_own("t", 10, 5), worker="other")).ready
        with closing(view_of(group)) as later:
            assert epoch_of(Epochs(later)).id == found.id, "one that comes later does not make it wait again"


def test_a_client_leaves_a_primary_that_stood_still_and_goes_on_as_if_nothing_was(group: SentinelGroup) -> None:
    """Nothing ends its connection, and the server answers as before."""
    with closing(view_of(group)) as view:
        assert Epochs(view).begin_epoch("e", 0, 1)
        old = group.primary()
        with stopped(old):
            eventually(lambda: named_another(group, old), 30, "the Sentinels name another")
        eventually(
            lambda: answers(view.ping) and epoch_of(Epochs(view)).id.startswith("e.1-"), NOTICED_S, "it is there"
        )


def test_a_primary_that_was_a_replica_meanwhile_is_noticed_though_nobody_saw_the_other(group: SentinelGroup) -> None:
    with closing(view_of(group)) as view:
        assert Epochs(view).begin_epoch("e", 0, 1)
    first = group.primary()
    group.fail_over()
    eventually(lambda: named_another(group, first), 30, "another is named")
    eventually(lambda: group.role(first) == "slave", 30, "the first follows it")
    eventually(lambda: back_to(group, first), 120, "the first is the primary again")
    with closing(view_of(group)) as view:
        eventually(lambda: answers(view.ping), 20, "it answers")
        assert epoch_of(Epochs(view)).id.startswith("e.1-")


def back_to(group: SentinelGroup, first: RedisServer) -> bool:
    """Ask for failovers until it is this server's turn."""
    for server in group.servers.values():
        with group.client(server) as client:
            client.config_set("replica-priority", 1 if server is first else 100)
    try:
        group.fail_over()
    except Exception:
        return group.primary() is first
    return group.primary() is first


def test_two_servers_that_think_they_are_the_primary_know_from_the_control_topic_which_one_stops(
    group: SentinelGroup,
) -> None:
    """A client that reaches none of the Sentinels stays with the old one. Its fold reads what the new one announces."""
    old = group.primary()
    with closing(open_view(RedisSettings(url=old.url, prefix="test"))) as left_behind:
        world = World(VirtualClock(), view=left_behind)
        world.write(task_record("t"))
        assert world.ledger.lease(request(1, ask_own("t", 0, 1))).ready
        group.fail_over()
        with closing(view_of(group)) as view:
            eventually(lambda: answers(view.ping) and "." in epoch_of(Epochs(view)).id, 30, "the new one is noticed")
            announced = EpochStarted(FORMAT, epoch_of(Epochs(view)).id, 0, view.address)
            assert world.ledger.lease(request(2, ask_own("t", 1, 1))).ready, "the old one does not know it"
            world.write(announced)
            assert not world.ledger.lease(request(3, ask_own("t", 2, 1))).ready
            assert epoch_of(Epochs(left_behind)).deposed == announced.epoch
        eventually(lambda: group.role(old) == "slave", 30, "the Sentinels make it a replica")
        with pytest.raises(Unreachable, match="read-only replica"):
            left_behind.count("touched")


# ---------------------------------------------------------------- credentials, wrong addresses
def test_redis_and_the_sentinels_each_get_their_own_password() -> None:
    lines = ("requirepass watch", "sentinel sentinel-pass watch")
    with sentinel_group(BINARY, password="hush", sentinel_password="watch", sentinel_options=lines) as group:
        url = group.url.replace("://", "://:hush@")
        with closing(connect(RedisSettings(url=url, sentinel_password=SecretStr("watch")))) as client:
            assert client.ping()
            assert not [found for found in sentinel_findings(client) if "no answer" in found.what]
        with closing(open_view(RedisSettings(url=url))) as view, pytest.raises(Unreachable) as refused:
            view.ping()
        assert "redis.sentinel_password" in refused.value.next_step
        assert "hush" not in str(refused.value)
        wrong = RedisSettings(url=url, password=SecretStr("other"), sentinel_password=SecretStr("watch"))
        with closing(open_view(wrong)) as view, pytest.raises(Unreachable, match="user name or password"):
            view.ping()


def test_wrong_addresses_say_what_is_there() -> None:
    with sentinel_group(BINARY) as group:
        replica = next(server for server in group.servers.values() if group.role(server) == "slave")
        port = group.sentinels[0]
        refused: list[tuple[str, type[FairlaneError], str]] = [
            (f"redis://127.0.0.1:{port}/0", InvalidInput, "is a Sentinel, not a Redis"),
            (f"redis+sentinel://127.0.0.1:{port}/other", Unreachable, "do not watch other"),
            (f"redis+sentinel://127.0.0.1:{replica.port}/{SERVICE}", Unreachable, "not those of Redis"),
            (f"redis+sentinel://127.0.0.1:{redis_server.free_port()}/{SERVICE}", Unreachable, "Connection refused"),
            (replica.url, Unreachable, "is a read-only replica"),
        ]
        for url, kind, text in refused:
            with closing(open_view(RedisSettings(url=url))) as view, pytest.raises(kind, match=text):
                view.ping()
        one_left = f"redis+sentinel://127.0.0.1:{redis_server.free_port()},127.0.0.1:{port}/{SERVICE}"
        with closing(open_view(RedisSettings(url=one_left))) as view:
            view.ping()


@pytest.mark.parametrize("binary", redis_server.binaries().values(), ids=redis_server.binaries())
def test_a_redis_cluster_is_refused(binary: str) -> None:
    with redis_server.running(
        "--cluster-enabled", "yes", "--cluster-port", str(redis_server.free_port()), binary=binary
    ) as server:
        for use in (RedisView.ping, RedisView.wipe, lambda view: Epochs(view).epoch()):
            with closing(open_view(RedisSettings(url=server.url))) as view, pytest.raises(Refused) as refused:
                use(view)
            assert "is a Redis Cluster, which Fairlane cannot use" in refused.value.cause
            assert "redis+sentinel://" in refused.value.next_step


def test_doctor_says_what_the_sentinels_lack() -> None:
    with sentinel_group(BINARY) as group:
        assert warnings(group.url) == ["a primary that is cut off from its replicas goes on granting"]
        for server in group.servers.values():
            with group.client(server) as client:
                client.config_set("min-replicas-to-write", 1)
                client.config_set("min-replicas-max-lag", 5)
        assert warnings(group.url) == ["a primary that is cut off goes on granting for 5 s"]
        for server in group.servers.values():
            with group.client(server) as client:
                client.config_set("min-replicas-max-lag", 4)
        assert warnings(group.url) == []
        two = group.url.replace(f"127.0.0.1:{group.sentinels[0]},", f"127.0.0.1:{redis_server.free_port()},", 1)
        (silent,) = warnings(two)
        assert "gives no answer" in silent


def warnings(url: str) -> list[str]:
    with closing(connect(RedisSettings(url=url))) as client:
        return [found.what.partition(" (")[0] for found in sentinel_findings(client) if found.level != "ok"]


# ---------------------------------------------------------------- workers
def stop_for_a_while(group: SentinelGroup) -> None:
    """The primary hangs until another is named, and then continues."""
    old = group.primary()
    with stopped(old):
        eventually(lambda: named_another(group, old), 30, "another is named")


@contextmanager
def stopped(server: RedisServer) -> Iterator[None]:
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("way", [*WAYS, stop_for_a_while])
@pytest.mark.timeout(240)
def test_a_task_that_is_being_sent_loses_nothing_and_sends_nothing_twice(
    fresh_settings: Settings, tmp_path: Path, way: Callable[[SentinelGroup], None]
) -> None:
    with sentinel_group(BINARY) as group:
        settings = on_redis(fresh_settings, group.url)
        with crew(settings, tmp_path, "w1", "w2") as members, PushClient.connect(settings) as client:
            client.set_capacity(1_000)
            handle = client.submit(push(), audience(TARGETS))
            eventually(lambda: handle.progress().targets.sent > 2_000, 30, "it is in full swing")
            way(group)
            submitted = submit_meanwhile(client)
            members.check_sent_once(handle, audience(TARGETS), 120)
            submitted.join(60)
            members.check_sent_once(client.task("meanwhile"), audience(500, "m"), 60)
            assert all(process.poll() is None for process in members.members.values())


def submit_meanwhile(client: PushClient) -> threading.Thread:
    """Submit another task as a user would: again, with the same id, if Redis cannot be reached."""

    def submit() -> None:
        eventually(
            lambda: answers(lambda: client.submit(push(id="meanwhile"), audience(500, "m"))), 60, "it is submitted"
        )

    thread = threading.Thread(target=submit)
    thread.start()
    return thread
