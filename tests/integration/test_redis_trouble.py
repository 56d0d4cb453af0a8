"""Redis in trouble while workers send: gone for half a minute, slow, or full. Each test has a Redis of its own."""

import time
from datetime import datetime
from pathlib import Path

import pytest

from backends.control_topic import ControlTopic
from backends.pulsar_client import close, connect, topics
from dispatcher.control import FORMAT, ControlChange
from fairlane import PushClient, PushTask, Settings
from tests import redis_server
from tests.integration.worker_crew import Crew, audience, crew, eventually
from tests.redis_server import RedisServer

MESSAGE = {"title": "hello"}
CAPACITY = 400


def push(**fields: object) -> PushTask:
    given = {"app": "a", "tier": "high", "channel": "log", "message": MESSAGE, "chunk": 10, **fields}
    return PushTask.model_validate(given)


def on(server: RedisServer, settings: Settings) -> Settings:
    return settings.model_copy(update={"redis": settings.redis.model_copy(update={"url": server.url})})


def most_in_a_second(members: Crew, after_s: float) -> int:
    """Targets delivered in the fullest second from a (wall) time on, by the times in the log."""
    sent = [(at_s(line), len(line["targets"])) for line in members.lines()]  # type: ignore[arg-type]
    sent = sorted(pair for pair in sent if pair[0] >= after_s)
    most = start = inside = 0
    for at, targets in sent:
        inside += targets
        while sent[start][0] <= at - 1.0:
            inside -= sent[start][1]
            start += 1
        most = max(most, inside)
    return most


def at_s(line: dict[str, object]) -> float:
    return datetime.fromisoformat(str(line["ts"])).timestamp()


def write_control(settings: Settings, task: str, field: str, value: str) -> None:
    """As a client does, whatever Redis says."""
    client = connect(settings.pulsar)
    control = ControlTopic(client, topics(settings.pulsar))
    control.append(ControlChange(FORMAT, task, field, value, round(time.time() * 1000)))
    control.close()
    close(client)


@pytest.mark.timeout(300)
def test_with_redis_gone_for_half_a_minute_workers_go_on_within_the_capacity(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    binary = next(iter(redis_server.binaries().values()))
    durable = ("--appendonly", "yes", "--appendfsync", "always", "--dir", str(tmp_path))
    with redis_server.running(binary, *durable) as server:
        settings = on(server, fresh_settings)
        with crew(settings, tmp_path / "crew", "w1", "w2") as members, PushClient.connect(settings) as client:
            client.set_capacity(CAPACITY)
            going = client.submit(push(), audience(24_000, "g"))
            stopped = client.submit(push(), audience(24_000, "s"))
            eventually(lambda: going.progress().targets.sent > 2_400, 60, "it is in full swing")
            server.kill()
            gone_s = time.time()
            eventually(lambda: time.time() > gone_s + 5.0, 10, "every lease has ended")
            before = sum(members.targets(going.id).values())
            eventually(lambda: sum(members.targets(going.id).values()) > before + 600, 20, "they go on without Redis")
            write_control(settings, stopped.id, "paused", "1")
            paused_s = time.time() + 2.0
            eventually(lambda: time.time() > gone_s + 30.0, 40, "Redis was gone for 30 s")
            late = [line for line in members.lines() if line["task"] == stopped.id and at_s(line) > paused_s]
            assert not late
            assert most_in_a_second(members, gone_s) <= 1.25 * CAPACITY + 30
            with redis_server.running(binary, *durable, port=server.port):
                assert going.wait(120).targets.sent == 24_000
                assert most_in_a_second(members, gone_s) <= 1.25 * CAPACITY + 30
                assert set(members.targets(going.id)) == set(audience(24_000, "g"))
                assert stopped.progress().state == "paused"
                stopped.resume()
                assert stopped.wait(120).targets.sent == 24_000
                delivered = members.targets(going.id) + members.targets(stopped.id)
                assert sum(delivered.values()) - len(delivered) <= CAPACITY  # repeats: of calls in the grace only
