"""A submission is checked by its channel before anything is created."""

from pathlib import Path
from typing import Any

import pytest

from dispatcher.channels.submission.target_check import languages_text
from dispatcher.model.errors import AudienceMismatch, InvalidInput
from dispatcher.model.task import PushTask, Target
from dispatcher.wire.envelope import decode_message
from producers.files.targets_file import TargetsFile
from producers.submit.intake import AudienceRules
from tests.unit.dispatch.producers import test_submit
from tests.unit.dispatch.producers.fake_service import LANE, FakeService
from tests.unit.dispatch.producers.test_submit import run

UNIQUE = AudienceRules(duplicates="remove")
TOKEN, OTHER = "ab" * 32, "cd" * 32


def push(**fields: Any) -> PushTask:
    return test_submit.push(**{"channel": "apns", "message": "Hi {{name}}"} | fields)


def test_targets_that_its_provider_would_refuse_are_refused_with_line_and_reason(world: FakeService) -> None:
    result = run(world, push(), [Target(TOKEN, {"name": "Ann"}), ("short", {"name": "Bob"}), OTHER])
    assert (result.accepted, [refusal.line for refusal in result.refusals]) == (1, [2, 3])
    assert result.refusals[0].reason == "the target is not a device token in hexadecimal digits"
    assert "variable name" in result.refusals[1].reason


@pytest.mark.parametrize("targets", [[TOKEN], ["short"], iter([TOKEN, OTHER])])
def test_an_audience_without_a_target_that_fits_leaves_nothing_behind(world: FakeService, targets: Any) -> None:
    with pytest.raises(InvalidInput, match="has no target that is accepted"):
        run(world, push(), targets)
    assert world.records == []
    assert "create" not in world.steps


def test_a_file_without_a_column_for_a_variable_leaves_nothing_behind(world: FakeService, tmp_path: Path) -> None:
    file = tmp_path / "devices.csv"
    file.write_text(f"token;town\n{TOKEN};Ulm\n")
    with pytest.raises(InvalidInput, match=r"no column: name\. .*\{\{name\|a default\}\}"):
        run(world, push(), TargetsFile(file))
    assert world.records == []
    file.write_text(f"token;name\n{TOKEN};Ann\n")
    assert run(world, push(), TargetsFile(file)).accepted == 1


def test_the_message_travels_with_the_tasks_fields_for_delivery(world: FakeService) -> None:
    task = push(message="Hi", collapse="sale", provider_ttl_s=60)
    run(world, task, [TOKEN])
    assert decode_message(world.envelopes(LANE)[0].message) == {"body": "Hi", "collapse": "sale", "provider_ttl_s": 60}
    assert run(world, task, [TOKEN]).accepted == 1
    with pytest.raises(AudienceMismatch, match="another message"):
        run(world, push(message="Hi", collapse="other"), [TOKEN])


def test_other_channels_take_any_target_and_message(world: FakeService) -> None:
    result = run(world, push(channel="http", message={"text": "{{x y}}"}), ["short", TOKEN])
    assert (result.accepted, result.refused) == (2, 0)


def test_a_submission_says_how_many_targets_have_a_language_without_a_text(world: FakeService) -> None:
    tags = ["de-AT", "fr", "fr_FR", "fr", "it", "", None, "iw", 7]
    targets = [(f"{number:064x}", {"name": "Ann", "lang": tag}) for number, tag in enumerate(tags)]
    locales: Any = {"de": "Hallo", "he": "Shalom"}
    result = run(world, push(locales=locales), [*targets, ("bad", {"lang": "es"}), targets[1]], rules=UNIQUE)
    assert result.without_text == {"fr": 2, "fr_FR": 1, "it": 1, "7": 1}
    assert languages_text(result.without_text) == (
        "5 targets with a language without a text (fr 2, fr_FR 1, it 1, 7 1): they get the texts of the message itself"
    )


@pytest.mark.parametrize("targets", [[TOKEN], [(TOKEN, {"name": "Ann", "lang": "fr"})]])
def test_without_locales_no_language_lacks_a_text(world: FakeService, targets: Any) -> None:
    result = run(world, push(message="Hi"), targets)
    assert result.without_text == {}
    assert languages_text(result.without_text) == ""


def test_a_request_that_the_provider_would_refuse_leaves_nothing_behind(
    world: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = push(message="Hi")
    monkeypatch.setattr("dispatcher.channels.rules.apns.MAX_PAYLOAD_BYTES", 5)
    monkeypatch.setattr("dispatcher.channels.submission.task_message._problems", lambda *_: ())
    with pytest.raises(InvalidInput, match="message: has 31 bytes; at most 5 are possible"):
        run(world, task, [TOKEN])
    assert world.records == []
