"""Redis in trouble while workers send: gone for a while, or full. Each test has a Redis of its own."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

from backends.pulsar.admin import PulsarAdmin
from benchmarks import redis_server
from benchmarks.redis_server import RedisServer
from dispatcher.model.errors import FairlaneError, NotFound, Unreachable
from dispatcher.wire.topics import Topics
from fairlane import PushClient, Settings
from tests.integration.worker_crew import audience, crew, eventually, on_redis, push

CAPACITY = 400


@pytest.mark.timeout(300)
def test_with_redis_gone_and_lanes_unloaded_nothing_is_sent_and_later_all_of_it_once(
    fresh_settings: Settings, admin: PulsarAdmin, names: Topics, tmp_path: Path
) -> None:
    """An unload sets the broker's count of deliveries back to 0, so only the ledger knows what was sent before."""
    durable = ("--appendonly", "yes", "--appendfsync", "always", "--dir", str(tmp_path))
    with redis_server.running(*durable) as server:
        settings = on_redis(fresh_settings, server.url)
        with crew(settings, tmp_path / "crew", "w1", "w2") as members, PushClient.connect(settings) as client:
            client.set_capacity(5 * CAPACITY)
            going = client.submit(push(), audience(40_000, "g"))
            eventually(lambda: going.progress().targets.sent > 4_000, 60, "it is in full swing")
            server.kill()
            gone_s = time.time()
            eventually(lambda: time.time() > gone_s + 3.0, 10, "every lease has ended, what is under way is recorded")
            before = sum(members.targets(going.id).values())
            for unloads in range(6):
                admin.unload(names.own_lane(going.id))
                next_s = gone_s + 5.0 + 2 * unloads
                eventually(lambda: time.time() > next_s, 10, "it is unloaded every 2 s")  # noqa: B023
            assert sum(members.targets(going.id).values()) == before
            with redis_server.running(*durable, port=server.port):
                members.check_sent_once(going, audience(40_000, "g"), 120)


@pytest.mark.timeout(300)
def test_a_view_that_a_failing_script_left_half_written_is_made_again_and_nothing_is_sent_twice(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    """A key of another type makes a record of the control topic fail after the script's first write."""
    with redis_server.running() as server:
        settings = on_redis(fresh_settings, server.url)
        with crew(settings, tmp_path, "w1", "w2") as members, PushClient.connect(settings) as client:
            client.set_capacity(CAPACITY)
            going = client.submit(push(), audience(8_000, "g"))
            eventually(lambda: going.progress().targets.sent > 400, 60, "it is in full swing")
            with redis.Redis(port=server.port, protocol=2) as foreign:
                foreign.set(f"{settings.redis.prefix}:app:b", "foreign")
            with pytest.raises(FairlaneError, match="WRONGTYPE"):
                client.submit(push(app="b"), audience(10, "b"))
            eventually(lambda: members.logged("a script failed half-way"), 60, "it is noticed")
            members.check_sent_once(going, audience(8_000, "g"), 200)


@pytest.mark.parametrize("binary", redis_server.binaries().values(), ids=redis_server.binaries())
@pytest.mark.timeout(240)
def test_a_full_redis_refuses_new_tasks_and_sends_what_it_has(
    binary: str, fresh_settings: Settings, tmp_path: Path
) -> None:
    with redis_server.running("--maxmemory-policy", "noeviction", binary=binary) as server:
        settings = on_redis(fresh_settings, server.url)
        with crew(settings, tmp_path, "w1") as members, PushClient.connect(settings) as client:
            client.set_capacity(CAPACITY)
            going = client.submit(push(), audience(4_000, "g"))
            paused = client.submit(push(weight=0.1), audience(1_000, "p"))
            eventually(lambda: going.progress().targets.sent > 400, 60, "it is in full swing")
            with full(server):
                with pytest.raises(Unreachable) as refused:
                    client.submit(push(id="late"), audience(500, "l"))
                assert "out of memory" in refused.value.cause
                assert "maxmemory" in refused.value.next_step
                with pytest.raises(NotFound):
                    client.task("late").progress()
                paused.pause()
                assert paused.progress().state == "paused"
                members.check_sent_once(going, audience(4_000, "g"), 90)
            late = client.submit(push(id="late"), audience(500, "l"))
            members.check_sent_once(late, audience(500, "l"), 60)
            paused.resume()
            members.check_sent_once(paused, audience(1_000, "p"), 60)


@pytest.mark.timeout(240)
def test_a_pause_while_redis_is_gone_holds_when_it_is_back(fresh_settings: Settings, tmp_path: Path) -> None:
    durable = ("--appendonly", "yes", "--appendfsync", "always", "--dir", str(tmp_path))
    with redis_server.running(*durable) as server:
        settings = on_redis(fresh_settings, server.url)
        with crew(settings, tmp_path / "crew", "w1"), PushClient.connect(settings) as client:
            client.set_capacity(CAPACITY)
            going = client.submit(push(), audience(40_000, "g"))
            eventually(lambda: going.progress().targets.sent > CAPACITY, 60, "it is in full swing")
            server.kill()
            client.task(going.id).pause()
            client.pause_channel("other")
            with pytest.raises(NotFound):
                client.task("unknown").pause()
            with redis_server.running(*durable, port=server.port):
                paused = ("paused", frozenset(["other"]))
                eventually(lambda: shown(client, going.id) == paused, 60, "the changes are folded")
                assert going.progress().targets.pending > 0


def shown(client: PushClient, task: str) -> tuple[str, frozenset[str]] | None:
    """Return the task's state and the paused channels; None while Redis is away."""
    with suppress(Unreachable):
        return client.task(task).progress().state, client.globals().paused_channels
    return None


@contextmanager
def full(server: RedisServer) -> Iterator[None]:
    """Its memory is all used for as long as the context lasts."""
    with redis.Redis(port=server.port, protocol=2) as client:
        client.config_set("maxmemory", "1mb")
        try:
            yield
        finally:
            client.config_set("maxmemory", "0")
