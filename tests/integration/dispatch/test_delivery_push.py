"""Tasks over the channels fcm and apns from submit to outcome, on real servers; fakes over TLS judge."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dispatcher.channels.guards.storm_guard import MIN_DEAD_ALONE
from dispatcher.model.task import PushTask, Target
from fairlane.settings import Settings
from lab.fake.process import FakeFcm, first_document
from producers.client import PushClient
from tests.integration.provider import watched
from tests.integration.worker_crew import Crew, crew, eventually

pytestmark = pytest.mark.timeout(150)
MESSAGE = {"title": "Hello {{name|there}}", "body": "World"}


class Fake(FakeFcm):
    """A running fake of FCM or APNs."""

    def rule(self, **rules: Any) -> None:
        self.ask("PUT", "rules", rules)

    def judge(self, targets: list[str]) -> Any:
        return self.ask("POST", "accepted", targets)


@contextmanager
def fake(name: str, folder: Path) -> Iterator[Fake]:
    folder.mkdir()
    command = [sys.executable, "-m", "fairlane", "fake", name, "--port", "0", "-o", "json", "--folder", str(folder)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=dict(os.environ)) as process,
    ):
        assert process.stdout is not None
        served = first_document(process.stdout)
        assert served is not None, (folder / "log").read_text()
        try:
            yield Fake(served, process.pid)
        finally:
            process.terminate()


@dataclass
class Service:
    """The fakes and the workers."""

    fcm: Fake
    apns: Fake
    crew: Crew
    key_file: Path


@pytest.fixture(scope="module")
def service(module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("push")
    with fake("fcm", folder / "fcm") as fcm, fake("apns", folder / "apns") as apns:
        config = "".join(app_config("fcm", fcm, app) for app in ("shop", "news")) + app_config("apns", apns, "shop")
        with crew(module_settings, tmp_path_factory.mktemp("crew"), "w1", "w2", config=config) as members:
            yield Service(fcm, apns, members, folder / "fcm" / "service-account.json")


def app_config(channel: str, at: Fake, app: str) -> str:
    names = ("credentials", "url", "ca_file", "topic", "key_id", "team_id", "project_id")
    lines = [f"{name} = {json.dumps(at.served[name])}" for name in names if name in at.served]
    return "\n".join([f"[channels.{channel}.apps.{app}]", *lines, ""])


@pytest.fixture(scope="module")
def push_client(module_settings: Settings) -> Iterator[PushClient]:
    with PushClient.connect(module_settings) as client:
        yield client


@pytest.fixture(autouse=True)
def clean_slate(service: Service, push_client: PushClient) -> Iterator[None]:
    """One test's rules and pauses are not met by the next."""
    yield
    service.fcm.rule()
    for flow in push_client.globals().flow_pauses:
        channel, _, app = flow.partition("/")
        push_client.resume_channel(channel, app=app)


def fcm_targets(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-device-token-{number:012d}" for number in range(count)]


def push(**fields: Any) -> PushTask:
    return PushTask(**{"app": "shop", "tier": "high", "channel": "fcm", "message": MESSAGE, "chunk": 100, **fields})


@pytest.mark.parametrize(
    ("channel", "token", "chunk"), [("fcm", "plain-device-token-{:012d}", 100), ("apns", "{:064x}", 1)]
)
def test_a_task_completes_and_each_target_was_accepted_once(
    service: Service, push_client: PushClient, channel: str, token: str, chunk: int
) -> None:
    targets = [token.format(number) for number in range(2_000)]
    handle = push_client.submit(push(channel=channel, chunk=chunk), [Target(one, {"name": "Ann"}) for one in targets])
    view, _ = watched(handle, 40)
    assert (view.state, view.targets.sent) == ("completed", 2_000)
    fake = service.fcm if channel == "fcm" else service.apns
    assert fake.judge(targets) == {"never": [], "once": 2_000, "more": {}}


def test_each_target_gets_the_outcome_of_its_answer(service: Service, push_client: PushClient) -> None:
    prefixes = {
        "dead": {"status": 404, "code": "UNREGISTERED"},
        "wrong": {"status": 403, "code": "SENDER_ID_MISMATCH"},
    }
    service.fcm.rule(answers=[{"targets": f"{prefix}-", **answer} for prefix, answer in prefixes.items()])
    refused = MIN_DEAD_ALONE // 2 - 1  # of each kind: together too few for the storm guard, in whichever order they end
    targets = [*fcm_targets("dead", refused), *fcm_targets("wrong", refused), *fcm_targets("good", 50)]
    handle = push_client.submit(push(), targets)
    view, _ = watched(handle, 40)
    counts = view.targets
    assert (view.state, counts.sent, counts.invalid, counts.failed) == ("completed", 50, refused, refused)
    assert service.fcm.judge(fcm_targets("good", 50)) == {"never": [], "once": 50, "more": {}}
    assert service.fcm.judge(fcm_targets("dead", refused))["once"] == 0


def test_an_outage_fails_nobody_and_sends_nothing_twice(service: Service, push_client: PushClient) -> None:
    service.fcm.rule(answers=[{"status": 503, "retry_after_s": 3}])
    targets = fcm_targets("outage", 400)
    handle = push_client.submit(push(), targets)
    try:
        eventually(lambda: service.fcm.ask("GET", "counts")["answers"].get("503", 0) >= 10, 20, "answers 503")
    finally:
        service.fcm.rule()
    view, _ = watched(handle, 90)
    assert (view.state, view.targets.sent) == ("completed", 400)
    assert service.fcm.judge(targets) == {"never": [], "once": 400, "more": {}}


def test_a_target_is_given_up_when_it_is_too_old_and_no_other_is(service: Service, push_client: PushClient) -> None:
    """FCM's 500 leaves open whether it took the message: that costs a try and 10 s."""
    service.fcm.rule(answers=[{"targets": "old-", "status": 500}])
    targets = [*fcm_targets("old", 1), *fcm_targets("young", 20)]
    handle = push_client.submit(push(retry_for_s=5), targets)
    view, _ = watched(handle, 60)
    assert (view.state, view.targets.sent, view.targets.failed) == ("completed", 20, 1)
    (failure,) = handle.failures()
    assert failure.target == targets[0]
    assert failure.reason.startswith("gave up 5 s after the first attempt; the last: 500")
    assert service.fcm.judge(targets) == {"never": [targets[0]], "once": 20, "more": {}}


def test_a_killed_worker_and_cut_connections_lose_nobody(service: Service, push_client: PushClient) -> None:
    """Targets that were in flight may be sent twice, and no others. Those of a connection that was cut wait before they
    are tried again, which takes most of the time."""
    service.fcm.rule(latency_ms=[100, 200], reset_after=150)
    targets = fcm_targets("killed", 6_000)
    handle = push_client.submit(push(), targets)
    eventually(lambda: len(service.fcm.judge(targets)["never"]) < 4_500, 120, "a part is sent")
    service.crew.kill("w1")
    service.crew.join("w3")
    eventually(lambda: len(service.fcm.judge(targets)["never"]) < 2_000, 120, "more is sent")
    service.fcm.rule()
    view, _ = watched(handle, 100)
    judged = service.fcm.judge(targets)
    assert (view.state, view.targets.sent) == ("completed", 6_000)
    assert judged["never"] == []
    assert judged["once"] + len(judged["more"]) == 6_000
    assert len(judged["more"]) < 3_000
    assert max(judged["more"].values(), default=0) <= 5


def test_an_app_without_settings_waits_and_another_app_is_not_affected(
    service: Service, push_client: PushClient
) -> None:
    stuck = push_client.submit(push(app="blog"), fcm_targets("blog", 20))
    targets = fcm_targets("beside", 300)
    view, _ = watched(push_client.submit(push(app="news"), targets), 30)
    assert (view.state, view.targets.sent) == ("completed", 300)
    assert stuck.progress().targets.sent == stuck.progress().targets.failed == 0
    eventually(lambda: "[channels.fcm.apps.blog]" in str(stuck.progress().last_error), 20, "the reason is shown")
    stuck.cancel()


def test_a_task_whose_message_is_refused_for_everybody_is_stopped_with_the_reason(
    service: Service, push_client: PushClient
) -> None:
    service.fcm.rule(answers=[{"targets": "payload-", "status": 400, "code": "INVALID_ARGUMENT"}])
    handle = push_client.submit(push(cap=500, chunk=20), fcm_targets("payload", 20_000))
    view, _ = watched(handle, 60)
    assert (view.state, view.targets.sent) == ("failed", 0)
    assert "the provider refuses its message for everybody; the first 100 answers: 400 INVALID_ARGUMENT" in view.reason
    assert view.targets.failed >= 100
    assert view.targets.cancelled > 0


def answered_in_the_end(at: Fake) -> int:
    """Return how many requests the fake has answered, once those that were under way are."""
    counts = [-1, -2]

    def settled() -> bool:
        counts.append(at.ask("GET", "counts")["requests"])
        time.sleep(1.0)
        return counts[-1] == counts[-2]

    eventually(settled, 30, "the requests under way are answered")
    return counts[-1]


def test_refused_credentials_stop_every_worker_until_an_operator_resumes(
    service: Service, push_client: PushClient
) -> None:
    service.fcm.rule(answers=[{"status": 403, "code": "PERMISSION_DENIED"}])
    targets = fcm_targets("refused", 3_000)
    handle = push_client.submit(push(), targets)

    def paused() -> bool:
        return "fcm/shop" in push_client.globals().flow_pauses

    eventually(paused, 20, "the flow is paused")
    pause = push_client.globals().flow_pauses["fcm/shop"]
    assert pause.kind == "credentials"
    assert "403" in pause.reason
    asked = answered_in_the_end(service.fcm)
    time.sleep(4.0)
    assert service.fcm.ask("GET", "counts")["requests"] == asked, "no request on a paused flow"
    assert push_client.why(handle.id).now == "flow_paused"
    assert handle.progress().targets.failed == 0
    handle.cancel()


def test_nothing_of_a_paused_app_is_sent_from_two_seconds_after_the_pause(
    service: Service, push_client: PushClient
) -> None:
    """By all workers, also those that hold its targets, and until it is resumed."""
    targets = fcm_targets("by-hand", 20_000)
    service.fcm.ask("DELETE", "counts")
    handle = push_client.submit(push(cap=2_000), targets)
    eventually(lambda: service.fcm.ask("GET", "counts")["requests"] > 1_000, 30, "it is sent")
    push_client.pause_channel("fcm", app="shop", for_s=60.0, reason="rehearsal")
    time.sleep(2.0)
    asked = service.fcm.ask("GET", "counts")["requests"]
    assert asked < 20_000
    time.sleep(4.0)
    assert service.fcm.ask("GET", "counts")["requests"] == asked
    push_client.resume_channel("fcm", app="shop")
    eventually(lambda: service.fcm.ask("GET", "counts")["requests"] > asked, 10, "it is sent again")
    handle.cancel()


def test_a_cap_holds_at_the_providers_door_also_after_workers_have_stood_still(
    service: Service, push_client: PushClient
) -> None:
    push_client.cap_app("shop", 1_000, channel="fcm")
    targets = fcm_targets("capped", 9_000)
    service.fcm.ask("DELETE", "counts")
    handle = push_client.submit(push(chunk=50), targets)
    eventually(lambda: service.fcm.ask("GET", "counts")["accepted"] > 2_000, 30, "it is sent")
    with service.crew.halted():
        time.sleep(2.0)
    view, _ = watched(handle, 60)
    assert (view.state, view.targets.sent) == ("completed", 9_000)
    counts = service.fcm.ask("GET", "counts")
    push_client.cap_app("shop", 0, channel="fcm")
    # The contract tests hold it to 5 %. Here the fake, which counts, may stall too.
    assert counts["peak"]["1s"] <= 1_300
    assert service.fcm.judge(targets) == {"never": [], "once": 9_000, "more": {}}
