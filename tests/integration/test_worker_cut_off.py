"""A worker that Pulsar cannot be reached from, while Redis can, keeps what it has sent from being sent again."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from backends.redis.client import lua_folder
from backends.redis.view import RedisView, open_view
from benchmarks.cuttable_proxy import CuttableProxy, cuttable_proxy
from fairlane import PushClient, PushTask, Settings
from fairlane.checks.view_checks import unrecorded_findings
from quotas.ledger import MOST_CLAIMS
from tests.integration.worker_crew import Crew, audience, crew, eventually

TARGETS = 20_000
SPARED_MS = 0
"""Claims are looked at as if a worker that lives were spared for no longer: 60 s would be waited for otherwise."""


@contextmanager
def proxied(settings: Settings) -> Iterator[tuple[Settings, list[CuttableProxy]]]:
    """Settings that reach Pulsar through proxies."""
    url, admin = urlsplit(settings.pulsar.url), urlsplit(settings.pulsar.admin_url)
    assert url.port
    assert admin.port
    with cuttable_proxy(url.port) as binary, cuttable_proxy(admin.port) as rest:
        where = {"url": f"pulsar://127.0.0.1:{binary.port}", "admin_url": f"http://127.0.0.1:{rest.port}"}
        pulsar = settings.pulsar.model_copy(update=where)
        yield settings.model_copy(update={"pulsar": pulsar}), [binary, rest]


def named_due(view: RedisView) -> set[bytes]:
    """Return the claims that would be ended now. The workers look, too, and then not again for some seconds: so each
    look here begins with all of them, and is made several times."""
    scripts, found = view.scripts.of(lua_folder("quotas")), set[bytes]()
    for _ in range(20):
        for name in view.command("ZRANGE", view.keys.claims, 0, -1):
            view.command("ZADD", view.keys.claims, "XX", 0, name)
        found.update(scripts.call("due_claims", [view.keys.prefix], [MOST_CLAIMS, 1, SPARED_MS]))
    return found


@pytest.mark.timeout(240)
def test_a_worker_cut_off_from_pulsar_only_keeps_its_claims_and_nothing_is_sent_twice(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    with (
        proxied(fresh_settings) as (behind, proxies),
        crew(fresh_settings, tmp_path, "w2") as members,
        PushClient.connect(fresh_settings) as client,
        closing(open_view(fresh_settings.redis)) as view,
    ):
        first = Crew(behind, tmp_path)
        first.join("w1")
        members.members["w1"] = first.members["w1"]
        members.await_serving("w1")
        client.set_capacity(500)
        push = PushTask(app="a", tier="high", channel="log", message={"title": "hello"}, chunk=10)
        handle = client.submit(push, audience(TARGETS))

        def is_sending() -> bool:
            [beat] = [beat for beat in client.workers() if beat.id.startswith("w1-")]
            return beat.buffered > 0 and beat.rate > 0

        eventually(is_sending, 30, "it is in full swing, with more in hand")
        for proxy in proxies:
            proxy.set_cut(True)
        eventually(lambda: list(unrecorded_findings(client.workers())), 30, "it says what it cannot record")
        assert client.why(handle.id).unrecorded
        [beat] = [beat for beat in client.workers() if beat.unrecorded]
        assert beat.id.startswith("w1-")
        eventually(lambda: view.now_ms() > beat.seen_ms + 20_000, 30, "all claims of that time are past their end")
        assert any(name.startswith(b"w1-") for name in view.command("ZRANGE", view.keys.claims, 0, -1))
        assert not [name for name in named_due(view) if name.startswith(b"w1-")]
        for proxy in proxies:
            proxy.set_cut(False)
        client.set_capacity(0)
        view_of_task = handle.wait(90)
        assert (view_of_task.state, view_of_task.targets.sent) == ("completed", TARGETS)
        assert members.targets(handle.id) == Counter(audience(TARGETS))
