"""Envelopes that wait for the end of a pause leave their retry lane as soon as somebody ends it."""

import pytest

from dispatcher.engine.runs import EnvelopeRun
from dispatcher.ports import Delivery
from dispatcher.rounds import turn_of
from dispatcher.wire.envelope import ROUNDS_FORMAT
from dispatcher.wire.groups import TargetGroup
from tests.unit.dispatch.consumers.envelopes import envelope

NOW_MS, SOON_MS, LATER_MS = 1_000, 5_000, 90_000


def group(positions: str, due_ms: int, *, waits: bool) -> TargetGroup:
    return TargetGroup(positions=positions, tries=0, due_ms=due_ms, waits_for_flow=waits)


PAUSED, OWN = group("1", SOON_MS, waits=True), group("2", LATER_MS, waits=False)


def run_of(*groups: TargetGroup) -> EnvelopeRun:
    one = envelope(0, attempt=1, format=ROUNDS_FORMAT, groups=list(groups), not_before_ms=SOON_MS)
    return EnvelopeRun(Delivery(one, 0, 0.0))


def test_an_ended_pause_hurries_what_waits_for_it_and_nothing_behind_a_time_of_its_own() -> None:
    assert turn_of([PAUSED, OWN], NOW_MS, reopened=True) == SOON_MS
    assert turn_of([PAUSED, OWN], NOW_MS, reopened=False) == -1
    own_first = [group("1", SOON_MS, waits=False), group("2", LATER_MS, waits=True)]
    assert turn_of(own_first, NOW_MS, reopened=True) == -1
    assert turn_of(own_first, SOON_MS, reopened=True) == LATER_MS
    alike = [group("1", SOON_MS, waits=True), group("2", SOON_MS, waits=False)]
    assert turn_of(alike, NOW_MS, reopened=True) == -1, "a round tells its targets by their due times"


@pytest.mark.parametrize("reopened", [True, False])
def test_a_run_leaves_its_lane_only_if_its_own_flow_is_open_again(*, reopened: bool) -> None:
    run = run_of(PAUSED, OWN)
    asked: list[str] = []

    def is_reopened(flow: str) -> bool:
        asked.append(flow)
        return reopened

    assert run.reopen(is_reopened, NOW_MS) is reopened
    assert asked == [run.flow]
    run.choose_due(NOW_MS)
    assert run.size == int(reopened)
    assert run.not_before_ms == (NOW_MS if reopened else SOON_MS)


def test_what_waits_for_no_pause_is_left_alone() -> None:
    assert not run_of(OWN).reopen(lambda _: True, NOW_MS)
