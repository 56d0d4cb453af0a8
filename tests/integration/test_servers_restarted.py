"""A Redis that dies in the middle of sending and comes back: nothing is lost or sent twice, counts are exact. (For a
broker that does, see test_stack.)"""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks import redis_server
from fairlane import PushClient, PushTask, Settings
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
        client.set_capacity(10)
        paused = client.submit(push(tier="medium"), audience(500, "p"))
        paused.pause()
        client.set_capacity(1_000)
        going = client.submit(push(), audience(8_000, "g"))
        eventually(lambda: going.progress().targets.sent > 2_000, 30, "it is in full swing")
        server.kill()
        with redis_server.running(binary, port=port):
            view = going.wait(120)
            members.await_view()
            assert_adds_up(view)
            assert (view.state, view.targets.sent) == ("completed", 8_000)
            assert members.targets(going.id) == Counter(audience(8_000, "g"))
            assert (paused.progress().state, client.globals().capacity) == ("paused", 1_000)
            paused.resume()
            assert paused.wait(60).targets.sent == 500
            assert members.targets(paused.id) == Counter(audience(500, "p"))
            assert members.leave("w1") == 0
            assert members.leave("w2") == 0
