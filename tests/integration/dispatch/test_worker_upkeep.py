"""Work of workers for the whole service: tombstones, lanes left behind, rebuilt views, processes kept alive."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from backends.pulsar.admin import PulsarAdmin
from fairlane import PushClient, Settings
from tests.integration.worker_crew import START_S, audience, crew, eventually, let_commands_use, push
from tests.unit.command_line import CommandLine


def test_the_lane_of_an_ended_task_that_came_back_is_swept_by_the_next_worker(
    fresh_settings: Settings, admin: PulsarAdmin, tmp_path: Path
) -> None:
    with PushClient.connect(fresh_settings) as client:
        with crew(fresh_settings, tmp_path / "1", "w1"):
            handle = client.submit(push(), audience(50))
            lane = handle.wait(30).lane
            eventually(lambda: not admin.topic_exists(lane), 20, "the lane is deleted")
        stray = lane.rpartition("/")[0] + "/of-a-task-nobody-knows"
        admin.create_lane(lane)
        admin.create_lane(stray)
        with crew(fresh_settings, tmp_path / "2", "w2"):
            eventually(lambda: not admin.topic_exists(lane), 30, "the lane is swept")
            assert admin.topic_exists(stray)  # it may be the lane of a task whose record is just being written


def test_the_view_is_rebuilt_by_hand_without_a_worker(
    fresh_settings: Settings, tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_commands_use(fresh_settings, monkeypatch)
    with PushClient.connect(fresh_settings) as client:
        with crew(fresh_settings, tmp_path, "w1") as members:
            handle = client.submit(push(), audience(50))
            handle.wait(30)
            members.leave("w1")
        waiting = client.submit(push(), audience(70))
        before = handle.progress(), waiting.progress()
        assert json.loads(cli(["registry", "rebuild", "--wipe", "-o", "json"]).out)["complete"] is True
        for then, now in zip(before, (handle.progress(), waiting.progress()), strict=True):
            assert (now.state, now.targets, now.sealed) == (then.state, then.targets, then.sealed)
    assert json.loads(cli(["registry", "status", "-o", "json"]).out)["grants"] is True


def test_several_processes_are_kept_alive_and_leave_together(fresh_settings: Settings, tmp_path: Path) -> None:
    with crew(fresh_settings, tmp_path) as members, PushClient.connect(fresh_settings) as client:
        members.join("w", "--processes", "2")

        def serving() -> list[str]:
            return re.findall(r"worker (w-\d)-\w+ serves", members.log_of("w"))

        eventually(lambda: sorted(serving()) == ["w-1", "w-2"], START_S, "both serve")
        eventually(lambda: len(client.workers()) == 2, 20, "both beat")
        victim = next(worker for worker in client.workers() if worker.id.startswith("w-1-"))
        os.kill(victim.pid, signal.SIGKILL)
        eventually(lambda: sorted(serving()) == ["w-1", "w-1", "w-2"], START_S, "another one serves")
        handle = client.submit(push(), audience(100))
        assert handle.wait(30).targets.sent == 100
        assert members.leave("w") == 0
        assert len(re.findall("has left", members.log_of("w"))) == 2
