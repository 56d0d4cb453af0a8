"""Audiences that are none, that are empty, or in which targets come more than once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dispatcher.model.errors import AudienceMismatch, InvalidInput
from dispatcher.model.task import Target
from dispatcher.wire.control import Sealed
from producers.files.duplicates import COUNTED
from producers.files.targets_file import TargetsFile
from producers.submit.intake import AudienceRules
from tests.unit.dispatch.producers.fake_service import LANE, MAKES, FakeService, Make, breaking, slabs
from tests.unit.dispatch.producers.test_submit import push, run, sent

REMOVE, COUNT = AudienceRules(duplicates="remove"), AudienceRules(duplicates="count")


@pytest.mark.parametrize(
    "audience", ["token-1", b"token-1", bytearray(b"t"), {"token-1": {}}, None, 7, Path("a.csv"), Target("a")]
)
def test_what_is_no_audience_is_refused_before_a_task_exists(world: FakeService, audience: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"targets: .*type {type(audience).__name__};.*iterable"):
        run(world, push(), audience)
    assert world.steps == []


EMPTY: list[Callable[[], object]] = [list, lambda: iter(()), set, lambda: slabs([], 3)]
REFUSED: list[Callable[[], object]] = [
    lambda: ["a a", ""],
    lambda: iter(["a a"] * 1_000),
    lambda: slabs(["a a"] * 7, 2),
]


@pytest.mark.parametrize(
    ("audience", "complaint"),
    [
        *[(empty, r"audience of task t is empty.*--allow-empty") for empty in EMPTY],
        *[(bad, r"no target that is accepted \(.* refused; the first, line 1: .*whitespace") for bad in REFUSED],
    ],
)
def test_an_audience_without_a_good_target_creates_nothing_and_leaves_the_id_free(
    world: FakeService, audience: Callable[[], object], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        run(world, push(), audience())
    assert world.steps == []
    assert run(world, push(), ["a"]).accepted == 1


@pytest.mark.parametrize("audience", EMPTY + REFUSED)
def test_an_empty_audience_may_be_allowed(world: FakeService, audience: Callable[[], object]) -> None:
    assert run(world, push(), audience(), rules=AudienceRules(allow_empty=True)).accepted == 0
    assert [record.targets for record in world.records_of(Sealed)] == [0]


def test_a_task_that_was_begun_is_not_sealed_by_an_empty_audience(world: FakeService) -> None:
    """Its query failed after the task was stored, and returns nothing now."""
    with pytest.raises(RuntimeError):
        run(world, push(), breaking(["a"], RuntimeError("the database went away")))
    with pytest.raises(InvalidInput, match=r"is empty.*Task t is incomplete"):
        run(world, push(), [])
    assert run(world, push(), ["a", "b"]).accepted == 2


def test_an_error_of_a_stream_before_its_first_target_leaves_no_task_behind(world: FakeService) -> None:
    with pytest.raises(RuntimeError) as caught:
        run(world, push(), breaking([], RuntimeError("no such table")))
    assert world.steps == []
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_duplicates_are_removed_and_the_first_of_each_is_kept(world: FakeService, make: Make) -> None:
    items: list[object] = ["a", "b", ("a", {"n": 1}), "a", "c", "b b", "b", Target("d", {"n": 2}), "d", "d"]
    result = run(world, push(), make(items), rules=REMOVE)
    assert sent(world) == ["a", "b", "c", "d"]
    assert (result.accepted, result.refused, result.duplicates) == (4, 1, 5)
    variables = [own for envelope in world.envelopes(LANE) for own in envelope.variables or [None, None]]
    assert variables == [None, None, None, {"n": 2}]
    assert run(world, push(), make(items), rules=REMOVE).accepted == 4
    with pytest.raises(AudienceMismatch):
        run(world, push(), make(items))


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_duplicates_are_counted_and_kept(world: FakeService, make: Make) -> None:
    result = run(world, push(), make(["a", "b", "a", "a"]), rules=COUNT)
    assert (sent(world), result.duplicates) == (["a", "b", "a", "a"], 2)
    assert run(FakeService(), push(), make(["a", "a"])).duplicates is None


def test_duplicates_are_counted_up_to_a_bound() -> None:
    targets = [f"t{number}" for number in range(COUNTED)]
    assert run(FakeService(), push(chunk=500), [*targets, *targets], rules=COUNT).duplicates == 0
    assert run(FakeService(), push(chunk=500), ["t1", *targets], rules=COUNT).duplicates == 1


def test_an_unknown_rule_for_duplicates_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"duplicates: is 'unique'; it must be one of keep, count, remove"):
        AudienceRules(duplicates="unique")  # type: ignore[arg-type]


def test_an_audience_that_breaks_off_names_its_task_and_what_to_do(tmp_path: Path) -> None:
    """The first part of a large file was stored when its end turned out to be broken."""
    path = tmp_path / "a.csv"
    path.write_text("token,name\n" + "".join(f"t{number},Ada\n" for number in range(1_000)) + 'b,"Bob\nc,Carl\n')
    with pytest.raises(InvalidInput, match=r"line 1,?002.*Task t is incomplete: .* or cancel it"):
        run(FakeService(), push(), TargetsFile(path))
