"""A pause of one app on a channel stops every worker within two seconds, and no other app."""

import queue
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from math import inf

from backends.pulsar import client as pulsar_client
from backends.pulsar.record_topics import ControlTopic
from backends.redis.registry.registry import Registry
from backends.redis.view import open_view
from backends.system_clock import SystemClock
from consumers.delivery.fleet_gate import Renewed
from consumers.upkeep.flow_pauses import FlowPauses
from dispatcher.channels.guards.trouble import Trouble
from dispatcher.model.flow_pause import PauseKind
from fairlane import PushClient, Settings
from producers.handle import TaskHandle
from tests.integration.worker_crew import Crew, audience, delivered_at_s, eventually, push

TARGETS = 40_000
OBEYED_WITHIN_S = 2.0


@contextmanager
def open_control(settings: Settings) -> Iterator[ControlTopic]:
    client = pulsar_client.connect(settings.pulsar)
    try:
        with closing(ControlTopic(client, pulsar_client.topics(settings.pulsar))) as control:
            yield control
    finally:
        pulsar_client.close(client)


def submit(client: PushClient, app: str) -> TaskHandle:
    return client.submit(push(app=app, expected_targets=TARGETS), audience(TARGETS, app))


def sent(members: Crew, task: str, from_s: float, to_s: float = inf) -> int:
    """Targets of a task delivered between two wall times."""
    return sum(targets for at_s, name, targets in delivered_at_s(members) if name == task and from_s <= at_s < to_s)


def test_an_operators_pause_stops_an_app_on_all_workers_and_no_other_app(
    members: Crew, push_client: PushClient
) -> None:
    push_client.set_capacity(2_000)
    paused, other = submit(push_client, "shop"), submit(push_client, "bank")
    eventually(lambda: sent(members, paused.id, 0) and sent(members, other.id, 0), 30, "both are sent")
    push_client.pause_channel("log", app="shop", reason="we look into it")
    paused_s = time.time()
    time.sleep(OBEYED_WITHIN_S + 3.0)
    assert sent(members, paused.id, paused_s + OBEYED_WITHIN_S) == 0
    assert sent(members, other.id, paused_s + OBEYED_WITHIN_S) > 0
    found = push_client.why(paused.id)
    assert (found.now, str(found.flow_pause)) == ("flow_paused", "hand, we look into it")
    push_client.resume_channel("log", app="shop")
    push_client.set_capacity(0)
    for handle, app in ((paused, "shop"), (other, "bank")):
        members.check_sent_once(handle, audience(TARGETS, app), 90)


def test_what_one_worker_meets_stops_the_others_once_and_ends_by_itself(members: Crew, push_client: PushClient) -> None:
    """Two more workers meet the same trouble, and store it."""
    with closing(open_view(members.settings.redis)) as view:
        push_client.set_capacity(1_000)
        handle = submit(push_client, "club")
        eventually(lambda: sent(members, handle.id, 0), 30, "it is sent")
        registry = Registry(view)
        met = Trouble(channel="log", app="club", kind=PauseKind.DOWN, for_s=6.0, reason="HTTP 503")
        with open_control(members.settings) as control:
            for _ in range(2):
                outbox: queue.Queue[Trouble | Renewed] = queue.Queue()
                outbox.put(met)
                pauses = FlowPauses(
                    registry.service, registry.control, control, SystemClock(), outbox, lambda *_: False
                )
                eventually(pauses.round, 5, "it is stored")
        stored_s = time.time()
        [switched] = [one.at_ms for one in registry.service.flow_pauses("log", "club") if one.paused]
        assert stored_s * 1000 - switched < 5_000
        time.sleep(5.0)
        assert sent(members, handle.id, stored_s + OBEYED_WITHIN_S, switched / 1000 + met.for_s) == 0
        push_client.set_capacity(0)
        members.check_sent_once(handle, audience(TARGETS, "club"), 60)
        assert registry.service.globals().flow_pauses == {}
