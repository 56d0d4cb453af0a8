"""A submission that waits for a go: its first targets are where workers find them, all others are in its own lane."""

from contextlib import suppress
from typing import Any

import pytest

from dispatcher.model.errors import InvalidInput
from dispatcher.model.tier import Tier
from dispatcher.wire.control import TaskRecord
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.topics import Topics
from producers.submit.intake import MAX_FIRST, AudienceRules
from producers.submit.report import SubmitResult
from tests.unit.dispatch.producers import test_submit
from tests.unit.dispatch.producers.fake_service import LANE, MAKES, Died, FakeService, Make, slabs
from tests.unit.dispatch.producers.test_submit import push

FIRST_LANE = Topics().retry_lane(Tier.HIGH, 1)
NAMES = [f"n{number:02}" for number in range(23)]


def run(world: FakeService, targets: Any, first: int | None = 5, **fields: Any) -> SubmitResult:
    return test_submit.run(world, push(**fields), targets, rules=AudienceRules(first=first))


def in_lane(world: FakeService, lane: str) -> list[str]:
    """The targets in a lane, copies left out, in the order of their sequences."""
    distinct: dict[int, Envelope] = {envelope.sequence: envelope for envelope in world.envelopes(lane)}
    return [target for _, envelope in sorted(distinct.items()) for target in envelope.targets]


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize("first", [1, 4, 5, 11])
def test_exactly_the_first_targets_are_where_workers_find_them(world: FakeService, make: Make, first: int) -> None:
    result = run(world, make(NAMES), first)
    assert in_lane(world, FIRST_LANE) == NAMES[:first]
    assert in_lane(world, LANE) == NAMES[first:]
    envelopes = world.envelopes(FIRST_LANE)
    assert [envelope.sequence for envelope in envelopes] == list(range(-(-first // 2)))
    assert result.accepted == len(NAMES)
    (record,) = world.records_of(TaskRecord)
    assert (record.first, record.lane, record.shared) == (first, LANE, False)


def test_an_audience_that_is_no_larger_is_sent_to_whole(world: FakeService) -> None:
    assert run(world, NAMES[:3], 5).accepted == 3
    assert in_lane(world, FIRST_LANE) == NAMES[:3]
    assert LANE not in world.lanes or world.envelopes(LANE) == []


def test_a_small_low_task_gets_its_own_lane_to_wait_in(world: FakeService) -> None:
    run(world, NAMES, tier="low")
    assert in_lane(world, Topics().retry_lane(Tier.LOW, 1)) == NAMES[:5]
    assert in_lane(world, LANE) == NAMES[5:]


def test_a_submission_that_is_continued_publishes_the_same_envelopes() -> None:
    """It dies before each of its steps and is submitted again, without the option."""
    whole = FakeService()
    run(whole, slabs(NAMES, 3))
    for dies_at in range(len(whole.steps)):
        world = FakeService()
        world.die_after(dies_at)
        with suppress(Died):  # it takes fewer steps if a checkpoint is stored late
            run(world, slabs(NAMES, 3))
        world.recover()
        world.clock.advance(10)
        begun = world.records_of(TaskRecord)
        assert run(world, slabs(NAMES, 3), None if begun else 5).accepted == len(NAMES)
        assert in_lane(world, FIRST_LANE) == NAMES[:5], dies_at
        assert in_lane(world, LANE) == NAMES[5:], dies_at


@pytest.mark.parametrize("first", [0, MAX_FIRST + 1])
def test_the_number_has_limits(world: FakeService, first: int) -> None:
    with pytest.raises(InvalidInput, match=r"first: is \d+; it must be 1 to 10,000"):
        run(world, NAMES, first)
    assert world.records == []


def test_a_start_time_cannot_be_kept_for_the_first_targets(world: FakeService) -> None:
    with pytest.raises(InvalidInput, match="first: the first targets are sent at once"):
        run(world, NAMES, start_at="2090-01-01T00:00:00Z", ttl_s=None)
    assert world.records == []
