"""Every reader of the control topic skips the same unusable records, and no others."""

from typing import Any, get_args

import msgspec
import pytest

from dispatcher.model.errors import Malformed
from dispatcher.wire.checks.control_checks import CHECKS, read_control
from dispatcher.wire.control import FORMAT, ControlRecord, Restated, TaskRecord, encode_control
from tests.contract.registry_records import change, position, sealed, setting, task_record

encode = msgspec.msgpack.Encoder().encode
THIRTY_DIGITS = "1" * 30


def passed_over(record: ControlRecord | bytes) -> str:
    """Why."""
    with pytest.raises(Malformed) as refused:
        read_control("here", record if isinstance(record, bytes) else encode_control(record))
    return refused.value.cause


def restated(record: Any, at: str = position(1)) -> Restated:
    return Restated(FORMAT, at, msgspec.Raw(encode(record)))


def test_a_restated_record_is_read_as_if_it_stood_where_it_first_did() -> None:
    record = change("t1", "weight", "7")
    assert read_control(position(9), encode_control(restated(record))) == (position(1), record)


@pytest.mark.parametrize(
    "record",
    [
        change("t1", "override", '{"no": "number"}'),
        change("t1", "override", "1:no json"),
        change("t1", "override", "1:[]"),
        change("t1", "override", f"{THIRTY_DIGITS}:{{}}"),
        change("t1", "tier", "urgent"),
        change("t1", "weight", "heavy"),
        change("t1", "weight", "0"),
        change("t1", "weight", "nan"),
        change("t1", "weight", "\u0663"),
        change("t1", "cap", "x:y"),
        change("t1", "cap", "none"),
        change("t1", "cap", "1:2:3"),
        change("t1", "cap", THIRTY_DIGITS),
        change("t1", "paused", "yes"),
        change("t1", "lane", "no topic"),
        change("t1", "lane", "persistent://fairlane/tasks-01/another"),
        change("t\n1", "weight", "1"),
        change("", "weight", "1"),
        task_record("t1-partition-0"),
        change("t1", "weight", "1", -1),
        setting("capacity", THIRTY_DIGITS),
        setting("capacity", "-1"),
        setting("capacity:", "1"),
        setting("tiers", "1:2"),
        setting("tiers", "a:b:c"),
        setting("sharing", "chance"),
        setting("cap:channel:", "1"),
        setting("cap:app_channel:shop", "1"),
        setting("cap:planet:x", "1"),
        setting("app_weight:shop", "0"),
        setting("limit:tasks:shop", "many"),
        setting("limit:shop", "1"),
        task_record("t1", app="../../etc"),
        task_record("t1", channel="a\x1b[31m"),
        task_record("t1", lane="no topic"),
        task_record("t1", lane="persistent://fairlane/tasks-01/another"),
        task_record("control", lane="persistent://fairlane/system/control"),
        task_record("low-0", lane="persistent://fairlane/shared/low-0"),
        task_record("t1", shared=True, lane="persistent://fairlane/system/outcomes-0"),
        change("orders", "lane", "persistent://public/default/orders"),
        task_record("t1", chunk=0),
        task_record("t1", weight=-1),
        task_record("t1", cap=2**63),
        task_record("t1", expected_targets=-2),
        task_record("t1", created_ms=10**17),
        task_record("t1", max_attempts=0),
        task_record("t1", partitions=10**9),
        task_record("t1", message=msgspec.Raw(b"\x93")),
        task_record("t1", message=msgspec.Raw(b"\x01")),
        task_record("t1", message=msgspec.Raw(encode({"a": msgspec.msgpack.Ext(7, b"hello")}))),
        task_record("t1", message=msgspec.Raw(encode({"a": [{"b": msgspec.msgpack.Ext(1, b"")}]}))),
        task_record("t1", message=msgspec.Raw(b"\x81\xa1a\xc7\x0c\xff" + b"\xff" * 12)),
        restated(task_record("t1", message=msgspec.Raw(encode({"a": msgspec.msgpack.Ext(7, b"hello")})))),
        sealed("t1", -1),
        sealed("t1", 5, ("a,b",)),
        restated(change("t1", "weight", "1"), "nowhere"),
        restated(restated(change("t1", "weight", "1"))),
        restated(change("t1", "tier", "urgent")),
    ],
)
def test_a_record_that_makes_no_sense_is_passed_over(record: ControlRecord) -> None:
    assert passed_over(record)


def test_a_record_that_makes_a_check_fail_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise TypeError("unforeseen")

    monkeypatch.setitem(CHECKS, TaskRecord, [("message", fail)])
    assert passed_over(task_record("t1")) == "it cannot be checked: TypeError: unforeseen"


@pytest.mark.parametrize("counts", [[], [1, 2, 3, 4], [0] * 6, [0, 0, 0, 0, -1], [0, 0, 0, 0, 2**63]])
def test_an_end_has_a_count_for_every_outcome(counts: list[int]) -> None:
    assert passed_over(encode(["f", FORMAT, "t1", "completed", counts, 0]))


def test_a_later_format_is_told_apart_from_nonsense() -> None:
    assert passed_over(encode(["x", FORMAT + 1, "t1", "weight", "1", 0])) == "it has format 2; this version reads 1"


def test_a_control_or_a_setting_of_a_later_version_is_passed_over() -> None:
    assert passed_over(change("t1", "colour", "red")) == "this version knows no control 'colour'"
    assert passed_over(setting("colour:shop", "red")) == "this version knows no setting 'colour:shop'"


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x91\xa7unknown", b"\x91" * 100_000, b"\x93\xa1x\x01\xa1\xff"])
def test_bytes_that_are_no_record_are_passed_over(body: bytes) -> None:
    assert "not readable" in passed_over(body)


def test_every_kind_of_record_is_checked_and_names_its_format() -> None:
    """So that a later format can be told apart."""
    assert set(CHECKS) == set(get_args(ControlRecord))
    assert all(kind.__struct_fields__[0] == "format" for kind in get_args(ControlRecord))
