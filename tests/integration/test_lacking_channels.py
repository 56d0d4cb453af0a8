"""Workers that lack a channel: they attempt nothing on it and leave its tasks to workers that have it."""

from collections.abc import Iterator
from contextlib import closing

import pulsar
import pytest

from backends.pulsar_admin import PulsarAdmin
from backends.redis_view import open_view
from backends.workers import Workers
from consumers.lanes import LaneSettings
from dispatcher.lease import LaneKind
from dispatcher.ports import LaneInfo
from fairlane.settings import Settings
from producers.client import PushClient
from producers.handle import TaskHandle
from tests.integration.lane_helpers import Dock, publish_envelopes
from tests.integration.provider import watched
from tests.integration.steered import assert_lane_gone, push
from tests.integration.worker_crew import Crew, audience, crew, eventually

pytestmark = pytest.mark.timeout(180)
MAIL = '[worker.channels]\nmail = "consumers.channels.log:LogChannel"\n[channels.mail]\npath = "mailed.jsonl"\n'


@pytest.fixture
def plain(fresh_settings: Settings, tmp_path: object) -> Iterator[Crew]:
    """A worker without the channel `mail`."""
    with crew(fresh_settings, tmp_path, "plain") as members:  # type: ignore[arg-type]
        yield members


@pytest.fixture
def push_client(fresh_settings: Settings) -> Iterator[PushClient]:
    with PushClient.connect(fresh_settings) as client:
        yield client


def join_mailer(members: Crew) -> None:
    members.config = MAIL
    members.join("mailer")
    members.await_serving("mailer")


def counts(handle: TaskHandle) -> tuple[int, int]:
    view = handle.progress()
    return view.targets.sent, view.targets.failed


def test_the_worker_that_has_the_channel_sends_all(plain: Crew, push_client: PushClient) -> None:
    """At the first and only attempt, from a lane of its own and from a shared lane."""
    join_mailer(plain)
    tasks = {
        "own": push(channel="mail", max_attempts=1),
        "shared": push(channel="mail", tier="low", max_attempts=1, chunk=10),
        "innocent": push(channel="log", tier="low", chunk=10),
    }
    handles = {name: push_client.submit(task, audience(1_000, name)) for name, task in tasks.items()}
    assert [handle.progress().shared for handle in handles.values()] == [False, True, True]
    for name, handle in handles.items():
        view, _ = watched(handle, 90)
        assert (view.targets.sent, view.targets.failed) == (1_000, 0), name


def test_targets_wait_until_a_worker_has_their_channel(plain: Crew, push_client: PushClient) -> None:
    own = push_client.submit(push(channel="mail", max_attempts=1), audience(100, "own"))
    shared = push_client.submit(push(channel="mail", tier="low", max_attempts=1), audience(100, "shared"))
    others = push_client.submit(push(tier="low"), audience(100, "other"))
    assert watched(others, 30)[0].targets.sent == 100
    eventually(lambda: "channel mail" in plain.log_of("plain"), 20, "the worker met the envelopes")
    assert [counts(handle) for handle in (own, shared)] == [(0, 0), (0, 0)]
    join_mailer(plain)
    for handle in (own, shared):
        assert watched(handle, 90)[0].targets.sent == 100
    assert plain.log_of("plain").count("channel mail") == 1


def test_a_cancelled_task_ends_and_its_envelopes_leave_the_shared_lane(
    plain: Crew, push_client: PushClient, fresh_settings: Settings
) -> None:
    own = push_client.submit(push(channel="mail"), audience(20, "own"))
    shared = push_client.submit(push(channel="mail", tier="low"), audience(20, "shared"))
    lane = own.progress().lane
    for handle in (own, shared):
        handle.cancel()
        view, _ = watched(handle, 30)
        assert (view.state, view.targets.cancelled) == ("cancelled", 20)
    assert_lane_gone(fresh_settings, lane)
    left = shared.progress().lane
    eventually(lambda: unacked(fresh_settings, left) == 0, 60, "the shared lane is empty")


def unacked(settings: Settings, lane: str) -> int:
    with closing(PulsarAdmin(settings.pulsar)) as admin:
        return admin.backlog(lane)


def test_workers_announce_their_channels(plain: Crew, fresh_settings: Settings) -> None:
    join_mailer(plain)

    def announced() -> list[frozenset[str] | None]:
        with closing(open_view(fresh_settings.redis)) as view:
            return [beat.channels for beat in Workers(view).workers()]

    both = [frozenset({"null", "log", "mail"}), frozenset({"null", "log"})]
    eventually(lambda: announced() == both, 10, "both have sent a heartbeat")


def test_what_is_refused_comes_again_later_and_takes_a_bounded_number_of_places(
    client: pulsar.Client, lane: str
) -> None:
    dock = Dock(client, LaneSettings(max_refused=15))
    try:
        dock.lanes.attach(LaneInfo(lane, LaneKind.SHARED, "low", 1_000, 1), 2_000)
        publish_envelopes(client, lane, range(15))
        dock.lanes.refuse(lane, dock.take(15))
        publish_envelopes(client, lane, range(15, 16))
        assert dock.drained(lane) == [], "all places are taken"
        again = dock.take(16)
        assert sorted(delivery.envelope.sequence for delivery in again) == list(range(16))
        assert {delivery.handle.redelivery_count() for delivery in again} == {0, 1}
    finally:
        assert dock.lanes.stop(5.0)
