"""Which UNSENT targets the provider refused: only these count as failed sends."""

import pytest

from consumers.delivery.push.judging import verdict_on
from dispatcher.channels.guards.trouble import Trouble
from dispatcher.channels.specs import SPECS
from dispatcher.channels.verdict_table import Answer
from dispatcher.model.flow_pause import PauseKind
from dispatcher.verdicts import read_verdict
from dispatcher.wire.outcome import UNSENT, Verdict


@pytest.mark.parametrize("channel", SPECS)
@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_an_answer_of_the_provider_is_a_refusal(channel: str, status: int) -> None:
    answer = Answer(status=status)
    verdict = verdict_on(SPECS[channel].table.row_of(answer), answer, 60.0)
    assert verdict.refused == (verdict.code == UNSENT)
    assert read_verdict(verdict, pytest.fail) is verdict


def test_a_pause_is_none() -> None:
    trouble = Trouble(channel="fcm", app="shop", kind=PauseKind.LIMIT, for_s=60.0, reason="429")
    assert not trouble.put_off.refused


@pytest.mark.parametrize(("given", "refused"), [(True, True), ("yes", False), (1, False), (None, False)])
def test_a_channels_own_verdict_is_read_like_its_other_flags(given: object, refused: bool) -> None:
    verdict = Verdict(UNSENT, "slow down", 1.0, refused=given)  # type: ignore[arg-type]
    assert read_verdict(verdict, lambda _: None).refused is refused
