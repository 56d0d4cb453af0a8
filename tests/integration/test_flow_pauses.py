"""A pause of one app on a channel stops every worker within two seconds, and no other app."""

import queue
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from backends.pulsar import client as pulsar_client
from backends.pulsar.control_topic import ControlTopic
from backends.redis.registry.registry import Registry
from backends.redis.view import open_view
from backends.system_clock import SystemClock
from consumers.delivery.fleet_gate import Renewed
from consumers.upkeep.flow_pauses import FlowPauses
from dispatcher.channels.guards.trouble import Trouble
from dispatcher.model.flow_pause import PauseKind
from fairlane import PushClient, PushTask, Settings
from producers.handle import TaskHandle
from tests.integration.worker_crew import Crew, audience, crew, delivered_at_s, eventually

TARGETS = 40_000
OBEYED_WITHIN_S = 2.0


@pytest.fixture
def members(fresh_settings: Settings, tmp_path: Path) -> Iterator[Crew]:
    with crew(fresh_settings, tmp_path, "one", "two") as members:
        for name in ("one", "two"):
            members.await_serving(name)
        yield members


@contextmanager
def open_control(settings: Settings) -> Iterator[ControlTopic]:
    client = pulsar_client.connect(settings.pulsar)
    try:
        with closing(ControlTopic(client, pulsar_client.topics(settings.pulsar))) as control:
            yield control
    finally:
        pulsar_client.close(client)


def no_cap(_channel: str, _app: str, _for_ms: int) -> bool:
    return False


def submit(client: PushClient, app: str) -> TaskHandle:
    task = PushTask(app=app, tier="high", channel="log", message="Hi", expected_targets=TARGETS, chunk=10)
    return client.submit(task, audience(TARGETS, app))


def sent(members: Crew, task: str, from_s: float) -> int:
    """Targets of a task delivered after a wall time."""
    return sum(targets for at_s, name, targets in delivered_at_s(members) if name == task and at_s >= from_s)


def test_an_operators_pause_stops_an_app_on_all_workers_and_no_other_app(members: Crew) -> None:
    with PushClient.connect(members.settings) as client:
        client.set_capacity(2_000)
        paused, other = submit(client, "shop"), submit(client, "bank")
        eventually(lambda: sent(members, paused.id, 0) and sent(members, other.id, 0), 30, "both are sent")
        client.pause_channel("log", app="shop", reason="we look into it")
        paused_s = time.time()
        time.sleep(OBEYED_WITHIN_S + 3.0)
        assert sent(members, paused.id, paused_s + OBEYED_WITHIN_S) == 0
        assert sent(members, other.id, paused_s + OBEYED_WITHIN_S) > 0
        found = client.why(paused.id)
        assert (found.now, str(found.flow_pause)) == ("flow_paused", "hand, we look into it")
        client.resume_channel("log", app="shop")
        client.set_capacity(0)
        for handle in (paused, other):
            view = handle.wait(90)
            assert (view.state, view.targets.sent) == ("completed", TARGETS)
            assert set(members.targets(handle.id).values()) == {1}


def test_what_one_worker_meets_stops_the_others_once_and_ends_by_itself(members: Crew) -> None:
    """Two more workers meet the same trouble, and store it."""
    with PushClient.connect(members.settings) as client, closing(open_view(members.settings.redis)) as view:
        client.set_capacity(1_000)
        handle = submit(client, "shop")
        eventually(lambda: sent(members, handle.id, 0), 30, "it is sent")
        registry = Registry(view)
        met = Trouble(channel="log", app="shop", kind=PauseKind.DOWN, for_s=6.0, reason="HTTP 503")
        with open_control(members.settings) as control:
            for _ in range(2):
                outbox: queue.Queue[Trouble | Renewed] = queue.Queue()
                outbox.put(met)
                pauses = FlowPauses(registry.service, registry.control, control, SystemClock(), outbox, no_cap)
                eventually(pauses.round, 5, "it is stored")
        stored_s = time.time()
        [switched] = [one.at_ms for one in registry.service.flow_pauses("log", "shop") if one.paused]
        assert stored_s * 1000 - switched < 5_000
        time.sleep(5.0)
        assert sent(members, handle.id, stored_s + OBEYED_WITHIN_S) == 0
        client.set_capacity(0)
        view_at_end = handle.wait(60)
        assert (view_at_end.state, view_at_end.targets.sent) == ("completed", TARGETS)
        assert registry.service.globals().flow_pauses == {}
