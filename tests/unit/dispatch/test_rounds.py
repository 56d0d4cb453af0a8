"""Groups of open targets after a round."""

import pytest

from dispatcher.retry import NextStep, TargetState
from dispatcher.rounds import groups_after
from dispatcher.wire.outcome import RETRY
from tests.unit.dispatch.consumers.envelopes import envelope


@pytest.mark.parametrize("first_ms", [[10, 20, 30], [30, 20, 10], [20, 10, 0]])
def test_the_age_of_a_group_is_that_of_its_oldest_target(first_ms: list[int]) -> None:
    """`retry_for_s` counts from the first call, so a younger target must not make an older one younger."""
    steps = [NextStep(RETRY, "503", TargetState(tries=1, due_ms=500, first_ms=one)) for one in first_ms]
    [group] = groups_after(envelope(0, ["a", "b", "c"]), steps, [0, 1, 2])
    assert (group.first_ms, group.count) == (10, 3)
