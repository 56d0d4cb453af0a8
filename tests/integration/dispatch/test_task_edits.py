"""Moves out of a shared lane, edits of the message, targets in flight, and many tasks at once, over real workers."""

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import topics
from fairlane.settings import Settings
from producers.client import PushClient
from producers.control.task_changes import Changes, TaskFilter
from tests.integration.provider import watched
from tests.integration.steered import BEHIND, assert_lane_gone, begun, counts, delivery_times, push
from tests.integration.worker_crew import Crew, audience, eventually

pytestmark = pytest.mark.timeout(120)


def shared_lane_is_empty(settings: Settings, lane: str) -> None:
    with closing(PulsarAdmin(settings.pulsar)) as admin:
        eventually(lambda: admin.backlog(lane) == 0, 30, f"{lane} is empty")


def same_lane(count: int, settings: Settings) -> list[str]:
    """Ids of tasks that share a lane."""
    names = topics(settings.pulsar)
    lane = names.shared_lane_of("shared-0")
    return [f"shared-{n}" for n in range(500) if names.shared_lane_of(f"shared-{n}") == lane][:count]


def test_a_small_low_task_is_paused_while_it_is_being_sent_and_others_go_on(
    push_client: PushClient, members: Crew, module_settings: Settings
) -> None:
    push_client.set_capacity(60)
    first, second = same_lane(2, module_settings)
    paused = push_client.submit(push(id=first, tier="low"), audience(600, "paused"))
    other = push_client.submit(push(id=second, tier="low"), audience(600, "other"))
    shared = paused.progress().lane
    assert (paused.progress().shared, other.progress().lane) == (True, shared)
    begun(paused)
    paused.pause()
    push_client.set_capacity(300)
    view = paused.progress()
    assert (view.shared, view.lane) == (False, topics(module_settings.pulsar).own_lane(first))
    members.check_sent_once(other, audience(600, "other"), 30)
    shared_lane_is_empty(module_settings, shared)
    standing = members.targets(first).total()
    assert 0 < standing < 600
    push_client.set_capacity(0)
    paused.resume()
    members.check_sent_once(paused, audience(600, "paused"), 30)
    assert_lane_gone(module_settings, view.lane)


def test_a_task_that_left_its_shared_lane_before_its_envelopes_were_met_has_its_lane_created_by_workers(
    push_client: PushClient, members: Crew, module_settings: Settings
) -> None:
    """As after many tasks were changed by a client that died before it had created their lanes."""
    push_client.set_capacity(20)
    handle = push_client.submit(push(tier="low"), audience(200))
    # Halted, else they may have filled the lane before it is deleted.
    with closing(PulsarAdmin(module_settings.pulsar)) as admin, members.halted():
        handle.set_weight(3)
        admin.delete_topic(handle.progress().lane, force=True)
    push_client.set_capacity(0)
    members.check_sent_once(handle, audience(200), 60)


def test_a_cancelled_task_that_left_its_shared_lane_leaves_nothing_behind(
    push_client: PushClient, members: Crew, module_settings: Settings
) -> None:
    push_client.set_capacity(50)
    handle = push_client.submit(push(tier="low"), audience(1_000))
    shared = handle.progress().lane
    begun(handle)
    handle.set_tier("medium")
    handle.cancel()
    push_client.set_capacity(0)
    view, _ = watched(handle, 30)
    total, sent, _, cancelled = counts(view)
    assert (view.state, total, sent + cancelled) == ("cancelled", 1_000, 1_000)
    assert members.targets(handle.id).total() == sent
    shared_lane_is_empty(module_settings, shared)
    assert_lane_gone(module_settings, view.lane)


def test_a_cancel_says_how_many_targets_were_in_flight(push_client: PushClient, members: Crew) -> None:
    push_client.set_capacity(400)
    handle = push_client.submit(push(), audience(4_000))
    begun(handle)
    before = handle.progress().targets.sent
    reported = handle.cancel(wait_s=10)
    assert reported.settled
    assert 0 <= reported.sent <= reported.in_flight < 4_000
    view, _ = watched(handle, 30)
    assert view.targets.sent == members.targets(handle.id).total()
    assert view.targets.sent >= before


def test_an_edited_message_is_sent_to_all_targets_not_yet_sent(push_client: PushClient, members: Crew) -> None:
    push_client.set_capacity(30)
    start_at = datetime.now(UTC) + timedelta(seconds=10)  # both edits are made before it
    edited = push_client.submit(push(start_at=start_at, message="old"), audience(100, "edited"))
    assert (edited.edit_message("newer").number, edited.edit_message({"title": "new"}).number) == (1, 2)
    half = push_client.submit(push(tier="low", message="old"), audience(300, "half"))
    begun(half)
    half.edit_message({"title": "new"})
    shown_by = datetime.now(UTC) + timedelta(seconds=2) + BEHIND
    eventually(lambda: datetime.now(UTC) > shown_by, 10, "the change shows")
    eventually(lambda: delivery_times(members, half)[-1] > shown_by, 20, "some is sent after it")
    push_client.set_capacity(0)
    for handle in (edited, half):
        assert counts(watched(handle, 30)[0])[1] in (100, 300)
    lines = [line for line in members.lines() if line["task"] in (edited.id, half.id)]
    assert {str(line["message"]) for line in lines if line["task"] == edited.id} == {str({"title": "new"})}
    late = [line for line in lines if datetime.fromisoformat(str(line["ts"])) > shown_by]
    assert late
    assert {str(line["message"]) for line in late} == {str({"title": "new"})}
    assert members.targets(half.id) == dict.fromkeys(audience(300, "half"), 1)


def test_many_tasks_are_changed_at_once(push_client: PushClient, members: Crew) -> None:
    push_client.set_capacity(1)
    handles = [
        push_client.submit(push(id=f"many-{n}", tier=tier), audience(20, f"many-{n}"))
        for n, tier in enumerate(["high", "medium", "low", "low"])
    ]
    held = push_client.set_many(TaskFilter(id_prefix="many-", state="running"), Changes(paused=True))
    assert (set(held.changed), held.lanes, dict(held.failed)) == ({h.id for h in handles}, 2, {})
    assert {handle.progress().state for handle in handles} == {"paused"}
    again = push_client.set_many(TaskFilter(id_prefix="many-"), Changes(paused=True))
    assert (again.changed, again.unchanged) == ((), 4)
    push_client.set_capacity(0)
    push_client.set_many(TaskFilter(ids=tuple(h.id for h in handles)), Changes(paused=False, cap="1000:50"))
    for handle in handles:
        assert counts(watched(handle, 30)[0]) == (20, 20, 0, 0)
