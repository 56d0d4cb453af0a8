"""Tasks that cannot end by themselves on real servers, and that an operator closes."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import topics
from backends.redis.view import open_view
from dispatcher.model.errors import NotFound, TaskEnded
from dispatcher.model.view import TaskView
from fairlane import PushClient, PushTask, Settings
from fairlane.checks.view_checks import unrecorded_findings
from tests.integration.lane_helpers import publish
from tests.integration.pulsar_helpers import bodies_in
from tests.integration.steered import assert_lane_gone, push
from tests.integration.test_worker_cut_off import proxied
from tests.integration.worker_crew import Crew, audience, crew, eventually

LOST, WHY = 3, "three envelopes were lost"
ENDS_S = 90
"""Closing takes 30 s where the outcome topic is away, and each try to write there up to ten."""


def ended(view: TaskView) -> tuple[str, str, int, int, int]:
    assert view.ended
    targets = view.targets
    return view.state, view.reason, targets.sent, targets.cancelled, targets.pending


@pytest.mark.timeout(180)
def test_a_task_whose_envelopes_were_lost_is_closed_once(
    fresh_settings: Settings, client: pulsar.Client, tmp_path: Path
) -> None:
    with PushClient.connect(fresh_settings) as door:
        handle = door.submit(push(), audience(100))
        lane = topics(fresh_settings.pulsar).own_lane(handle.id)
        publish(client, lane, bodies_in(client, lane, 100)[LOST:])
        with crew(fresh_settings, tmp_path, "w1") as members:
            eventually(lambda: handle.progress().targets.sent == 100 - LOST, 60, "all that is there is sent")
            handle.close(WHY)
            view = handle.wait(ENDS_S)
            assert ended(view) == ("failed", WHY, 100 - LOST, LOST, 0)
            with pytest.raises(TaskEnded, match="failed"):
                handle.close("another reason")
            with pytest.raises(NotFound):
                door.task("unknown").close(WHY)
            assert ended(handle.progress()) == ("failed", WHY, 100 - LOST, LOST, 0)
            assert set(members.targets(handle.id).values()) == {1}
            assert_lane_gone(fresh_settings, view.lane)


@pytest.mark.timeout(240)
def test_a_task_whose_outcome_topic_is_away_is_closed_and_others_go_on(
    fresh_settings: Settings, admin: PulsarAdmin, tmp_path: Path
) -> None:
    names = topics(fresh_settings.pulsar)
    with crew(fresh_settings, tmp_path, "w1") as members, PushClient.connect(fresh_settings) as door:
        first = door.submit(push(id="first"), audience(100))
        assert first.wait(60).state == "completed"
        partition = names.partition_of("stuck-again")
        other = next(name for name in map(str, range(100)) if names.partition_of(name) != partition)
        admin.delete_topic(names.outcomes(partition), force=True)
        again = door.submit(push(id="stuck-again"), audience(50))
        eventually(lambda: len(members.targets(again.id)) == 50, 60, "all of it is sent")
        again.cancel()
        again.close("its outcome topic is lost")
        view = again.wait(ENDS_S)
        assert ended(view) == ("failed", "its outcome topic is lost", 0, 50, 0)
        assert door.submit(push(id=other), audience(20)).wait(60).state == "completed"
        assert members.members["w1"].poll() is None


@pytest.mark.timeout(240)
def test_what_a_worker_records_after_its_task_was_closed_counts_as_repeats(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    """It beats and is cut off from Pulsar, so its claims are kept, and the task cannot end."""
    with (
        proxied(fresh_settings) as (behind, proxies),
        crew(fresh_settings, tmp_path, "w2") as members,
        PushClient.connect(fresh_settings) as door,
        closing(open_view(fresh_settings.redis)) as view,
    ):
        first = Crew(behind, tmp_path)
        first.join("w1")
        members.members["w1"] = first.members["w1"]
        members.await_serving("w1")
        door.set_capacity(500)
        task = PushTask(app="a", tier="high", channel="log", message={"title": "hello"}, chunk=10)
        handle = door.submit(task, audience(20_000))
        eventually(lambda: any(b.buffered and b.rate for b in door.workers() if b.id.startswith("w1-")), 30, "w1 sends")
        for proxy in proxies:
            proxy.set_cut(True)
        eventually(lambda: list(unrecorded_findings(door.workers())), 30, "it says what it cannot record")
        handle.close("w1 cannot record")
        before = handle.wait(ENDS_S)
        assert (before.state, before.reason) == ("failed", "w1 cannot record")
        assert before.targets.sent + before.targets.cancelled == 20_000
        sent = members.targets(handle.id)
        for proxy in proxies:
            proxy.set_cut(False)
        eventually(lambda: not list(unrecorded_findings(door.workers())), 60, "it has recorded everything")
        eventually(lambda: view.stats().get("repeats", 0), 30, "and that is counted")
        assert handle.progress().targets == before.targets
        assert members.targets(handle.id) == sent, "nothing is sent after the close"
        assert max(Counter(sent).values()) == 1
