"""Dead letters are sent again once, however many ask, however often, and whatever dies on the way."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.letters.book import LetterBook
from dispatcher.letters.marks import MAX_MARKED, MarkKind, encode_mark, parts_of
from dispatcher.model.errors import InvalidInput, NotFound
from dispatcher.model.task import Target
from dispatcher.ports import DeadLetter
from producers.outcomes.letter_rows import in_state
from producers.outcomes.record import TargetFilter, group_by_reason
from tests.records import dead_letter
from tests.unit.dispatch.producers.fake_service import Died
from tests.unit.dispatch.producers.letter_world import LetterWorld, until_done

SALE = TargetFilter(task="sale")


def world_of(*letters: DeadLetter) -> LetterWorld:
    world = LetterWorld()
    world.topic += letters
    return world


def sale(sequence: int, *targets: str, **fields: Any) -> DeadLetter:
    return dead_letter("sale", targets, sequence=sequence, channel="fcm", app="shop", **fields)


def test_a_replay_has_the_message_and_the_targets_with_their_variables() -> None:
    world = world_of(sale(0, "a", "b", variables=[{"n": 1}, None]), sale(1, "c"), dead_letter("other", ["x"]))
    (result,) = world.replay(SALE)
    assert (result.task, result.targets, result.state) == ("sale", 3, "replayed")
    assert result.replay.startswith("sale.replay-")
    assert world.audiences == {result.replay: [Target("a", {"n": 1}), Target("b"), Target("c")]}
    task = world.tasks[result.replay]
    assert (task.app, task.channel, task.message, task.expected_targets) == ("shop", "fcm", {"body": "of sale"}, 3)
    assert world.states() == {"a": "replayed", "b": "replayed", "c": "replayed", "x": "open"}


def test_each_task_has_a_replay_of_its_own_and_nothing_is_sent_a_second_time() -> None:
    world = world_of(sale(0, "a"), dead_letter("other", ["x"]))
    assert {one.task for one in world.replay()} == {"sale", "other"}
    assert world.replay() == []
    world.topic.append(sale(0, "a"))  # a copy, of a worker that died before it stored the outcome
    world.topic.append(sale(1, "b"))
    (result,) = world.replay()
    assert world.audiences[result.replay] == [Target("b")]
    assert world.sent_again() == ["a", "b", "x"]


def test_invalid_targets_and_messages_are_not_sent_again() -> None:
    world = world_of(sale(0, "a", "b", outcomes=[1, 2]), dead_letter("", body=b"nonsense", lane="lane"))
    world.replay()
    assert world.sent_again() == ["b"]
    assert world.drop() == 2
    assert world.drop() == 0
    assert world.states() == {"a": "dropped", "b": "replayed"}
    groups = world.box().groups(state="dropped")
    assert [(one.task, one.replay) for one in groups] == [("", ""), ("sale", "")]


def test_a_letter_without_its_address_is_left_out_and_can_be_dropped() -> None:
    """The broker refused it, so it was stored without its texts."""
    world = world_of(sale(0, "", "b"), sale(1, ""))
    (result,) = world.replay(SALE)
    assert (result.targets, world.sent_again()) == (1, ["b"])
    assert world.replay(SALE) == []
    assert world.drop(SALE) == 2


def test_targets_that_the_edited_message_refuses_are_counted_and_block_nothing() -> None:
    world = world_of(sale(0, "a"), sale(1, "b"), dead_letter("other", ["x"]))
    world.refused = {"a", "b"}
    assert [(one.task, one.targets, one.refused, one.state) for one in world.replay()] == [
        ("sale", 2, 2, "replayed"),
        ("other", 1, 0, "replayed"),
    ]
    assert world.replay() == []


def test_a_task_that_cannot_be_sent_again_does_not_stop_the_others() -> None:
    world = world_of(dead_letter("gone", ["g"]), sale(0, "a"), dead_letter("other", ["x"]))
    world.unknown.add("gone")
    with pytest.raises(NotFound, match=r"of task gone is gone.* The letters of 2 other tasks were sent again"):
        world.replay()
    assert world.states() == {"g": "open", "a": "replayed", "x": "replayed"}
    with pytest.raises(NotFound, match=r"Submit its targets yourself\.$"):
        world.replay()


def test_a_limit_counts_what_is_sent_again_and_nothing_else() -> None:
    world = world_of(
        dead_letter("", body=b"?", lane="lane"), sale(0, "i", outcomes=[1]), sale(1, ""), sale(2, "a", "b", "c")
    )
    assert sum(one.targets for one in world.box().replay(limit=2)) == 2
    assert world.sent_again() == ["a", "b"]
    for limit in (0, -1, 10**20):
        with pytest.raises(InvalidInput, match="limit"):
            world.box().replay(limit=limit)
        with pytest.raises(InvalidInput, match="limit"):
            world.box().drop(limit=limit)


@pytest.mark.parametrize("name", ["task", "app", "error"])
def test_an_empty_text_selects_nothing_instead_of_everything(name: str) -> None:
    fields: dict[str, Any] = {name: ""}
    with pytest.raises(InvalidInput, match=f"{name}: is empty"):
        TargetFilter(**fields)


def test_what_was_dropped_is_not_sent_again() -> None:
    world = world_of(sale(0, "a", "b", reasons=["busy", "bad"]))
    assert world.drop(replace(SALE, error="BAD")) == 1
    world.replay()
    assert world.sent_again() == ["a"]


@pytest.mark.parametrize("second", ["replay", "drop"])
def test_of_two_operators_who_read_the_same_letters_one_has_each(second: str) -> None:
    """The second has read the topic before the first marked anything, and sees one letter more."""
    world = world_of(sale(0, "a"), sale(1, "b"))
    before = LetterBook(world.marks())
    world.replay(SALE)
    world.topic.append(sale(2, "c"))
    getattr(world, second)(SALE, before)
    assert world.sent_again() == (["a", "b", "c"] if second == "replay" else ["a", "b"])
    assert world.states() == {"a": "replayed", "b": "replayed", "c": "replayed" if second == "replay" else "dropped"}


def test_an_operator_who_comes_second_has_what_is_left() -> None:
    world = world_of(sale(0, "a", "b", reasons=["busy", "bad"]), sale(1, "c"))
    before = LetterBook(world.marks())
    world.replay(replace(SALE, error="b"))
    (rest,) = world.replay(SALE, before)
    assert (rest.targets, world.tasks[rest.replay].expected_targets) == (1, 1)
    assert world.replay(replace(SALE, error="busy"), before) == [], "nothing is left of these"
    assert world.drop(replace(SALE, error="bad"), before) == 0
    assert len(world.audiences) == 2


def test_two_operators_who_mark_the_same_letters_make_one_task() -> None:
    world = world_of(sale(0, "a"), sale(1, "b"))
    before = LetterBook(world.marks())
    (first,), (second,) = world.replay(SALE), world.replay(SALE, before)
    assert first == second
    assert len(world.audiences) == 1


def test_another_process_that_submits_the_replay_is_left_to_it() -> None:
    world = world_of(sale(0, "a"))
    world.steps = 2
    with pytest.raises(Died):
        world.replay(SALE)
    world.steps = -1
    (id_,) = [one.id for one in world.marks()]
    world.submitting.add(id_)
    (result,) = world.replay(SALE)
    assert (result.replay, result.state) == (id_, "replaying")
    world.submitting.clear()
    (result,) = world.replay(SALE)
    assert (result.replay, result.state) == (id_, "replayed")


def test_an_operator_who_dies_at_any_step_is_repaired_by_repeating_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.letters.marks.MAX_MARKED", 2)
    letters = [sale(0, "a", "b"), sale(1, "c", "d"), dead_letter("other", ["x"])]
    for steps in (*((one,) for one in range(24)), *product(range(0, 16, 3), repeat=2)):
        world = world_of(*letters)
        until_done(world, world.replay, steps)
        assert world.sent_again() == ["a", "b", "c", "d", "x"], steps
        assert set(world.states().values()) == {"replayed"}
        assert world.replay() == []


def test_another_set_after_a_death_takes_over_what_was_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead operator's mark is complete or not; a wider command meets both."""
    monkeypatch.setattr("dispatcher.letters.marks.MAX_MARKED", 1)
    for step in range(12):
        world = world_of(sale(0, "a", "b", reasons=["busy", "bad"]), sale(1, "c"))
        until_done(world, lambda: world.replay(replace(SALE, error="b")), (step,))  # noqa: B023
        world.replay()
        assert world.sent_again() == ["a", "b", "c"]


names = st.sampled_from(["sale", "other"])
operations = st.lists(
    st.one_of(
        st.tuples(st.just("letter"), names, st.integers(0, 3), st.lists(st.integers(0, 3), min_size=1, unique=True)),
        st.tuples(st.sampled_from(["replay", "drop"]), st.none() | names, st.integers(-1, 9), st.booleans()),
    ),
    max_size=12,
)


@given(operations)
def test_no_letter_is_sent_twice_and_none_is_lost(work: list[tuple[Any, ...]]) -> None:
    """With operators that die at any step, and some that read the topic before others marked it."""
    world, old = LetterWorld(), LetterBook()
    for kind, task, number, more in work:
        if kind == "letter":
            targets = [f"{task}:{number}:{position}" for position in more]
            world.topic.append(dead_letter(str(task), targets, sequence=number, positions=more))
            continue
        book = old if more else None
        old = LetterBook(world.marks())
        act = world.replay if kind == "replay" else world.drop
        until_done(world, lambda: act(TargetFilter(task=task), book), () if number < 0 else (number,))  # noqa: B023
    world.replay()
    sent = world.sent_again()
    assert len(sent) == len(set(sent))
    states = world.states()
    assert set(sent) == {target for target, state in states.items() if state == "replayed"}
    assert set(states.values()) <= {"replayed", "dropped"}


# ------------------------------------------------------------------ marks
def test_a_mark_of_many_letters_counts_when_its_last_part_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.letters.marks.MAX_MARKED", 3)
    world = world_of(*(sale(number, "a", "b") for number in range(5)))
    world.drop()
    marks = list(world.marks())
    assert [(mark.part, mark.parts) for mark in marks] == [(number, 5) for number in range(5)]
    letter = sale(0, "a", "b")
    book = LetterBook(marks[:-1])
    assert book.claims_of(letter) == [None, None]
    book.add(marks[0])
    book.add(marks[-1])
    assert all(claim is not None and claim.targets == 10 for claim in book.claims_of(letter))


def test_parts_are_small() -> None:
    world = world_of(*(dead_letter("t" * 100, [""] * 500, sequence=number, writer="w" * 64) for number in range(250)))
    world.drop()
    assert max(len(one) for one in world.topic if isinstance(one, bytes)) < 1_000_000
    assert MAX_MARKED == 50_000


@pytest.mark.parametrize("changed", [{"format": 2}, {"parts": 0}, {"part": 1}, {"kind": "sell"}])
def test_a_mark_of_a_later_version_and_a_damaged_one_are_passed_over(changed: dict[str, object]) -> None:
    world = world_of(sale(0, "a"))
    world.drop()
    (mark,) = world.marks()
    world.topic[-1] = encode_mark(msgspec.structs.replace(mark, **changed))
    assert list(world.marks()) == []
    world.topic.append(b"\xc1")
    assert world.states() == {"a": "open"}
    assert mark.kind is MarkKind.DROP
    assert parts_of(mark) == [mark]


# ------------------------------------------------------------------ selection
def test_letters_are_selected_by_task_app_error_and_time() -> None:
    at = datetime(2026, 11, 25, 12, tzinfo=UTC)
    at_ms = int(at.timestamp() * 1000)
    world = world_of(
        sale(0, "a", "b", reasons=["HTTP 503: Down", "no route"], at_ms=at_ms),
        dead_letter("old", ["x"], at_ms=at_ms - 1),
        dead_letter("", body=b"?", at_ms=at_ms),
    )

    def found(**fields: Any) -> list[str]:
        return [row.record.target or row.letter.body.decode() for row in world.rows(TargetFilter(**fields))]

    assert found() == ["a", "b", "x", "?"]
    assert found(task="sale", error="down") == ["a"]
    assert found(app="shop") == ["a", "b", "x", "?"], "letters without an app are asked for"
    assert found(app="news") == []
    assert (found(since=at), found(until=at)) == (["a", "b", "?"], ["x"])
    assert found(without_task=True) == ["?"]
    with pytest.raises(InvalidInput, match="time zone"):
        TargetFilter(since=datetime(2026, 11, 25))  # noqa: DTZ001
    with pytest.raises(InvalidInput, match="state"):
        list(in_state([], "gone"))


def test_rows_and_groups_say_what_became_of_a_letter() -> None:
    world = world_of(
        sale(0, "a", "b", first_call_ms=3, attempt=2, variables=[{"n": 1}, None]),
        sale(1, "c", reasons=["bad"], at_ms=9),
        dead_letter("", body=b"?", lane="lane", at_ms=4),
    )
    world.replay(replace(SALE, error="no"))
    targets = list(world.box().targets(state="all"))
    first = targets[0]
    assert (first.target, first.variables, first.attempt, first.first_call_ms) == ("a", {"n": 1}, 3, 3)
    assert (first.state, first.app, first.outcome) == ("replayed", "shop", "failed")
    assert first.replay == next(iter(world.audiences))
    groups = group_by_reason(targets)
    assert [(one.task, one.outcome, one.reason, one.state, one.count, one.example) for one in groups] == [
        ("sale", "failed", "no", "replayed", 2, "a"),
        ("sale", "failed", "bad", "open", 1, "c"),
        ("", "message", "?", "open", 1, "lane"),
    ]
