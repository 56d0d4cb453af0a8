"""The fast check of a slab and the slow one say the same."""

import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.channels.submission.address import AddressForm
from dispatcher.model.task import MAX_TARGET_LENGTH, MAX_VARIABLES_BYTES, Target
from producers.submit.validation import Unreadable, check_each, check_slab, digest_text

good_text = st.text(string.ascii_letters + string.digits + "-_:é漢", min_size=1, max_size=12)
any_text = st.text(max_size=6) | st.sampled_from(
    ["", " ", "a b", "a\n", "\x00", "\x7f", "\u2028", "\ud800", "x" * 1_025]
)
variables = st.none() | st.dictionaries(st.text(max_size=3), st.integers(0, 5) | st.text(max_size=3), max_size=2)
item = (
    good_text
    | any_text
    | st.builds(Target, good_text | any_text, variables)
    | st.tuples(good_text, variables)
    | st.sampled_from([None, 7, b"x", Unreadable("no", "it"), Target(7), Target("a", {1: 2}), ("a", "b", "c")])  # type: ignore[arg-type, dict-item]
)
slab = st.lists(good_text) | st.lists(st.builds(Target, good_text, variables)) | st.lists(item) | st.lists(any_text)


def line_of(index: int) -> int:
    return index + 1


@given(slab)
def test_the_fast_check_and_the_slow_one_agree(items: list[object]) -> None:
    assert check_slab(items, line_of) == check_each(items, line_of)


@given(slab)
def test_every_item_is_accepted_or_refused_once_and_in_order(items: list[object]) -> None:
    accepted, refusals = check_slab(items, line_of)
    refused = [refusal.line for refusal in refusals]
    assert refused == sorted(set(refused))
    kept = [item for line, item in enumerate(items, 1) if line not in refused]
    assert accepted.addresses == [
        AddressForm().of(k.address if isinstance(k, Target) else k[0] if isinstance(k, tuple) else k) for k in kept
    ]
    assert accepted.variables is None or len(accepted.variables) == len(accepted.addresses)
    assert accepted.text == digest_text(accepted.addresses, accepted.variables)


@given(st.lists(st.tuples(good_text, variables)), st.lists(st.tuples(good_text, variables)))
def test_different_audiences_have_different_texts(one: list[object], other: list[object]) -> None:
    first, second = check_each(one, line_of)[0], check_each(other, line_of)[0]
    same = (first.addresses, first.variables) == (second.addresses, second.variables)
    assert (first.text == second.text) == same


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("", "empty"),
        ("x" * (MAX_TARGET_LENGTH + 1), "longer than 1,024 characters"),
        ("a b", "whitespace"),
        ("a\tb", "whitespace"),
        ("\x1b[0m", "control"),
        (b"bytes", "not bytes"),
        (Target("a", {"v": "x" * MAX_VARIABLES_BYTES}), "are larger than 2,048 bytes"),
        (Target("a", {"v": object()}), "cannot be encoded"),
        (Target("a", {7: "x"}), "from text"),  # type: ignore[dict-item]
        (Unreadable("the line is not JSON"), "not JSON"),
    ],
)
def test_a_refusal_says_line_and_reason(target: object, reason: str) -> None:
    accepted, refusals = check_slab(["good", target, "fine"], lambda index: index + 100)
    assert accepted.addresses == ["good", "fine"]
    assert [refusal.line for refusal in refusals] == [101]
    assert reason in refusals[0].reason


def test_the_longest_target_is_taken() -> None:
    accepted, refusals = check_slab(["x" * MAX_TARGET_LENGTH], line_of)
    assert not refusals
    assert len(accepted.addresses) == 1


def test_what_is_shown_of_a_refused_target_is_short_and_printable() -> None:
    _, refusals = check_slab(["\x1b" * 2_000], line_of)
    assert refusals[0].target.isprintable()
    assert len(refusals[0].target) <= 80


class Row:
    """Refuses to be true or false, as a row of pandas does."""

    values = ()

    def __bool__(self) -> bool:
        raise ValueError("the truth value is ambiguous")


@pytest.mark.parametrize("variables", [Row(), "x", "", [1], 5])
@pytest.mark.parametrize("form", [Target, lambda address, own: (address, own)])
def test_variables_that_are_no_mapping_refuse_their_target_alone(variables: Any, form: Callable[..., object]) -> None:
    for items in ([form("a", variables)], [form("a", variables), form("b", {"n": 1}), form("c", {}), form("d", None)]):
        accepted, [refusal] = check_slab(items, line_of)
        assert accepted.addresses == ["b", "c", "d"][: len(items) - 1]
        assert (refusal.line, refusal.reason) == (1, "variables must be a mapping from text to values")
