"""A worker that reaches Pulsar through proxies, which a test cuts while it sends, beside one that does not."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from backends.redis.view import RedisView, open_view
from benchmarks.cuttable_proxy import CuttableProxy, cuttable_proxy
from fairlane import PushClient, Settings
from fairlane.checks.view_checks import unrecorded_findings
from producers.handle import TaskHandle
from tests.integration.worker_crew import Crew, audience, crew, eventually, push

TARGETS = 20_000


@dataclass
class CutOff:
    """handle: the task that w1 (behind the proxies) and w2 send, 500 targets/s."""

    client: PushClient
    view: RedisView
    members: Crew
    handle: TaskHandle
    proxies: list[CuttableProxy]

    def cut(self) -> None:
        """Cut w1 off from Pulsar until it says that it cannot record what it sent."""
        self._set(cut=True)
        eventually(self._unrecorded, 30, "it says what it cannot record")

    def reconnect(self) -> None:
        self._set(cut=False)

    def await_recorded(self) -> None:
        eventually(lambda: not self._unrecorded(), 60, "it has recorded everything")

    def _unrecorded(self) -> bool:
        return bool(list(unrecorded_findings(self.client.workers())))

    def _set(self, *, cut: bool) -> None:
        for proxy in self.proxies:
            proxy.set_cut(cut=cut)

    def is_sending(self) -> bool:
        """Return whether w1 is in full swing, with more in hand."""
        return any(beat.buffered and beat.rate for beat in self.client.workers() if beat.id.startswith("w1-"))


@contextmanager
def cut_off(settings: Settings, folder: Path) -> Iterator[CutOff]:
    """Begin when w1 is sending."""
    with (
        _proxied(settings) as (behind, proxies),
        crew(settings, folder, "w2") as members,
        PushClient.connect(settings) as client,
        closing(open_view(settings.redis)) as view,
    ):
        first = Crew(behind, folder)
        first.join("w1")
        members.members["w1"] = first.members["w1"]
        members.await_serving("w1")
        client.set_capacity(500)
        scene = CutOff(client, view, members, client.submit(push(), audience(TARGETS)), proxies)
        eventually(scene.is_sending, 30, "w1 sends")
        yield scene


@contextmanager
def _proxied(settings: Settings) -> Iterator[tuple[Settings, list[CuttableProxy]]]:
    """Settings that reach Pulsar through proxies."""
    url, admin = urlsplit(settings.pulsar.url), urlsplit(settings.pulsar.admin_url)
    assert url.port
    assert admin.port
    with cuttable_proxy(url.port) as binary, cuttable_proxy(admin.port) as rest:
        where = {"url": f"pulsar://127.0.0.1:{binary.port}", "admin_url": f"http://127.0.0.1:{rest.port}"}
        pulsar = settings.pulsar.model_copy(update=where)
        yield settings.model_copy(update={"pulsar": pulsar}), [binary, rest]
