"""Several submitters of a task, some of which stop or die: the targets reported as accepted are delivered."""

from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dispatcher.model.errors import AudienceMismatch, BeingSubmitted
from producers.submit import cutter
from tests.unit.dispatch.producers.fake_service import MAKES, FakeService
from tests.unit.dispatch.producers.submitters import Submitter, complete, judge, judge_reports

TARGETS = [f"t{number}" for number in range(13)]
OTHER = [*TARGETS[:6], *(f"o{number}" for number in range(9))]
GROWN = [*TARGETS, "more", "and", "more", "of", "it"]
AUDIENCES = {"same": TARGETS, "grown": GROWN, "other": OTHER, "shorter": TARGETS[:9], "none": []}
STEPS = 34
"""More than a submission has."""


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a short audience has many windows."""
    monkeypatch.setattr(cutter, "_FIRST_SLAB", 2)
    monkeypatch.setattr(cutter, "MAX_SLAB", 4)


@pytest.mark.parametrize("empties", [False, True], ids=["", "redis-emptied"])
@pytest.mark.parametrize("folds", [False, True], ids=["fold-lags", "folded"])
@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize(("one", "two"), [("list", "stream"), ("stream", "list"), ("stream", "file")])
def test_a_submitter_that_stops_anywhere_and_wakes_after_another_one_does_no_harm(
    one: str, two: str, audience: str, folds: bool, empties: bool
) -> None:
    for stops_at in range(STEPS):
        world = FakeService(ready=True)
        first = Submitter(world, TARGETS, MAKES[one], stops_at)
        stopped = first.stopped
        if folds:
            world.fold()
        if empties:
            world.view.wipe()
        second = Submitter(world, AUDIENCES[audience], MAKES[two])
        first.wakes()
        judge(world, [first, second, *complete(world, [TARGETS, AUDIENCES[audience]])])
    assert not stopped, "STEPS is less than a submission has"


@pytest.mark.parametrize("audience", ["grown", "other"])
def test_two_that_stop_anywhere_and_wake_in_the_order_in_which_they_came(audience: str) -> None:
    for stops_at, then_at in product(range(0, 24, 2), range(1, STEPS, 3)):
        world = FakeService(ready=True)
        first = Submitter(world, TARGETS, iter, stops_at)
        second = Submitter(world, AUDIENCES[audience], iter, then_at)
        first.wakes()
        second.wakes()
        judge(world, [first, second, *complete(world, [TARGETS, AUDIENCES[audience]])])


def test_one_that_takes_over_late_does_no_harm_to_one_that_took_over_before() -> None:
    for stops_at, then_at in product(range(6), range(1, STEPS, 2)):
        world = FakeService(ready=True)
        Submitter(world, TARGETS, stops_at=14).dies()
        first = Submitter(world, TARGETS, iter, stops_at)
        second = Submitter(world, GROWN, iter, then_at)
        first.wakes()
        second.wakes()
        judge(world, [first, second, *complete(world, [TARGETS, GROWN])])


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(AUDIENCES)), st.sampled_from(sorted(MAKES)), st.integers(0, STEPS), st.booleans()
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.sampled_from(["fold", "empty", "rebuild", "wait", "wake", ""]), min_size=4, max_size=4),
)
@example(  # the third, taken over, finds Redis emptied while a second window of it waits to be announced
    [("grown", "file", 3, True), ("grown", "file", 6, True), ("grown", "file", 8, False), ("other", "file", 4, False)],
    ["fold", "fold", "fold", "empty"],
)
def test_any_number_of_submitters_that_stop_and_die(
    submitters: list[tuple[str, str, int, bool]], between: list[str]
) -> None:
    world = FakeService(ready=True)
    running: list[Submitter] = []
    for (audience, make, stops_at, dies), happens in zip(submitters, between, strict=False):
        each = Submitter(world, AUDIENCES[audience], MAKES[make], stops_at)
        running.append(each)
        if dies:
            each.dies()
        happen(world, happens, running)
    for each in running:
        each.wakes()
    world.fold()
    judge(world, [*running, *complete(world, list(AUDIENCES.values()))])


def happen(world: FakeService, what: str, running: list[Submitter]) -> None:
    match what:
        case "fold":
            world.fold()
        case "empty":
            world.view.wipe()
        case "rebuild":
            world.fold()
            world.complete_view()
        case "wait":
            world.clock.advance(6)
        case "wake":
            for each in running:
                each.wakes()


def test_whoever_submits_what_another_submits_is_told_who_that_is() -> None:
    world = FakeService(ready=True)
    first = Submitter(world, TARGETS, stops_at=8)
    lease = world.view.keys.submitting("t")
    world.fault = lambda step: world.view.command("HSET", lease, "until_ms", world.clock.wall_ms() + 5_000)
    second = Submitter(world, TARGETS)
    assert isinstance(second.error, BeingSubmitted)
    assert "is being submitted by another process since" in str(second.error)
    world.recover()
    first.wakes()
    assert first.result is not None


def test_a_submitter_that_was_taken_over_is_told() -> None:
    world = FakeService(ready=True)
    first = Submitter(world, TARGETS, stops_at=12)
    second = Submitter(world, TARGETS)
    first.wakes()
    assert second.result is not None
    assert isinstance(first.error, BeingSubmitted)
    assert "taken over" in str(first.error)


@pytest.mark.parametrize("make", ["list", "stream"])
@pytest.mark.parametrize("audience", ["grown", "shorter"])
def test_a_submitter_that_was_taken_over_is_told_also_if_the_task_has_ended_by_then(audience: str, make: str) -> None:
    """It does not report the targets of its own audience as accepted."""
    for stops_at in range(0, STEPS, 2):
        world = FakeService(ready=True)
        first = Submitter(world, TARGETS, MAKES[make], stops_at)
        second = Submitter(world, AUDIENCES[audience])
        if second.result is not None:
            world.finish("t")
            world.fold()
        first.wakes()
        judge_reports(world, [first, second])
        assert first.result is None or not first.result.stopped, stops_at


def test_an_unsealed_audience_that_grew_goes_on_and_a_sealed_one_is_refused() -> None:
    world = FakeService(ready=True)
    Submitter(world, TARGETS, stops_at=14).dies()
    grown = Submitter(world, GROWN)
    assert grown.result is not None
    assert grown.result.accepted == len(GROWN)
    for other in (TARGETS, [*GROWN, "x"]):
        assert isinstance(Submitter(world, other).error, AudienceMismatch)
    judge(world, [grown])
