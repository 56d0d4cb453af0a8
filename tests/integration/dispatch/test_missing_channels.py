"""Channels that some workers lack, or all: nothing fails for that, and others send it."""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backends.pulsar.admin import PulsarAdmin
from fairlane import PushClient, PushTask, Settings
from producers.handle import TaskHandle
from tests.integration.worker_crew import Crew, audience, crew, eventually, let_commands_use, push, text_of
from tests.unit.command_line import CommandLine

TARGETS = 200


def join_with_sms(members: Crew, name: str) -> None:
    """A worker that has the channel sms, which writes what it delivers to the log of all."""
    members.config = f'[worker.channels]\nsms = "log"\n[channels.sms]\npath = {json.dumps(str(members.delivered))}\n'
    members.join(name)
    members.await_serving(name)


def sms(tier: str, **fields: Any) -> PushTask:
    """A task of which no attempt may be wasted. In the low tier it shares its lane."""
    return push(app="shop", tier=tier, channel="sms", expected_targets=TARGETS, max_attempts=1, **fields)


def submit_all(client: PushClient) -> list[TaskHandle]:
    """Tasks with lanes of their own, and tasks in shared lanes."""
    return [client.submit(sms(tier), audience(TARGETS)) for tier in ["high"] * 5 + ["low"] * 20]


def check_all_sent(members: Crew, handles: list[TaskHandle]) -> None:
    for handle in handles:
        members.check_sent_once(handle, audience(TARGETS), 90)


def check_commands(task: str, members: Crew, cli: CommandLine) -> None:
    """Texts of the command line about tasks whose channel no worker has."""
    run, missing = partial(text_of, cli), "no worker has channel sms"
    assert missing in run("task", "show", task)
    assert f"waits now: {missing}" in run("task", "why", task)
    assert f"{missing}: 25 tasks with {25 * TARGETS:,} targets wait for it" in run("tier", "show")
    assert f"{missing}: 25 tasks" in run("doctor")

    targets = members.folder / "targets.txt"
    targets.write_text("a\n")
    submit = ["task", "submit", "--app", "shop", "--body", "Hi", "--channel", "sms", "--targets", str(targets)]
    refused = run(*submit, "--id", "refused", "--strict", code=5)
    assert f"Nothing was submitted: {missing}. Live workers have: log, null." in refused
    run("task", "show", "refused", code=3)
    assert f"Warning: {missing}" in run(*submit, "--id", "warned")
    run("task", "cancel", "warned")


def test_a_worker_that_lacks_a_channel_fails_nothing_that_another_can_send(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    with crew(fresh_settings, tmp_path, "lacks-it") as members, PushClient.connect(fresh_settings) as client:
        join_with_sms(members, "has-it")
        handles = submit_all(client)
        others = client.submit(push(tier="low", expected_targets=TARGETS), audience(TARGETS))
        check_all_sent(members, handles)
        assert others.wait(30).targets.sent == TARGETS
        assert "ERROR" not in members.log_of("lacks-it")


def test_envelopes_of_a_cancelled_task_leave_a_shared_lane_though_no_worker_has_its_channel(
    fresh_settings: Settings, admin: PulsarAdmin, tmp_path: Path
) -> None:
    with crew(fresh_settings, tmp_path, "lacks-it"), PushClient.connect(fresh_settings) as client:
        handle = client.submit(sms("low"), audience(TARGETS))
        lane = handle.progress().lane
        handle.cancel()
        assert handle.wait(30).targets.cancelled == TARGETS
        eventually(lambda: admin.backlog(lane) == 0, 60, "the shared lane is empty")


def test_tasks_of_a_channel_that_no_worker_has_wait_for_one_and_can_be_cancelled(
    fresh_settings: Settings, tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_commands_use(fresh_settings, monkeypatch)
    with crew(fresh_settings, tmp_path, "lacks-it") as members, PushClient.connect(fresh_settings) as client:
        handles = submit_all(client)
        own, shared = client.submit(sms("high"), audience(TARGETS)), client.submit(sms("low"), audience(TARGETS))
        short = client.submit(sms("low", ttl_s=2.0), audience(TARGETS))
        eventually(lambda: "has no channel sms" in members.log_of("lacks-it"), 20, "it has met the shared lanes")
        own.cancel()
        shared.cancel()
        assert [handle.wait(60).state for handle in (own, shared, short)] == ["cancelled", "cancelled", "expired"]
        assert Counter(handle.progress().targets.pending for handle in handles) == {TARGETS: len(handles)}
        assert members.log_of("lacks-it").count("has no channel sms") == 1
        check_commands(handles[0].id, members, cli)
        join_with_sms(members, "has-it")
        check_all_sent(members, handles)
