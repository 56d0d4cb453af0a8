"""A message that the provider, or its form, refuses for everybody is reported once."""

from typing import Any

import msgspec
import pytest

from consumers.delivery.push.apns import ApnsProvider
from consumers.delivery.push.credentials import Credential
from consumers.delivery.push.provider import Authorization
from dispatcher.model.flow_pause import PauseKind
from dispatcher.wire.outcome import Outcome
from tests.unit.dispatch.consumers.push.rig import Rig, codes, rigged

PAYLOAD: dict[str, dict[str, Any]] = {
    "fcm": {"status": 400, "code": "INVALID_ARGUMENT"},
    "apns": {"status": 400, "code": "BadPriority"},
}


async def test_a_hundred_refusals_are_reported_with_the_reason(at: Rig) -> None:
    at.rule(answers=[PAYLOAD[at.name]])
    await at.deliver(at.targets(99))
    assert at.refusals == []
    assert codes(await at.deliver(at.targets(20, first=100))) == [int(Outcome.FAILED)] * 20
    [refusal] = at.refusals
    assert refusal.task == "task-1"
    assert PAYLOAD[at.name]["code"] in refusal.reason


@rigged("fcm")
async def test_a_message_that_cannot_be_rendered_is_refused_for_everybody(at: Rig) -> None:
    await at.deliver(at.targets(120), message={"boddy": "x"})
    [refusal] = at.refusals
    assert "unknown field `boddy`" in refusal.reason


@rigged("fcm")
async def test_a_message_that_somebody_got_is_not_reported(at: Rig) -> None:
    await at.deliver(at.targets(1))
    at.rule(answers=[PAYLOAD["fcm"]])
    await at.deliver(at.targets(150, first=10))
    assert at.refusals == []


@rigged("apns")
async def test_a_message_whose_header_no_request_can_carry_is_refused_for_everybody(at: Rig) -> None:
    await at.deliver(at.targets(120), message={"title": "x", "collapse": "a\nb"})
    [refusal] = at.refusals
    assert "control character" in refusal.reason


@rigged("apns")
async def test_a_proof_that_no_request_can_carry_pauses_the_flow_and_fails_no_target(
    at: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorize = ApnsProvider.authorize

    def with_tab(provider: ApnsProvider, credential: Credential, wall_s: float) -> Authorization:
        made = authorize(provider, credential, wall_s)
        return msgspec.structs.replace(made, headers=(made.headers[0], ("apns-topic", "com.example\t")))

    monkeypatch.setattr(ApnsProvider, "authorize", with_tab)
    assert int(Outcome.FAILED) not in codes(await at.deliver(at.targets(120)))
    assert at.refusals == []
    assert {trouble.kind for trouble in at.gate.troubles} == {PauseKind.CREDENTIALS}
    assert "apns-topic would hold a control character" in at.gate.troubles[0].reason
