"""One bound on nesting and one set of types for all that is stored, by any reader at any depth."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given

from dispatcher.model.errors import InvalidInput, Malformed
from dispatcher.model.task import PushTask, Target
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.checks.damage import salvaged
from dispatcher.wire.checks.nesting import MAX_LEVELS, TOO_DEEP, complaint_of
from dispatcher.wire.control import encode_control
from dispatcher.wire.envelope import decode_envelope, encode_envelope
from dispatcher.wire.groups import TargetGroup
from producers.submit.validation import check_each, check_slab
from tests.contract.registry_records import change, task_record
from tests.near_envelopes import anything, encode, wire

STACKS = (0, 300, 600)
"""Frames below a reader."""


def in_lists(levels: int) -> Any:
    return _nested(levels, lambda inner: [inner])


def in_maps(levels: int) -> Any:
    return _nested(levels, lambda inner: {"a": inner})


def mixed(levels: int) -> Any:
    return [in_maps(levels - 1), "beside", {"b": [1]}]


def _nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = wrap(value)
    return value


def deep_bytes(levels: int) -> msgspec.Raw:
    """Lists inside each other, as a process without a recursion limit writes them."""
    return msgspec.Raw(b"\x91" * levels + b"\xa1x")


def at(stack: int, read: Callable[[], Any]) -> Any:
    return read() if not stack else at(stack - 1, read)


UNREADABLE = {
    "33 lists": in_lists(MAX_LEVELS + 1),
    "33 maps": in_maps(MAX_LEVELS + 1),
    "33 of both": mixed(MAX_LEVELS + 1),
    "200 lists": in_lists(200),
    "500 lists": deep_bytes(500),
    "985 lists": deep_bytes(985),
    "2,000 lists": deep_bytes(2_000),
    "an opcode that is none": msgspec.Raw(b"\xc1"),
    "a list that is cut off": msgspec.Raw(b"\x92\x01"),
    "a list that takes what follows": msgspec.Raw(b"\x94\x01"),
    "a text that is no UTF-8": msgspec.Raw(b"\xa1\xff"),
    "an extension": msgspec.msgpack.Ext(5, b"xyz"),
    "an extension in a list": [msgspec.msgpack.Ext(0, b"")],
    "a time that is none": msgspec.msgpack.Ext(-1, b"xyz"),
    "a time in the year 292 billion": msgspec.msgpack.Ext(-1, b"\0\0\0\0\x7f" + b"\xff" * 7),
    "two values for one": msgspec.Raw(b"\x01\x02"),
    "a key that is none": {"a": {None: 1}},
    "a key that is a list": {"a": {(1, 2): 1}},
}
READABLE = {
    "32 lists": in_lists(MAX_LEVELS),
    "32 maps": in_maps(MAX_LEVELS),
    "32 of both": mixed(MAX_LEVELS),
    "a wide one": [[], {}, [{}], list(range(400))],
    "plain values": [None, True, -1, 2.5, float("nan"), "é", "\x90\x81"],
    "a time": datetime(9999, 12, 31, tzinfo=UTC),
}


# ------------------------------------------------------------------ submission
@pytest.mark.parametrize("check", [check_slab, check_each])
@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_a_target_whose_variables_no_worker_can_read_is_refused_alone(value: Any, check: Any) -> None:
    audience = [Target("before", {"name": "x"}), Target("bad", {"name": value}), Target("after", {"n": [1]})]
    answers = [at(stack, lambda: check(audience, lambda index: index + 1)) for stack in STACKS]
    accepted, refusals = answers[0]
    assert accepted.addresses == ["before", "after"]
    assert [(one.line, one.target) for one in refusals] == [(2, "bad")]
    assert refusals[0].reason.startswith("the variables cannot be ")
    assert all([one.reason for one in other[1]] == [refusals[0].reason] for other in answers)


@pytest.mark.parametrize("value", READABLE.values(), ids=READABLE)
def test_variables_that_every_worker_can_read_are_accepted_and_read_back(value: Any) -> None:
    accepted, refusals = check_slab([Target("a", {"name": value})], lambda index: index + 1)
    assert not refusals
    assert accepted.variables is not None
    body = wire(attempt=0, size=1, targets=["a"], positions=None, variables=accepted.variables)
    envelope = at(STACKS[-1], lambda: decode_envelope(body))
    assert encode_envelope(envelope) == body


@given(anything)
def test_what_is_accepted_is_taken_by_the_decoder(value: Any) -> None:
    accepted, refusals = check_each([("a", {"name": value})], lambda index: index + 1)
    assert len(refusals) == 1 - len(accepted.addresses)
    if accepted.variables is not None:
        decode_envelope(wire(attempt=0, size=1, targets=["a"], positions=None, variables=accepted.variables))


@pytest.mark.parametrize("field", ["message", "locales"])
def test_a_message_beyond_the_bound_is_refused_wherever_it_is_deep(field: str) -> None:
    def task(levels: int) -> PushTask:
        deep = {"title": "Hi", "data": {"a": in_lists(levels)}}
        fields: Any = {"message": deep} if field == "message" else {"message": "x", "locales": {"de": deep}}
        return PushTask(app="shop", tier="high", channel="fcm" if field == "locales" else "null", **fields)

    with pytest.raises(InvalidInput, match=TOO_DEEP):
        task(MAX_LEVELS + 1)
    if field == "message":
        task(MAX_LEVELS - 1)


# ------------------------------------------------------------------ decoders
def first(**changes: Any) -> bytes:
    return wire(**{"attempt": 0, "size": 2, "positions": None, **changes})


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_an_envelope_with_them_is_damaged_at_every_depth_of_the_stack(value: Any) -> None:
    body = first(variables=[None, {"name": value}])
    for stack in STACKS:
        with pytest.raises(Malformed):
            at(stack, lambda: decode_envelope(body))
        with pytest.raises(Malformed):
            at(stack, lambda: decode_envelope(body, decode_envelope(first())))
    envelopes = [at(stack, lambda: salvaged(body)) for stack in STACKS]
    assert envelopes[0] is not None
    assert envelopes[0].identity == decode_envelope(first()).identity
    assert (envelopes[0].targets, envelopes[0].positions) == (["a", "b"], None)
    assert "variables cannot be read" in envelopes[0].damage
    assert envelopes == [envelopes[0]] * len(STACKS)


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_a_damaged_envelope_stays_damaged_when_it_is_published_again(value: Any) -> None:
    envelope = salvaged(first(variables=[None, {"name": value}]))
    assert envelope is not None
    again = encode_envelope(envelope.next_round([1], [TargetGroup(positions="2", tries=1, due_ms=0)], 1, 0))
    with pytest.raises(Malformed):
        decode_envelope(again)
    read = salvaged(again)
    assert read is not None
    assert (read.targets, read.positions, read.damage) == (["b"], [1], envelope.damage)


@pytest.mark.parametrize("each", [b"\x90", b"\x01", b"\x91\x01", b"\x81\xa0\x01"])
def test_more_values_than_targets_may_have_are_not_looked_at_one_by_one(each: bytes) -> None:
    count = 3_000_000 // len(each)
    body = first(variables=[None, {"a": msgspec.Raw(b"\xdd" + count.to_bytes(4) + each * count)}])
    envelope = salvaged(body)
    assert envelope is not None
    assert "they are too large" in envelope.damage


def test_the_groups_of_a_damaged_later_round_are_read() -> None:
    groups = [["1", 1, 5], ["4", 0, 7]]
    envelope = salvaged(wire(attempt=3, groups=groups, variables=[None, {"a": deep_bytes(500)}]))
    assert envelope is not None
    assert [group.tries for group in envelope.groups or ()] == [1, 0]


@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 250, 900])
def test_an_envelope_whose_message_is_too_deep_is_damaged(levels: int) -> None:
    body = wire(message={"a": deep_bytes(levels)})
    with pytest.raises(Malformed, match=TOO_DEEP):
        decode_envelope(body)
    envelope = salvaged(body)
    assert envelope is not None
    assert "message cannot be read" in envelope.damage


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x91" * 5_000,
        b"\xdc\xff\xff",
        b"\xdd\xff\xff\xff\xff\x01",
        wire()[:-30],
        wire(task="../x", variables=[None, {"a": deep_bytes(500)}]),
        wire(sequence=-1, variables=[None, {"a": deep_bytes(500)}]),
        wire(size=4_000_000, variables=[None, {"a": deep_bytes(500)}]),
        encode({"task": "t"}),
        wire(variables=[1, 2]),
        wire(variables=[None, {"a": 1}], groups=[["5", 1, 0]]),
        wire(variables=[None, {"a": 1}], gives_up_unknown=7),
        wire(variables=[None]),
        *(wire()[:cut] for cut in range(0, 60, 7)),
    ],
)
def test_nonsense_is_no_damaged_envelope(body: bytes) -> None:
    assert salvaged(body) is None


@given(anything, anything)
def test_no_bytes_break_the_search_for_what_is_left(value: Any, other: Any) -> None:
    salvaged(encode(value))
    salvaged(wire(variables=value, message=other))
    salvaged(wire(variables=value, groups=other)[:-1])


def test_a_control_record_beyond_the_bound_is_skipped() -> None:
    deep = {"a": in_lists(MAX_LEVELS + 1)}
    edit = change("t", "message", f"1:{msgspec.json.encode(deep).decode()}", 1)
    for record in (edit, task_record("t", message=msgspec.Raw(encode(deep)))):
        with pytest.raises(Malformed):
            read_control("", encode_control(record))


def test_the_bound_counts_the_lists_and_maps_around_a_value() -> None:
    assert complaint_of([None, {}, {"a": in_maps(MAX_LEVELS), "b": in_lists(MAX_LEVELS)}]) == ""
    assert complaint_of([{}, {"a": 1, "b": mixed(MAX_LEVELS + 1)}]) == TOO_DEEP
