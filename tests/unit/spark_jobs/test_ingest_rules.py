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
