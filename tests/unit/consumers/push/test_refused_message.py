"""A message that the provider, or its form, refuses for everybody is reported once."""

from pathlib import Path
from typing import Any

import pytest

from dispatcher.model.flow_pause import PauseKind
from dispatcher.wire.outcome import Outcome
from tests.unit.consumers.push.rig import codes, rig, run

PAYLOAD: dict[str, dict[str, Any]] = {
    "fcm": {"status": 400, "code": "INVALID_ARGUMENT"},
    "apns": {"status": 400, "code": "BadPriority"},
}


@pytest.mark.parametrize("name", ["fcm", "apns"])
def test_a_hundred_refusals_are_reported_with_the_reason(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with rig(name, tmp_path) as at:
            at.rule(answers=[PAYLOAD[name]])
            await at.deliver(at.targets(99))
            assert at.refusals == []
            assert codes(await at.deliver(at.targets(20, first=100))) == [int(Outcome.FAILED)] * 20
            [refusal] = at.refusals
            assert refusal.task == "task-1"
            assert PAYLOAD[name]["code"] in refusal.reason

    run(main())


def test_a_message_that_cannot_be_rendered_is_refused_for_everybody(tmp_path: Path) -> None:
    async def main() -> None:
        async with rig("fcm", tmp_path) as at:
            await at.deliver(at.targets(120), message={"boddy": "x"})
            [refusal] = at.refusals
            assert "unknown field `boddy`" in refusal.reason

    run(main())


def test_a_message_that_somebody_got_is_not_reported(tmp_path: Path) -> None:
    async def main() -> None:
        async with rig("fcm", tmp_path) as at:
            await at.deliver(at.targets(1))
            at.rule(answers=[PAYLOAD["fcm"]])
            await at.deliver(at.targets(150, first=10))
            assert at.refusals == []

    run(main())


def test_a_message_whose_header_no_request_can_carry_is_refused_for_everybody(tmp_path: Path) -> None:
    async def main() -> None:
        async with rig("apns", tmp_path) as at:
            await at.deliver(at.targets(120), message={"title": "x", "collapse": "a\nb"})
            [refusal] = at.refusals
            assert "control character" in refusal.reason

    run(main())


def test_a_setting_that_no_request_can_carry_pauses_the_flow_and_fails_no_target(tmp_path: Path) -> None:
    async def main() -> None:
        async with rig("apns", tmp_path, app_settings={"topic": "com.example\t"}) as at:
            assert int(Outcome.FAILED) not in codes(await at.deliver(at.targets(120)))
            assert at.refusals == []
            assert {trouble.kind for trouble in at.gate.troubles} == {PauseKind.CREDENTIALS}
            assert "apns-topic would hold a control character" in at.gate.troubles[0].reason

    run(main())
