"""Envelopes that no worker can read: no worker ends, and their task does."""

from pathlib import Path
from typing import Any

import pytest

from dispatcher.model.task import Target
from fairlane import PushClient, PushTask, Settings
from fairlane.checks.view_checks import view_findings
from producers.submit import validation
from tests.integration.worker_crew import audience, crew, eventually
from tests.unit.dispatch.test_nesting import in_lists

INNOCENT = 30_000
POISON = 10
BESIDE = 3
"""Targets in the envelope of each poisonous one."""


def accept_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept variables that can be encoded."""
    monkeypatch.setattr(validation, "_encoding_complaint", lambda _: "")
    monkeypatch.setattr(validation, "plain_variables", dict)


def poisoned(levels: int) -> list[Any]:
    """Targets of which every fourth has variables that are nested so deeply that few stacks can encode them."""
    rows: list[Any] = []
    for number in range(POISON):
        rows.append(Target(f"poison-{number}", {"name": in_lists(levels)}))
        rows += [Target(f"beside-{number}-{n}", {"name": "x"}) for n in range(BESIDE)]
    return rows


@pytest.mark.parametrize("levels", [33, 900])
def test_a_poisonous_task_ends_no_worker_and_repeats_no_target_of_another(
    fresh_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, levels: int
) -> None:
    with crew(fresh_settings, tmp_path, "w1", "w2") as members, PushClient.connect(fresh_settings) as push:
        message = {"title": "hello", "body": "world"}
        good = PushTask(app="shop", tier="medium", channel="log", message=message, chunk=20, expected_targets=INNOCENT)
        innocent = push.submit(good, audience(INNOCENT, "innocent"))
        with monkeypatch.context() as careless:
            accept_anything(careless)
            bad = PushTask(app="other", tier="high", channel="log", message=message, chunk=4)
            poison = push.submit(bad, poisoned(levels))
        after = push.submit(good, audience(100, "after"))
        members.check_sent_once(innocent, audience(INNOCENT, "innocent"), 110)
        members.check_sent_once(after, audience(100, "after"), 60)
        view = poison.wait(60)
        assert (view.targets.failed, view.targets.sent) == (POISON * (1 + BESIDE), 0), view
        eventually(
            lambda: any(poison.id in finding.what for finding in view_findings(fresh_settings)), 30, "doctor names it"
        )
        for name in members.members:
            assert members.members[name].poll() is None, "no worker died"
            assert members.leave(name) == 0
