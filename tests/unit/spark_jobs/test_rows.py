import datetime
import decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.wire.checks.nesting import MAX_LEVELS, TOO_DEEP
from spark_jobs.source.columns import Columns
from tests.unit.dispatch.test_nesting import in_lists
from tests.unit.spark_jobs.tables import NAMED, PLAIN, people, table

pytest.importorskip("pyarrow")
from spark_jobs.source.rows import AudienceDigest, read_rows, split_batch


def read(rows: list[dict[str, Any]], columns: Columns) -> Any:
    return read_rows(table(rows), columns)


def test_ten_rows_become_targets_with_their_variables() -> None:
    rows = read(people(0, 10), NAMED)
    assert rows.addresses == [f"target-{number}" for number in range(10)]
    assert rows.variables == [{"name": f"name {number}"} for number in range(10)]
    assert rows.digest.targets == 10
    assert rows.refusals == []


def test_a_table_without_variables_has_none() -> None:
    assert read(people(0, 2), PLAIN).variables is None


def test_variables_keep_their_types_and_times_become_text() -> None:
    day, price = datetime.date(2026, 11, 21), decimal.Decimal("9.90")
    columns = Columns("target", ("n", "ok", "x", "day", "price"), "", ())
    rows = read([{"target": "a", "n": 3, "ok": True, "x": 0.5, "day": day, "price": price}], columns)
    assert rows.variables == [{"n": 3, "ok": True, "x": 0.5, "day": "2026-11-21", "price": "9.90"}]


def test_a_null_variable_is_left_out() -> None:
    columns = Columns("target", ("name", "city"), "", ())
    rows = read([{"target": "a", "name": None, "city": "Ulm"}, {"target": "b", "name": None, "city": None}], columns)
    assert rows.variables == [{"city": "Ulm"}, None]


def test_a_struct_column_holds_all_variables() -> None:
    columns = Columns("target", (), "vars", ())
    rows = read([{"target": "a", "vars": {"name": "Ann", "age": None}}, {"target": "b", "vars": None}], columns)
    assert rows.variables == [{"name": "Ann"}, None]


def test_a_map_column_holds_all_variables() -> None:
    pa = pytest.importorskip("pyarrow")
    maps = pa.array([[("name", "Ann"), ("age", None)], None], pa.map_(pa.string(), pa.string()))
    batch = pa.record_batch({"target": ["a", "b"], "vars": maps})
    assert read_rows(batch, Columns("target", (), "vars", ())).variables == [{"name": "Ann"}, None]


def test_a_time_that_python_cannot_hold_becomes_text_by_itself() -> None:
    pa = pytest.importorskip("pyarrow")
    days = pa.array([2_932_896, 2_932_897, None], pa.int32()).cast(pa.date32())
    batch = pa.record_batch({"target": ["a", "b", "c"], "day": days})
    rows = read_rows(batch, Columns("target", ("day",), "", ()))
    assert rows.variables == [{"day": "9999-12-31"}, {"day": "10000-01-01"}, None]


def test_a_row_whose_variables_no_worker_can_read_is_refused_alone() -> None:
    columns = Columns("target", ("items",), "", ())
    rows = read([{"target": "a", "items": in_lists(2)}, {"target": "b", "items": in_lists(2)}], columns)
    assert rows.addresses == ["a", "b"]
    deep = [{"target": name, "items": in_lists(MAX_LEVELS + 1) if name == "b" else None} for name in ("a", "b", "c")]
    rows = read(deep, columns)
    assert rows.addresses == ["a", "c"]
    assert [(one.line, one.target) for one in rows.refusals] == [(2, "b")]
    assert TOO_DEEP in rows.refusals[0].reason


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"target": None, "name": "x"}, "the target is null"),
        ({"target": "", "name": "x"}, "the target is empty"),
        ({"target": "a b", "name": "x"}, "whitespace"),
        ({"target": "a" * 1_025, "name": "x"}, "longer than 1,024 characters"),
        ({"target": "a", "name": "x" * 2_100}, "are larger than 2,048 bytes"),
    ],
)
def test_a_bad_row_is_refused_and_the_others_are_kept(row: dict[str, Any], reason: str) -> None:
    rows = read([*people(0, 3), row, *people(3, 2)], NAMED)
    assert rows.addresses == [f"target-{number}" for number in range(5)]
    assert rows.variables == [{"name": f"name {number}"} for number in range(5)]
    assert rows.digest == read(people(0, 5), NAMED).digest
    assert [(refusal.line, reason in refusal.reason) for refusal in rows.refusals] == [(4, True)]


people_of = st.lists(
    st.fixed_dictionaries(
        {"target": st.text(st.characters(categories=["L", "N"]), min_size=1), "name": st.none() | st.text(max_size=5)}
    ),
    min_size=1,
    max_size=30,
)


@given(people_of, st.data())
def test_the_digest_is_the_same_however_rows_are_ordered_and_spread(rows: list[dict[str, Any]], data: Any) -> None:
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    parts = [part for part in (shuffled[:cut], shuffled[cut:]) if part]
    digests = [read(part, NAMED).digest for part in parts]
    total = AudienceDigest()
    for digest in digests:
        total = total.plus(digest)
    assert total == read(rows, NAMED).digest


@given(people_of, st.data())
def test_another_audience_has_another_digest(rows: list[dict[str, Any]], data: Any) -> None:
    index = data.draw(st.integers(0, len(rows) - 1))
    changed = [dict(row) for row in rows]
    changed[index][data.draw(st.sampled_from(["target", "name"]))] = "another-one"
    assert (changed == rows) == (read(changed, NAMED).digest == read(rows, NAMED).digest)


def test_swapped_variables_are_another_audience() -> None:
    swapped = [{"target": "a", "name": "y"}, {"target": "b", "name": "x"}]
    assert (
        read(swapped, NAMED).digest != read([{"target": "a", "name": "x"}, {"target": "b", "name": "y"}], NAMED).digest
    )


def test_rows_are_split_by_the_values_of_columns() -> None:
    rows = [{"target": str(n), "app": f"app{n % 2}", "n": n % 3 if n else None} for n in range(6)]
    found = {values: part.column("target").to_pylist() for values, part in split_batch(table(rows), ["app", "n"])}
    assert found == {
        ("app0", None): ["0"], ("app1", "1"): ["1"], ("app0", "2"): ["2"],
        ("app1", "0"): ["3"], ("app0", "1"): ["4"], ("app1", "2"): ["5"],
    }  # fmt: skip


def test_a_batch_that_is_one_part_is_left_whole() -> None:
    rows = [{"target": "a", "app": "x"}, {"target": "b", "app": "x"}]
    assert [(values, part.num_rows) for values, part in split_batch(table(rows), ["app"])] == [(("x",), 2)]
    assert [(values, part.num_rows) for values, part in split_batch(table(rows), [])] == [((), 2)]


def test_rows_of_different_values_are_never_together_whatever_characters_these_have() -> None:
    rows: list[dict[str, str | None]] = [
        {"target": "a", "app": "x\x1fy", "city": "z"},
        {"target": "b", "app": "x", "city": "y\x1fz"},
        {"target": "c", "app": None, "city": "z"},
        {"target": "d", "app": "\0", "city": "z"},
        {"target": "e", "app": "x", "city": "y\x1fz"},
    ]
    found = {values: part.column("target").to_pylist() for values, part in split_batch(table(rows), ["app", "city"])}
    assert found == {("x\x1fy", "z"): ["a"], ("x", "y\x1fz"): ["b", "e"], (None, "z"): ["c"], ("\0", "z"): ["d"]}
