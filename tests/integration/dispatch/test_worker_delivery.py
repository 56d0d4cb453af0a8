"""From a submitted task to its tombstone, by real worker processes: delivered, counted, cleared away."""

from pathlib import Path

from backends.pulsar.admin import PulsarAdmin
from dispatcher.wire.topics import Topics
from fairlane import PushClient, Settings
from tests.integration.pulsar_helpers import task_lanes
from tests.integration.worker_crew import audience, crew, eventually, push


def test_tasks_of_all_tiers_are_delivered_counted_and_cleared_away(
    fresh_settings: Settings, admin: PulsarAdmin, names: Topics, tmp_path: Path
) -> None:
    sizes = {"high": 300, "medium": 700, "low": 400}
    with crew(fresh_settings, tmp_path, "w1") as members, PushClient.connect(fresh_settings) as client:
        handles = {}
        for tier, size in sizes.items():
            handles[tier] = client.submit(push(tier=tier, expected_targets=size), audience(size, tier))
        for tier, handle in handles.items():
            members.check_sent_once(handle, audience(sizes[tier], tier), 30)
        eventually(lambda: not task_lanes(admin, names), 20, "lanes of ended tasks are deleted")
        assert members.leave("w1") == 0


def test_sigterm_drains(fresh_settings: Settings, tmp_path: Path) -> None:
    with crew(fresh_settings, tmp_path, "w1") as members, PushClient.connect(fresh_settings) as client:
        client.set_capacity(1_000)
        handle = client.submit(push(tier="low", expected_targets=20_000), audience(20_000))
        eventually(lambda: handle.progress().targets.sent > 500, 20, "it has begun")
        assert members.leave("w1") == 0
        view = handle.progress()
        assert view.targets.sent == sum(members.targets(handle.id).values())
        assert max(members.targets(handle.id).values()) == 1
