"""An audience that comes gradually, and one that is larger than it was said to be."""

from collections.abc import Iterator

import pytest

from dispatcher.model.errors import Unreachable
from dispatcher.wire.control import Announced, ControlChange
from dispatcher.wire.submission import Submission
from dispatcher.wire.topics import OWN_LANE_ABOVE, Topics
from producers.ports import WindowPace
from producers.submit.report import Watchers
from producers.submit.submit import submit
from producers.submit.validation import Accepted
from producers.submit.windows import WindowCutter
from tests.contract.registry_records import task_record
from tests.unit.dispatch.consumers.fakes import eventually
from tests.unit.dispatch.producers.fake_service import LANE, Died, FakeService, breaking
from tests.unit.dispatch.producers.submitters import Submitter, judge
from tests.unit.dispatch.producers.test_submit import push, run, sent

SHARED = Topics().shared_lane_of("t")


def has(world: FakeService, lane: str, targets: list[str]) -> bool:
    return lane in world.lanes and sent(world, lane) == targets


def test_submission_sends_what_came_within_12_ms_while_it_waits_for_the_rest(world: FakeService) -> None:
    def audience() -> Iterator[str]:
        yield from ["a", "b b", "c", "d"]
        world.clock.advance(0.012)
        eventually(lambda: has(world, LANE, ["a", "c", "d"]))
        yield "e"
        world.clock.advance(0.012)
        eventually(lambda: has(world, LANE, ["a", "c", "d", "e"]))
        yield from ["f", "g g"]

    reported: list[int] = []
    result = submit(world.services(), push(), audience(), Watchers(on_refused=lambda one: reported.append(one.line)))
    assert sent(world) == ["a", "c", "d", "e", "f"]
    assert (result.accepted, result.refused, reported) == (5, 2, [2, 7])
    assert [len(envelope.targets) for envelope in world.envelopes(LANE)] == [2, 1, 1, 1]


def test_gradual_windows_are_12_ms_apart_since_each_is_a_record(world: FakeService) -> None:
    known, encode = Submission(record=task_record("t")), lambda block: [b"envelope"] * block.envelopes
    windows = WindowCutter(2, known, WindowPace(), encode, int, world.clock.monotonic_s)
    closed = 0
    for _ in range(100):
        list(windows.add(Accepted(["a", "b"], None, b"ab")))
        closed += len(list(windows.close_early())) if windows.may_close() else 0
        world.clock.advance(0.003)
    assert closed == pytest.approx(100 * 0.003 / 0.012, abs=1)


def test_short_windows_are_found_again_by_a_list() -> None:
    world = FakeService(ready=True)

    def audience() -> Iterator[str]:
        yield from ["a", "b", "c"]
        world.clock.advance(2)
        eventually(lambda: has(world, LANE, ["a", "b", "c"]))
        yield from ["d", "e"]
        raise Died

    with pytest.raises(Died):
        run(world, push(), audience())
    assert world.records_of(Announced)[0].targets == 3
    again = Submitter(world, list("abcdefg"))
    assert again.result is not None
    judge(world, [again])


def test_a_failure_while_the_audience_keeps_waiting_is_raised_when_it_comes_back(world: FakeService) -> None:
    def audience() -> Iterator[str]:
        yield "a"
        world.fault = failing
        world.clock.advance(2)
        eventually(lambda: bool(failed))
        yield "b"

    failed: list[str] = []

    def failing(step: str) -> None:
        if step == "send" and not failed:
            failed.append(step)
            raise Unreachable("Pulsar is away.")

    with pytest.raises(Unreachable, match="Pulsar is away"):
        run(world, push(), audience())


def test_a_task_that_is_larger_than_it_was_expected_to_be_leaves_its_shared_lane() -> None:
    world, targets = FakeService(), [f"t{number}" for number in range(OWN_LANE_ABOVE + 1)]
    result = run(world, push(tier="low", expected_targets=1, chunk=100), targets)
    assert result.accepted == len(targets)
    assert [(change.field, change.value) for change in world.records_of(ControlChange)] == [("lane", LANE)]
    assert len(sent(world, SHARED)) <= OWN_LANE_ABOVE
    assert sent(world, SHARED) + sent(world, LANE) == targets


def test_a_resumed_submission_uses_the_lane_that_its_task_has_by_now() -> None:
    world, targets = FakeService(ready=True), [f"t{number}" for number in range(4 * OWN_LANE_ABOVE)]
    with pytest.raises(Died):
        run(world, push(tier="low", expected_targets=1, chunk=100), breaking(targets, Died()))
    world.fold()
    before = len(sent(world, SHARED))
    assert sent(world, LANE)
    run(world, push(tier="low", expected_targets=1, chunk=100), targets)
    assert len(sent(world, SHARED)) == before
    assert set(sent(world, SHARED) + sent(world, LANE)) == set(targets)
    assert [move.value for move in world.records_of(ControlChange)] == [LANE]
