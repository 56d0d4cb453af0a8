"""From a submitted task to its tombstone, by real worker processes: delivered, counted, cleared away."""

import json
from collections import Counter
from pathlib import Path

import pytest

from backends.pulsar.admin import PulsarAdmin
from fairlane import PushClient, PushTask, Settings
from fairlane.cli import main
from tests.integration.worker_crew import Crew, audience, crew, eventually

MESSAGE = {"title": "hello", "body": "world"}


def own_lanes(settings: Settings) -> list[str]:
    admin = PulsarAdmin(settings.pulsar)
    namespaces = [f"{settings.pulsar.tenant}/tasks-{n:02d}" for n in range(settings.pulsar.namespaces)]
    try:
        return [topic for namespace in namespaces for topic in admin.list_topics(namespace)]
    finally:
        admin.close()


def test_tasks_of_all_tiers_are_delivered_counted_and_cleared_away(fresh_settings: Settings, tmp_path: Path) -> None:
    sizes = {"high": 300, "medium": 700, "low": 400}
    with crew(fresh_settings, tmp_path, "w1") as members, PushClient.connect(fresh_settings) as client:
        handles = {}
        for tier, size in sizes.items():
            task = PushTask(app="shop", tier=tier, channel="log", message=MESSAGE, expected_targets=size)
            handles[tier] = client.submit(task, audience(size, tier))
        for tier, handle in handles.items():
            view = handle.wait(30)
            assert (view.state, view.targets.total, view.targets.sent) == ("completed", sizes[tier], sizes[tier])
            assert view.targets.pending == 0
            assert members.targets(handle.id) == Counter(audience(sizes[tier], tier))
        eventually(lambda: not own_lanes(fresh_settings), 20, "lanes of ended tasks are deleted")
        assert members.leave("w1") == 0


def test_a_task_submitted_before_any_worker_came_is_delivered(fresh_settings: Settings, tmp_path: Path) -> None:
    with PushClient.connect(fresh_settings) as client:
        task = PushTask(app="shop", tier="high", channel="log", message=MESSAGE, expected_targets=1_000)
        handle = client.submit(task, audience(1_000))
        with crew(fresh_settings, tmp_path, "w1") as members:
            assert handle.wait(40).targets.sent == 1_000
            assert members.targets(handle.id) == Counter(audience(1_000))


def test_paused_tasks_wait_and_cancelled_ones_end(fresh_settings: Settings, tmp_path: Path) -> None:
    with crew(fresh_settings, tmp_path, "w1") as members, PushClient.connect(fresh_settings) as client:
        client.set_capacity(100)
        first = client.submit(PushTask(app="a", tier="high", channel="log", message=MESSAGE, chunk=10), audience(3_000))
        second = client.submit(
            PushTask(app="a", tier="high", channel="log", message=MESSAGE, chunk=10), audience(3_000)
        )
        eventually(lambda: first.progress().targets.sent and second.progress().targets.sent, 20, "both have begun")
        first.pause()
        second.cancel()
        view = second.wait(40)
        assert view.state == "cancelled"
        assert view.targets.cancelled + view.targets.sent == view.targets.total == 3_000
        assert sum(members.targets(second.id).values()) == view.targets.sent
        paused_at = first.progress().targets.sent
        assert first.progress().state == "paused"
        client.set_capacity(0)
        first.resume()
        assert first.wait(40).targets.sent == 3_000
        assert paused_at < 3_000
        assert members.targets(first.id) == Counter(audience(3_000))


def test_sigterm_drains(fresh_settings: Settings, tmp_path: Path) -> None:
    with crew(fresh_settings, tmp_path, "w1") as members, PushClient.connect(fresh_settings) as client:
        client.set_capacity(1_000)
        handle = client.submit(PushTask(app="a", tier="low", channel="log", message=MESSAGE), audience(20_000))
        eventually(lambda: handle.progress().targets.sent > 500, 20, "it has begun")
        assert members.leave("w1") == 0
        view = handle.progress()
        assert view.targets.sent == sum(members.targets(handle.id).values())
        assert max(members.targets(handle.id).values()) == 1


def test_the_list_shows_who_is_there(
    fresh_settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLANE_REDIS_URL", fresh_settings.redis.url or "")
    monkeypatch.setenv("FAIRLANE_REDIS_PREFIX", fresh_settings.redis.prefix)

    def listed(*options: str) -> list[dict[str, object]]:
        assert main.run(["worker", "list", "-o", "json", *options]) == 0
        found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
        return found

    with crew(fresh_settings, tmp_path, "w1", "w2") as members:
        eventually(lambda: len(listed()) == 2, 20, "both are listed")
        assert all(str(worker["id"]).startswith(("w1-", "w2-")) for worker in listed())
        eventually(lambda: {worker["state"] for worker in listed()} == {"serving"}, 20, "both serve")
        members.leave("w2")
        eventually(lambda: [worker["state"] for worker in listed()] == ["serving"], 20, "the other one still serves")
        found = {str(worker["id"])[:2]: worker["state"] for worker in listed("--all")}
        assert found.keys() == {"w1", "w2"}
        assert found["w2"] == "stopped"


def metrics_of(members: Crew, name: str) -> str:
    import re
    import urllib.request

    found = re.search(r"metrics on port (\d+)", members.log_of(name))
    assert found
    with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def test_metrics_are_few_and_name_no_task(fresh_settings: Settings, tmp_path: Path) -> None:
    with crew(fresh_settings, tmp_path, "w1") as members, PushClient.connect(fresh_settings) as client:
        handle = client.submit(PushTask(app="a", tier="high", channel="null", message=MESSAGE), audience(500))
        handle.wait(30)
        sent = 'fairlane_targets_total{channel="null",outcome="sent",tier="high"} 500.0'
        empty = 'fairlane_backlog_targets{tier="high"} 0.0'
        eventually(lambda: {sent, empty} <= set(metrics_of(members, "w1").splitlines()), 20, "what was sent is counted")
        text = metrics_of(members, "w1")
        assert handle.id not in text
        assert len([line for line in text.splitlines() if not line.startswith("#")]) < 1_000
