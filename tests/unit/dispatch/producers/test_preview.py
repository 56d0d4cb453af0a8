"""A dry run of a submission: what is accepted, and the requests that would leave."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from dispatcher.channels.spec import Handling
from dispatcher.channels.specs import SPECS
from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import PushTask, Target
from dispatcher.model.tier import Tier
from producers.files.targets_file import TargetsFile
from producers.submit.intake import AudienceRules
from producers.submit.preview import Preview, preview
from tests.virtual_clock import VirtualClock

LOCALES = {"de": {"title": "Hallo {{name}}"}, "zh-Hant": {"title": "你好"}}


def token(number: int) -> str:
    return f"device{number}:APA91b{'x' * 120}"


def push(channel: str = "fcm", **fields: Any) -> PushTask:
    message = {"title": "Hi {{name}}", "body": "b"}
    return PushTask(**{"app": "shop", "tier": "high", "channel": channel, "message": message, **fields})


def person(number: int, lang: str | None = None, **variables: Any) -> Target:
    language = {} if lang is None else {"lang": lang}
    return Target(token(number), {"name": f"N{number}", **language, **variables})


def run(task: PushTask, targets: Any, rules: AudienceRules = AudienceRules(), **chosen: Any) -> Preview:
    return preview(task, targets, VirtualClock(), rules, **chosen)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run needs no server."""
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("it connects"))


def test_the_whole_audience_is_counted_and_refused_targets_are_named() -> None:
    people = [person(1), person(2), Target("bad one", {"name": "x"}), Target(token(3)), person(2)]
    found = run(push(), people, AudienceRules(duplicates="count"))
    assert (found.result.accepted, found.result.refused, found.result.duplicates, found.requests) == (3, 2, 1, [])
    assert [refusal.line for refusal in found.result.refusals] == [3, 4]
    assert run(push(), people, AudienceRules(duplicates="remove")).result.accepted == 2


def test_samples_are_shown_for_each_language() -> None:
    people = [person(1, "de-AT"), person(2, "de"), person(3), person(4, "fr"), person(5, "zh-TW"), person(6, "de")]
    found = run(push(locales=LOCALES), people, samples=1)
    assert found.languages == {"de": 3, "": 2, "zh-Hant": 1}
    assert found.result.without_text == {"fr": 1}
    titles = {one.language: one.payload["message"]["notification"]["title"] for one in found.requests}
    assert titles == {"de": "Hallo N1", "": "Hi N3", "zh-Hant": "你好"}
    assert len(run(push(locales=LOCALES), people, samples=2).requests) == 5


@pytest.mark.parametrize("channel", SPECS)
def test_a_request_is_the_one_that_the_channel_renders(channel: str) -> None:
    address = token(1) if channel == "fcm" else "ab" * 32
    task, variables = push(channel, collapse="order-{{order}}", ttl_s=60), {"name": "Ann", "order": "A1"}
    (shown,) = run(task, [(address, variables)], samples=9).requests
    now_ms = VirtualClock().wall_ms()
    rendering = SPECS[channel].render(task.complete_message, Handling(Tier.HIGH, now_ms, now_ms + 60_000))
    sent = rendering.request(address, variables)
    assert (shown.headers, shown.payload) == (sent.headers, json.loads(sent.body))


def test_a_target_is_found_in_any_spelling_beside_the_samples() -> None:
    people = ["ab" * 32, "cd" * 32]
    (found,) = run(push("apns", message="Hi"), people, target="CD" * 32).requests
    assert found.target == "cd" * 32
    assert run(push("apns", message="Hi"), people, target="ef" * 32).requests == []
    assert len(run(push("apns", message="Hi"), people, samples=1, target="CD" * 32).requests) == 2


def test_a_channel_without_rules_shows_what_it_is_given() -> None:
    (shown,) = run(push("http"), [("a", {"name": "Ann"})], samples=1).requests
    assert shown.payload == {"message": push("http").message, "target": "a", "variables": {"name": "Ann"}}


@pytest.mark.parametrize(
    ("task", "targets", "cause"),
    [
        (push(), [], "is empty"),
        (push(), ["x"], "no target that is accepted"),
        (push(start_at="2030-01-31T18:00Z"), [person(1)], "more than 30 days ahead"),
        (push("apns", message="Hi", expected_targets=1), ["short"], "no target that is accepted"),
        (push(), "one text", "the audience is of type str"),
    ],
)
def test_what_a_submission_refuses_a_dry_run_refuses(task: PushTask, targets: Any, cause: str) -> None:
    with pytest.raises(InvalidInput, match=cause):
        run(task, targets)


def test_a_file_without_a_column_for_a_variable_is_refused(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(f"token,first\n{token(1)},Ann\n")
    with pytest.raises(InvalidInput, match="no column: name"):
        run(push(), TargetsFile(tmp_path / "people.csv"))
