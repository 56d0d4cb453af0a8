"""A worker that Pulsar cannot be reached from, while Redis can, keeps what it has sent from being sent again."""

from pathlib import Path

import pytest

from backends.redis.client import lua_folder
from backends.redis.view import RedisView
from fairlane import Settings
from quotas.ledger import MAX_CLAIMS
from tests.integration.cut_off import TARGETS, cut_off
from tests.integration.worker_crew import audience, eventually

SPARED_MS = 0
"""Claims are looked at as if a worker that lives were spared for no longer: 60 s would be waited for otherwise."""


def named_due(view: RedisView) -> set[bytes]:
    """Return the claims that would be ended now. The workers look, too, and then not again for some seconds: so each
    look here begins with all of them, and is made several times."""
    scripts, found = view.scripts.of(lua_folder("quotas")), set[bytes]()
    for _ in range(20):
        for name in view.command("ZRANGE", view.keys.claims, 0, -1):
            view.command("ZADD", view.keys.claims, "XX", 0, name)
        found.update(scripts.call("due_claims", [view.keys.prefix], [MAX_CLAIMS, 1, SPARED_MS]))
    return found


@pytest.mark.timeout(240)
def test_a_worker_cut_off_from_pulsar_only_keeps_its_claims_and_nothing_is_sent_twice(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    with cut_off(fresh_settings, tmp_path) as scene:
        scene.cut()
        view, client, handle = scene.view, scene.client, scene.handle
        assert client.why(handle.id).unrecorded
        [beat] = [beat for beat in client.workers() if beat.unrecorded]
        assert beat.id.startswith("w1-")
        eventually(lambda: view.now_ms() > beat.seen_ms + 20_000, 30, "all claims of that time are past their end")
        assert any(name.startswith(b"w1-") for name in view.command("ZRANGE", view.keys.claims, 0, -1))
        assert not [name for name in named_due(view) if name.startswith(b"w1-")]
        scene.reconnect()
        client.set_capacity(0)
        scene.members.check_sent_once(handle, audience(TARGETS), 90)
