"""Servers that die in the middle of sending and come back: nothing is lost, nothing is sent twice, counts are exact."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from fairlane import PushClient, PushTask, Settings
from fairlane.stack.homes import default_cache
from fairlane.stack.stack import LocalStack
from tests import redis_server
from tests.conftest import GIVEN, ended_with_us, settings_for
from tests.integration.provider import assert_adds_up
from tests.integration.worker_crew import audience, crew, eventually

pytestmark = pytest.mark.timeout(240)


def push(**fields: object) -> PushTask:
    given = {"app": "a", "tier": "high", "channel": "log", "message": "Hi", "chunk": 10, **fields}
    return PushTask.model_validate(given)


def test_a_redis_that_dies_and_comes_back_empty(fresh_settings: Settings, tmp_path: Path) -> None:
    binary, port = next(iter(redis_server.binaries().values())), redis_server.free_port()
    redis = fresh_settings.redis.model_copy(update={"url": f"redis://127.0.0.1:{port}/0"})
    settings = fresh_settings.model_copy(update={"redis": redis})
    with (
        redis_server.running(binary, port=port) as server,
        crew(settings, tmp_path, "w1", "w2") as members,
        PushClient.connect(settings) as client,
    ):
        client.set_capacity(1_000)
        going = client.submit(push(), audience(8_000, "g"))
        paused = client.submit(push(tier="medium"), audience(500, "p"))
        paused.pause()
        eventually(lambda: going.progress().targets.sent > 2_000, 30, "it is in full swing")
        server.kill()
        with redis_server.running(binary, port=port):
            view = going.wait(120)
            assert_adds_up(view)
            assert (view.state, view.targets.sent) == ("completed", 8_000)
            assert members.targets(going.id) == Counter(audience(8_000, "g"))
            assert (paused.progress().state, client.globals().capacity) == ("paused", 1_000)
            paused.resume()
            assert paused.wait(60).targets.sent == 500
            assert members.targets(paused.id) == Counter(audience(500, "p"))
            assert members.leave("w1") == 0
            assert members.leave("w2") == 0


@pytest.mark.usefixtures("stack")
def test_a_broker_that_is_killed_and_started_again(tmp_path: Path) -> None:
    """On a stack of this test's own. Receipts and acknowledgements are lost; no target is sent twice for that."""
    home = tmp_path / "home"
    with ended_with_us(home):
        local = LocalStack(home, cache=default_cache(GIVEN), env=GIVEN)
        settings = settings_for(local.up(), "fairlane")
        with crew(settings, tmp_path / "crew", "w1", "w2") as members, PushClient.connect(settings) as client:
            client.set_capacity(1_000)
            handles = {
                tier: client.submit(push(tier=tier, expected_targets=4_000), audience(4_000, tier))
                for tier in ("high", "medium", "low")
            }
            eventually(lambda: handles["high"].progress().targets.sent > 2_000, 30, "it is in full swing")
            pulsar = next(server for server in local.status().servers if server.name == "pulsar")
            assert pulsar.pid is not None
            os.kill(pulsar.pid, signal.SIGKILL)
            eventually(lambda: not local.status().running, 20, "Pulsar is dead")
            assert local.up().pulsar_url == settings.pulsar.url
            for tier, handle in handles.items():
                view = handle.wait(120)
                assert_adds_up(view)
                assert (view.state, view.targets.sent) == ("completed", 4_000)
                assert members.targets(handle.id) == Counter(audience(4_000, tier))
            again = client.submit(push(), audience(100, "again"))
            assert again.wait(60).targets.sent == 100
            assert [members.leave(name) for name in ("w1", "w2")] == [0, 0]
