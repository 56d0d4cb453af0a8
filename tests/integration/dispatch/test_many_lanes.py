"""More lanes than the workers are attached to: they take turns, none is left out, and nothing is left behind."""

from collections import Counter
from pathlib import Path

from backends.pulsar.admin import PulsarAdmin
from dispatcher.model.tier import TIERS
from dispatcher.wire.topics import Topics
from fairlane import PushClient, PushTask, Settings
from tests.integration.pulsar_helpers import task_lanes
from tests.integration.worker_crew import audience, crew, eventually, push

TASKS, TARGETS, MAX_LANES = 48, 200, 8
CONFIG = f"[worker]\nmax_lanes = {MAX_LANES}\n"


def task(number: int) -> PushTask:
    """With a lane of its own in every tier."""
    return push(tier=TIERS[number % len(TIERS)], chunk=5, weight=2.0)


def jain(values: list[int]) -> float:
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def test_more_lanes_than_places_take_turns_and_all_is_delivered_once(
    fresh_settings: Settings, admin: PulsarAdmin, names: Topics, tmp_path: Path
) -> None:
    with PushClient.connect(fresh_settings) as client:
        client.set_capacity(300)
        submissions = ((task(number), audience(TARGETS, f"t{number}")) for number in range(TASKS))
        handles = [one.handle for one in client.submit_many(submissions, concurrency=8) if one.handle is not None]
        assert len(handles) == TASKS
        with crew(fresh_settings, tmp_path, "w1", "w2", config=CONFIG):
            high = [handle for number, handle in enumerate(handles) if number % len(TIERS) == 0]

            def sent() -> list[int]:
                return [handle.progress().targets.sent for handle in high]

            eventually(lambda: sum(sent()) >= 0.6 * len(high) * TARGETS, 60, "more than half of the high tier is sent")
            assert jain(sent()) >= 0.8
            assert max(worker.lanes for worker in client.workers()) <= 23 + 2 * MAX_LANES
            client.set_capacity(0)
            counts = Counter(handle.wait(90).targets.sent for handle in handles)
            assert counts == {TARGETS: TASKS}
            eventually(lambda: not task_lanes(admin, names), 60, "all lanes are deleted")


def test_when_a_worker_dies_the_other_goes_on_with_its_lanes(fresh_settings: Settings, tmp_path: Path) -> None:
    with PushClient.connect(fresh_settings) as client:
        client.set_capacity(600)
        with crew(fresh_settings, tmp_path, "w1", "w2", config=CONFIG) as members:
            submissions = ((task(number), audience(100, f"t{number}")) for number in range(30))
            handles = [one.handle for one in client.submit_many(submissions, concurrency=8) if one.handle is not None]
            assert len(handles) == 30
            members.kill("w1")
            client.set_capacity(0)
            assert all(handle.wait(90).state == "completed" for handle in handles)
