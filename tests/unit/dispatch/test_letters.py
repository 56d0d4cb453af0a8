"""Dead letters of any size: what they hold is stored whole, in letters that a broker takes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.ports import DeadLetter
from dispatcher.wire.letters import MAX_LETTER_BYTES, is_sound, parts_of, without_texts
from dispatcher.wire.outcome import MAX_REASON_BYTES
from tests.records import dead_letter

encode = msgspec.msgpack.encode


def letter(targets: list[str], reasons: list[str], body: bytes = b"") -> DeadLetter:
    return dead_letter("t", targets, reasons=reasons, body=body, lane="lane")


texts = st.sampled_from(["", "a", "é" * 1_000, "\U0001f600" * 1_024, "x" * 80_000])


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=12), st.integers(1, 60))
def test_each_target_is_in_one_letter_with_its_own_reason_and_no_letter_is_large(
    rows: list[tuple[str, str]], times: int
) -> None:
    rows = rows * times
    whole = letter([f"{n}-{target}" for n, (target, _) in enumerate(rows)], [reason for _, reason in rows])
    parts = parts_of(whole)
    assert all(len(encode(part)) <= MAX_LETTER_BYTES for part in parts)
    assert all(is_sound(part) for part in parts)
    assert [n for part in parts for n in part.positions] == whole.positions
    reported = [(target, reason) for part in parts for target, reason in zip(part.targets, part.reasons, strict=True)]
    for (target, reason), (full_target, full_reason) in zip(
        reported, zip(whole.targets, whole.reasons, strict=True), strict=True
    ):
        assert full_target.startswith(target)
        assert len(target) >= min(1_024, len(full_target))
        assert full_reason.startswith(reason)
        assert len(reason.encode()) <= MAX_REASON_BYTES
        assert len(reason.encode()) >= min(MAX_REASON_BYTES, len(full_reason.encode())) - 3


@pytest.mark.parametrize("size", [0, 1, 999_000, 5 * 1024 * 1024])
def test_a_body_is_the_sum_of_its_parts(size: int) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    parts = parts_of(letter([], ["not an envelope"], body))
    assert b"".join(part.body for part in parts) == body
    assert [(part.part, part.parts) for part in parts] == [(n, len(parts)) for n in range(len(parts))]
    assert all(len(encode(part)) <= MAX_LETTER_BYTES for part in parts)
    assert {part.lane for part in parts} == {"lane"}


def test_variables_stay_with_their_targets_and_count_towards_the_size() -> None:
    names = [str(number) for number in range(1_000)]
    variables: list[dict[str, str] | None] = [{"text": name + "x" * 2_000} if int(name) % 2 else None for name in names]
    whole = msgspec.structs.replace(letter(names, ["no"] * 1_000), variables=variables)
    parts = parts_of(whole)
    assert len(parts) == 2
    assert all(is_sound(part) and len(encode(part)) <= MAX_LETTER_BYTES for part in parts)
    rows = [row for part in parts for row in zip(part.targets, part.variables or [], strict=True)]
    assert rows == list(zip(names, variables, strict=True))
    assert without_texts(whole, "too big").variables is None
    assert not is_sound(msgspec.structs.replace(whole, variables=variables[1:]))


def test_a_small_letter_is_left_as_it_is() -> None:
    small = letter(["a", "b"], ["gone", ""])
    assert parts_of(small) == [small]


def test_what_is_left_of_a_refused_letter_is_small_and_tells_why() -> None:
    left = without_texts(letter(["a" * 1_024] * 500, ["x" * 1_000] * 500), "too big")
    assert is_sound(left)
    assert set(left.reasons) == {"too big"}
    assert len(left.positions) == 500
    assert len(encode(left)) < 10_000
    assert without_texts(letter([], ["no envelope"], b"x" * 5_000_000), "too big").body == b""


@pytest.mark.parametrize(
    "changed",
    [{"positions": [0]}, {"targets": ["a"]}, {"outcomes": [1, 9]}, {"outcomes": [1, -1]}, {"reasons": []}],
)
def test_a_letter_whose_columns_differ_is_not_sound(changed: dict[str, list[int]]) -> None:
    assert not is_sound(msgspec.structs.replace(letter(["a", "b"], ["", ""]), **changed))
