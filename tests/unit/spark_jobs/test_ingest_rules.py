from collections.abc import Mapping
from typing import Any

import pytest

from spark_jobs.ingest.rules import Checker, Rules
from spark_jobs.source.columns import Columns
from spark_jobs.source.task_options import parse_options
from tests.unit.spark_jobs.tables import NAMED, PLAIN, TASK, table

pytest.importorskip("pyarrow")

TEN: list[dict[str, Any]] = [
    {"target": "aaa", "name": "Ann"},
    {"target": None, "name": "no target"},
    {"target": "", "name": "empty"},
    {"target": "has space", "name": "space"},
    {"target": "x" * 1_025, "name": "too long"},
    {"target": "tab\there", "name": "control"},
    {"target": "größe", "name": "letters of other scripts are good"},
    {"target": "bbb", "name": "y" * 3_000},
    {"target": "aaa", "name": "again"},
    {"target": "ccc", "name": None},
]
WHY = [
    None,
    "the target is null",
    "the target is empty",
    "the target has whitespace, a control character or one that cannot be printed",
    "the target is longer than 1,024 characters",
    "the target has whitespace, a control character or one that cannot be printed",
    None,
    "the variables are larger than 2,048 bytes (encoded)",
    "duplicate",
    None,
]


def rules(columns: Columns = PLAIN, forms: Mapping[str, str] = {}, **options: str) -> Rules:
    return Rules(columns, parse_options({**TASK, **options}), forms)


def reasons(rows: list[dict[str, Any]], by: Rules) -> list[str | None]:
    found: list[str | None] = Checker(by).check(table(rows)).column("reason").to_pylist()
    return found


def test_every_row_of_ten_is_judged() -> None:
    assert reasons(TEN, rules(NAMED)) == WHY


def test_a_double_is_seen_in_a_later_batch_unless_the_first_was_bad() -> None:
    checker = Checker(rules(PLAIN, {"push": "[a-z]+"}, channel="push"))
    first = checker.check(table([{"target": "aaa"}, {"target": "AAA"}]))
    again = checker.check(table([{"target": "aaa"}, {"target": "AAA"}]))
    assert first.column("reason").to_pylist() == [None, "the target does not have the form of its channel"]
    assert again.column("reason").to_pylist() == ["duplicate", "the target does not have the form of its channel"]


def test_the_same_target_in_two_parts_of_a_split_is_no_double() -> None:
    columns = Columns("target", (), "", ("app",))
    rows = [{"target": "a", "app": "shop"}, {"target": "a", "app": "news"}, {"target": "a", "app": "shop"}]
    by_app = rules(columns, app="", split="app")
    assert reasons(rows, by_app) == [None, None, "duplicate"]
    assert reasons([{"target": "a", "app": None}], by_app) == ["the split column app is empty"]


SPLIT = Columns("target", (), "", ("app", "tier", "channel", "kind"))
GOOD_PART = {"app": "shop", "tier": "high", "channel": "log", "kind": "a"}
NAMES = "it must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit"
BAD_PARTS: list[tuple[dict[str, str | None], str]] = [
    ({"tier": "urgent"}, "the row makes no task: tier: it must be 'high', 'medium' or 'low'"),
    ({"tier": "High"}, "the row makes no task: tier: it must be 'high', 'medium' or 'low'"),
    ({"tier": None}, "the split column tier is empty"),
    ({"app": "my shop"}, f"the row makes no task: app: {NAMES}"),
    ({"app": "x" * 65}, f"the row makes no task: app: {NAMES}"),
    ({"app": ""}, "the split column app is empty"),
    ({"channel": "ap/ns"}, f"the row makes no task: channel: {NAMES}"),
    ({"app": "-", "tier": "x"}, f"the row makes no task: app: {NAMES}; tier: it must be 'high', 'medium' or 'low'"),
    ({"kind": "k" * 500}, ""),  # the id has a checksum of it
    ({"kind": "ä/ö"}, ""),
]


@pytest.mark.parametrize(("part", "reason"), BAD_PARTS)
def test_a_row_whose_split_values_make_no_task_is_refused(part: dict[str, str | None], reason: str) -> None:
    rows: list[dict[str, Any]] = [
        {"target": "a", **GOOD_PART},
        {"target": "b", **GOOD_PART, **part},
        {"target": "c", **GOOD_PART},
    ]
    by_part = rules(SPLIT, app="", tier="", channel="", split="app,tier,channel,kind")
    assert reasons(rows, by_part) == [None, reason or None, None]


def test_a_row_is_refused_if_the_id_of_its_task_is_too_long() -> None:
    columns = Columns("target", (), "", ("one", "two"))
    rows = [{"target": "a", "one": "x", "two": "y"}, {"target": "b", "one": "x" * 99, "two": "y" * 99}]
    found = reasons(rows, rules(columns, id="s" * 60, split="one,two"))
    assert found[0] is None
    assert str(found[1]).startswith("the row makes no task: id: it must be 1 to 100 of")


def test_a_message_that_a_channel_of_the_split_refuses_is_the_reason_of_its_rows() -> None:
    columns = Columns("target", (), "", ("channel",))
    rows = [{"target": "ab" * 32, "channel": "apns"}, {"target": "x", "channel": "log"}]
    found = reasons(rows, rules(columns, channel="", split="channel", message='{"data": {"aps": "mine"}}'))
    assert "message.data.aps" in str(found[0])
    assert found[1] is None


def test_rows_are_refused_for_few_reasons_however_many_bad_values_there_are() -> None:
    rows = [{"target": f"t{n}", **GOOD_PART, "app": f"shop {n}"} for n in range(500)]
    assert len(set(reasons(rows, rules(SPLIT, app="", tier="", channel="", split="app,tier,channel,kind")))) == 1


def test_a_target_is_a_double_in_another_task_of_the_same_app_and_channel() -> None:
    rows = [
        {"target": "t", **GOOD_PART},
        {"target": "t", **GOOD_PART, "tier": "low"},
        {"target": "t", **GOOD_PART, "kind": "b"},
        {"target": "t", **GOOD_PART, "app": "news"},
        {"target": "t", **GOOD_PART, "channel": "http"},
        {"target": "u", **GOOD_PART, "tier": "urgent"},
        {"target": "u", **GOOD_PART, "tier": "low"},  # the first was bad
    ]
    found = reasons(rows, rules(SPLIT, app="", tier="", channel="", split="app,tier,channel,kind"))
    assert [reason == "duplicate" for reason in found] == [False, True, True, False, False, False, False]
    assert found[6] is None


def test_each_channel_of_a_split_has_its_own_form() -> None:
    columns = Columns("target", (), "", ("channel",))
    rows = [
        {"target": "beef", "channel": "other"},
        {"target": "nope", "channel": "other"},
        {"target": "nope", "channel": "x"},
    ]
    assert reasons(rows, rules(columns, {"other": "[0-9a-f]{4}"}, channel="", split="channel")) == [
        None,
        "the target does not have the form of its channel",
        None,
    ]


def test_a_form_of_upper_case_letters_fits_the_canonical_form_of_its_channel() -> None:
    by_form = rules(PLAIN, {"apns": "[0-9A-F]{64}"}, channel="apns")
    assert reasons([{"target": "ab" * 32}, {"target": "ab" * 33}], by_form) == [
        None,
        "the target does not have the form of its channel",
    ]


def test_what_is_suppressed_is_left_out_and_the_flag_with_it() -> None:
    checked = Checker(rules()).check(
        table([{"target": "a", "fairlane_suppressed": None}, {"target": "b", "fairlane_suppressed": True}])
    )
    assert checked.schema.names == ["target", "reason"]
    assert checked.column("reason").to_pylist() == [None, "suppressed"]


def test_variables_in_a_struct_are_measured_too() -> None:
    columns = Columns("target", (), "vars", ())
    rows = [{"target": "a", "vars": {"text": "z" * 3_000}}, {"target": "b", "vars": {"text": "short"}}]
    found = reasons(rows, rules(columns))
    assert found[1] is None
    assert found[0] is not None
    assert "are larger than 2,048 bytes" in found[0]


def test_rows_are_checked_by_the_channel_and_the_message_of_their_task() -> None:
    good = "ab" * 32
    rows: list[dict[str, Any]] = [
        {"target": good, "name": "Ann"},
        {"target": "cd" * 32, "name": None},
        {"target": "x", "name": "Bob"},
    ]
    found = reasons(rows, rules(NAMED, channel="apns", message="Hi {{name}}"))
    assert found[0] is None
    assert "variable name" in str(found[1])
    assert found[2] == "the target is not a device token in hexadecimal digits"


def test_where_a_split_column_has_the_channel_its_own_checks_apply() -> None:
    columns = Columns("target", (), "", ("channel",))
    rows = [{"target": "x", "channel": "apns"}, {"target": "x", "channel": "http"}]
    assert reasons(rows, rules(columns, channel="", split="channel")) == [
        "the target is not a device token in hexadecimal digits",
        None,
    ]
