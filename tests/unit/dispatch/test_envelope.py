"""Decoding of envelopes: whatever is in a lane is an envelope within its limits, damage, or of a later version."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import Malformed, NewerFormat
from dispatcher.wire.envelope import (
    FORMAT,
    MAX_FORMAT,
    MAX_READABLE_BYTES,
    MAX_SEQUENCE,
    ROUNDS_FORMAT,
    decode_envelope,
    encode_envelope,
)
from dispatcher.wire.groups import TargetGroup, pack_positions
from tests.near_envelopes import FIELDS, GOOD, anything, encode, odd_values, wire


def first(count: int, **changes: Any) -> bytes:
    targets = [f"t{place}" for place in range(count)]
    return wire(**({"attempt": 0, "size": count, "targets": targets, "positions": None, "variables": None} | changes))


def test_a_good_envelope_is_read_as_it_was_written() -> None:
    envelope = decode_envelope(wire())
    assert encode_envelope(envelope) == wire()
    assert envelope.identity == ("task-1", "0", 7, 1)


@pytest.mark.parametrize(
    "body",
    [
        first(1),
        first(500),
        first(2, writer="-_zZ9"),
        first(2, task="a" * 100, sequence=MAX_SEQUENCE, max_attempts=20),
        first(1, variables=[{"deep": {"list": [1, 2.5, True, None]}}]),
        wire(attempt=19, size=500, positions=[0, 499], groups=[[pack_positions([0, 499], 500), 1, 0]]),
        encode([*GOOD, "a later version's field", {"at": "the end"}]),
    ],
)
def test_what_writers_make_is_read(body: bytes) -> None:
    decode_envelope(body)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("format", [0, -1, FORMAT, MAX_FORMAT + 1, 2**63, "1", None]),
        ("task", ["", "../x", "a b", "ä", "a|b", "a" * 101, 1]),
        ("writer", ["", "a:b", "a,b", "a b", "w" * 65, None]),
        ("sequence", [-1, MAX_SEQUENCE + 1, 2**33, 2**64 - 1, 1.5, "0"]),
        ("attempt", [-1, 4_096, 2**31]),
        ("app", ["", "../../etc", "a\n", "a" * 65]),
        ("channel", ["", "~", "a/b"]),
        ("published_ms", [-1, 2**62, 1.5]),
        ("not_before_ms", [-1, 2**62]),
        ("expires_ms", [-1, 2**62]),
        ("size", [0, -1, 1, 501, 2**23]),
        ("max_attempts", [0, -1, 4_097]),
        ("targets", [[], ["a"], ["a", "b", "c", "d"], ["t"] * 501, "ab", [1, 2], {}]),
        ("positions", [[], [0], [2, 0], [1, 1], [-1, 0], [0, 3], [0, 2**63], [0, 1, 2], None, ["0", "1"]]),
        ("variables", [[], [None], [None] * 3, [1, 2], [{1: 2}, None], {}]),
        ("groups", [None, [], [["1", 1, 0]], {}, "5", [["5", 1, 0]] * 2]),
        ("gives_up_unknown", [1, "yes", None]),
    ],
)
def test_a_field_beyond_its_limits_is_damage(field: str, values: list[object]) -> None:
    for value in values:
        for previous in (None, decode_envelope(wire())):
            with pytest.raises(Malformed):
                decode_envelope(wire(**{field: value}), previous)


def in_round(*groups: list[object], attempt: int = 3) -> bytes:
    return wire(format=ROUNDS_FORMAT, attempt=attempt, groups=list(groups))


def test_the_groups_of_a_later_round_are_read() -> None:
    envelope = decode_envelope(in_round(["1", 19, 5, 4], ["4", 0, 7]))
    assert envelope.groups == [
        TargetGroup(positions="1", tries=19, due_ms=5, first_ms=4),
        TargetGroup(positions="4", tries=0, due_ms=7),
    ]


@pytest.mark.parametrize(
    "groups",
    [
        [],
        [["1", 0, 0]],
        [["1", 0, 0], ["4", 0, 0], ["2", 0, 0]],
        [["1", 0, 0], ["5", 0, 0]],
        [["5", 0, 0], ["0", 0, 0]],
        [["5", 20, 0]],
        [["5", -1, 0]],
        [["5", 0, -1]],
        [["5", 0, 0, -1]],
        [["x", 0, 0]],
        [["f" * 126, 0, 0]],
        [["50000000000000000001", 0, 0]],
        [["5", 0]],
    ],
)
def test_groups_that_do_not_fit_the_targets_are_damage(groups: list[list[object]]) -> None:
    with pytest.raises(Malformed):
        decode_envelope(in_round(*groups))


def test_a_first_round_has_no_groups() -> None:
    with pytest.raises(Malformed, match="groups do not fit in round 0"):
        decode_envelope(first(2, format=ROUNDS_FORMAT, groups=[["3", 0, 0]]))


def test_a_first_attempt_has_all_its_targets() -> None:
    with pytest.raises(Malformed, match="2 of 3 targets in attempt 0"):
        decode_envelope(wire(attempt=0))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        wire() + b"x",
        encode(list(GOOD[:13])),
        wire().replace(b"task-1", b"task\xff1"),
        encode(list(GOOD[:12])) + b"\x91" * 100_000,
        b"\xdc\x00\x10" + b"".join(map(encode, GOOD[:15])) + b"\x91\x81\xa1a" + b"\x91" * 100_000 + b"\xc0",
        b"\xdc\x00\x0e" + b"".join(map(encode, GOOD[:13])) + b"\xdd\xff\xff\xff\xff",
        first(500, targets=["x" * 10_000] * 500),
    ],
    ids=["nothing", "text", "trailing", "cut", "not utf-8", "endless", "deep", "claims to be long", "large"],
)
def test_bytes_that_are_no_envelope_are_damage(body: bytes) -> None:
    with pytest.raises(Malformed) as raised:
        decode_envelope(body)
    assert len(str(raised.value)) < 400


def test_the_largest_envelope_that_is_read_is_below_the_limit_of_a_message() -> None:
    assert MAX_READABLE_BYTES < 5 * 1024 * 1024


@pytest.mark.parametrize("fields", [[3], [3, "task-1"], [MAX_FORMAT, {"all": "else"}, [1] * 9]])
def test_a_later_format_is_no_damage(fields: list[Any]) -> None:
    with pytest.raises(NewerFormat, match=f"has format {fields[0]}; this version reads {ROUNDS_FORMAT}"):
        decode_envelope(encode(fields))


def is_judged(body: bytes) -> None:
    """Either way nothing else is raised."""
    try:
        envelope = decode_envelope(body)
    except (Malformed, NewerFormat):
        return
    assert encode_envelope(decode_envelope(encode_envelope(envelope))) == encode_envelope(envelope)


@given(st.binary(max_size=200))
def test_any_bytes_are_judged(body: bytes) -> None:
    is_judged(body)


@given(st.lists(anything, max_size=18))
def test_any_array_is_judged(fields: list[Any]) -> None:
    is_judged(encode(fields))


@given(st.dictionaries(st.sampled_from(FIELDS), odd_values, min_size=1, max_size=3))
def test_a_good_envelope_with_fields_replaced_is_judged(changes: dict[str, Any]) -> None:
    is_judged(wire(**changes))


@given(st.data())
def test_a_good_envelope_with_bytes_replaced_is_judged(data: st.DataObject) -> None:
    body = bytearray(wire())
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=4)):
        body[place] = data.draw(st.integers(0, 255))
    is_judged(bytes(body))
