"""Tasks that cannot end by themselves on real servers, and that an operator closes."""

from collections import Counter
from pathlib import Path

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from dispatcher.model.errors import NotFound, TaskEnded
from dispatcher.model.view import TaskView
from dispatcher.wire.topics import Topics
from fairlane import PushClient, Settings
from tests.integration.cut_off import TARGETS, cut_off
from tests.integration.lane_helpers import publish
from tests.integration.pulsar_helpers import bodies_in
from tests.integration.steered import assert_lane_gone, push
from tests.integration.worker_crew import audience, crew, eventually

LOST, WHY = 3, "three envelopes were lost"
ENDS_S = 90
"""Closing takes 30 s where the outcome topic is away, and each try to write there up to ten."""


def ended(view: TaskView) -> tuple[str, str, int, int, int]:
    assert view.ended
    targets = view.targets
    return view.state, view.reason, targets.sent, targets.cancelled, targets.pending


@pytest.mark.timeout(180)
def test_a_task_whose_envelopes_were_lost_is_closed_once(
    fresh_settings: Settings, client: pulsar.Client, names: Topics, tmp_path: Path
) -> None:
    with PushClient.connect(fresh_settings) as door:
        handle = door.submit(push(), audience(100))
        lane = names.own_lane(handle.id)
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
    fresh_settings: Settings, admin: PulsarAdmin, names: Topics, tmp_path: Path
) -> None:
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
    with cut_off(fresh_settings, tmp_path) as scene:
        handle, members = scene.handle, scene.members
        scene.cut()
        handle.close("w1 cannot record")
        before = handle.wait(ENDS_S)
        assert (before.state, before.reason) == ("failed", "w1 cannot record")
        assert before.targets.sent + before.targets.cancelled == TARGETS
        sent = members.targets(handle.id)
        scene.reconnect()
        scene.await_recorded()
        eventually(lambda: scene.view.stats().get("repeats", 0), 30, "and that is counted")
        assert handle.progress().targets == before.targets
        assert members.targets(handle.id) == sent, "nothing is sent after the close"
        assert max(Counter(sent).values()) == 1
