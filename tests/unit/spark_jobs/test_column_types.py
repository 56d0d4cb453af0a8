"""Every type of column has one text, whether Spark reads it from Parquet, or a file or a program gives its values."""

import datetime
import json
import uuid
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from dispatcher.channels.value_texts import text_of
from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import Target
from producers.files.targets_file import TargetsFile
from producers.submit.validation import check_slab

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.ingest.audience import TableSource, read_table
from spark_jobs.ingest.job import IngestOptions, dry_run, transform
from spark_jobs.source.columns import columns_of
from spark_jobs.source.rows import column_values, read_rows
from spark_jobs.source.task_options import parse_options
from tests.unit.spark_jobs.tables import TASK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime.datetime(2026, 12, 1, 12, 0)  # noqa: DTZ001  # some types have no zone
MISSING = "(missing)"
LONG = pa.struct({"at": pa.list_(pa.timestamp("us", "UTC")), "of": pa.map_(pa.string(), pa.float32())})
TEXTS: dict[str, tuple[Any, object, str]] = {
    "string": (pa.string(), "Zoë", "Zoë"),
    "large_string": (pa.large_string(), "Zoë", "Zoë"),
    "string_view": (pa.string_view(), "Zoë", "Zoë"),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), "Zoë", "Zoë"),
    "json": (pa.json_(), '{"a": 1}', '{"a": 1}'),
    "boolean": (pa.bool_(), True, "true"),
    "int8": (pa.int8(), -7, "-7"),
    "int64": (pa.int64(), 2**53 + 1, "9007199254740993"),
    "uint8": (pa.uint8(), 255, "255"),
    "uint32": (pa.uint32(), 2**32 - 1, "4294967295"),
    "uint64": (pa.uint64(), 2**64 - 1, "18446744073709551615"),
    "float": (pa.float32(), 19.99, "19.99"),
    "double": (pa.float64(), 1e22, "1" + "0" * 22),
    "nan": (pa.float64(), float("nan"), MISSING),
    "decimal": (pa.decimal128(10, 2), Decimal("19.90"), "19.90"),
    "decimal64": (pa.decimal64(12, 2), Decimal("19.90"), "19.90"),
    "decimal(38,18)": (pa.decimal128(38, 18), Decimal("12.5").quantize(Decimal("1e-18")), "12.5"),
    "date32": (pa.date32(), NOON.date(), "2026-12-01"),
    "date64": (pa.date64(), NOON.date(), "2026-12-01"),
    "time": (pa.time64("us"), NOON.time(), "12:00:00"),
    "timestamp of ms": (pa.timestamp("ms", "UTC"), NOON, "2026-12-01T12:00:00Z"),
    "timestamp": (pa.timestamp("us", "UTC"), NOON.replace(microsecond=5), "2026-12-01T12:00:00.000005Z"),
    "timestamp of Berlin": (pa.timestamp("us", "Europe/Berlin"), NOON, "2026-12-01T12:00:00Z"),
    "timestamp_ntz": (pa.timestamp("us"), NOON, "2026-12-01T12:00:00"),
    "null": (pa.null(), None, MISSING),
    "a null": (pa.string(), None, MISSING),
    "list": (pa.list_(pa.string()), ["a", None], '["a",null]'),
    "large_list": (pa.large_list(pa.decimal128(5, 2)), [Decimal("9.90")], '["9.90"]'),
    "list of two": (pa.list_(pa.int32(), 2), [1, 2], "[1,2]"),
    "empty list": (pa.list_(pa.int64()), [], "[]"),
    "struct": (pa.struct({"n": pa.int64(), "p": pa.float32()}), {"n": None, "p": 0.1}, '{"n":null,"p":0.1}'),
    "list of structs": (pa.list_(pa.struct({"x": pa.float32()})), [{"x": 0.1}, None], '[{"x":0.1},null]'),
    "map": (pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", None)], '{"a":1,"b":null}'),
    "nested": (LONG, {"at": [NOON, None], "of": [("x", 0.1)]}, '{"at":["2026-12-01T12:00:00Z",null],"of":{"x":0.1}}'),
}  # fmt: skip
"""By name: the type in the Parquet file, a value, and the value's text."""
SQL = {
    "interval '26:05' hour to minute": "26:05:00",
    "date'10000-01-01'": "10000-01-01",
    "timestamp'10000-01-01 12:00:00'": "10000-01-01T12:00:00.000000Z",
    "array(timestamp'10000-01-01 12:00:00', timestamp'2026-12-01 12:00:00')": (
        '["10000-01-01T12:00:00.000000Z","2026-12-01T12:00:00Z"]'
    ),
    "cast(null as void)": MISSING,
    "named_struct()": "{}",
    "collate('Zoë', 'UTF8_LCASE')": "Zoë",
}
"""Expressions of types that Parquet does not have, and the text of their values."""
WITHOUT_TEXT = {
    "X'41'": "The column v is of type binary; bytes have no text",
    "named_struct('raw', X'41')": "The column v is of type binary; bytes have no text",
    "array(map('a', X'41'))": "The column v is of type binary; bytes have no text",
    "map(1, 'a')": "The column v is of type map<int,string>; the names in a map must be text",
    "parse_json('{}')": "The column v is of type variant; a variant has no type of its own",
    "interval '1-2' year to month": "The column v is of type interval year to month; its values have no text",
    "make_interval(1)": "The column v is of type interval; its values have no text",
}
UNREADABLE: dict[str, tuple[Any, object]] = {
    "timestamp of ns": (pa.timestamp("ns"), NOON),
    "time of ms": (pa.time32("ms"), NOON.time()),
    "half float": (pa.float16(), 1.5),
    "uuid": (pa.uuid(), uuid.UUID(int=7).bytes),
    "decimal of 50 digits": (pa.decimal256(50, 2), Decimal("9.90")),
}


def array(kind: Any, value: object) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array([value], kind.storage_type))
    return pa.array([value], kind)


def shown(variables: Mapping[str, Any] | None) -> str:
    text = text_of((variables or {}).get("v"))
    return MISSING if text is None else text


def written_as_parquet(path: Path, kinds: Mapping[str, tuple[Any, ...]]) -> TableSource:
    """A folder with a table, and a column for each type."""
    arrays = {name: array(*kind[:2]) for name, kind in kinds.items()}
    pq.write_table(pa.table({"target": ["t"], **arrays}), path)
    return TableSource(str(path))


def variables_by_spark(spark: "SparkSession", source: TableSource) -> dict[str, Any]:
    """The variables of a table's only row, as an attempt of the Spark source reads them."""
    options = parse_options(TASK)
    chosen = IngestOptions(task=options, audience=source, tables=Path(source.path).parent / "tables")
    table = transform(read_table(spark, source), chosen).drop("reason")
    columns = columns_of(table.schema, options)

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            variables = read_rows(batch, columns).variables or []
            yield pa.record_batch({"json": [msgspec.json.encode(own).decode() for own in variables]})

    [row] = table.mapInArrow(read, "json string").collect()
    return dict(json.loads(row.json))


def test_columns_of_parquet_have_the_texts_of_the_table(spark: "SparkSession", tmp_path: Path) -> None:
    found = variables_by_spark(spark, written_as_parquet(tmp_path / "all.parquet", TEXTS))
    assert {name: shown({"v": found.get(name)}) for name in TEXTS} == {
        name: text for name, (_, _, text) in TEXTS.items()
    }


@pytest.mark.parametrize("name", TEXTS)
def test_values_of_a_program_and_cells_of_a_file_have_the_text_of_their_column(name: str, tmp_path: Path) -> None:
    kind, value, text = TEXTS[name]
    column = array(kind, value)
    [own] = column_values(column.storage if isinstance(column, pa.ExtensionArray) else column)
    [given] = check_slab([Target("t", {"v": own})], int)[0].variables or [None]
    assert shown(given) == (text if name != "timestamp of Berlin" else "2026-12-01T13:00:00+01:00")
    (tmp_path / "people.csv").write_text(f'target,v\nt,"{text.replace(chr(34), chr(34) * 2)}"\n')
    (tmp_path / "people.jsonl").write_bytes(msgspec.json.encode({"target": "t", "v": own}) + b"\n")
    for file in ("people.csv", "people.jsonl"):
        [slab] = TargetsFile(tmp_path / file).slabs(1)
        [read] = check_slab(slab.items, slab.line_of)[0].variables or [None]
        if file == "people.csv" or own is not None:
            assert shown(read) == (text if file == "people.csv" else shown(given))


@pytest.mark.parametrize("expression", SQL)
def test_columns_that_sql_makes_have_a_text(spark: "SparkSession", expression: str) -> None:
    table, options = spark.sql(f"select 't' target, {expression} v, 'x' w"), parse_options(TASK)
    columns = columns_of(table.schema, options)

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield pa.record_batch({"text": [shown(own) for own in read_rows(batch, columns).variables or []]})

    [row] = table.mapInArrow(read, "text string").collect()
    assert row.text == SQL[expression]


@pytest.mark.parametrize("expression", WITHOUT_TEXT)
def test_a_column_without_a_text_is_refused_before_rows_are_read(spark: "SparkSession", expression: str) -> None:
    table = spark.sql(f"select 't' target, {expression} v")
    with pytest.raises(InvalidInput) as error:
        columns_of(table.schema, parse_options(TASK))
    assert error.value.cause == WITHOUT_TEXT[expression] + "."
    assert columns_of(table.schema, parse_options({**TASK, "variables": ""})).variables == ()


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_column_that_spark_cannot_read_is_refused_with_what_to_store(
    spark: "SparkSession", tmp_path: Path, name: str
) -> None:
    source = written_as_parquet(tmp_path / "people.parquet", {"v": UNREADABLE[name]})
    with pytest.raises(InvalidInput, match=r"times as microseconds, UUIDs as text") as error:
        read_table(spark, source)
    assert "\n" not in str(error.value)


def test_values_of_a_slice_are_those_of_its_rows() -> None:
    kind = pa.list_(pa.struct({"x": pa.map_(pa.string(), pa.float32())}))
    rows: list[Any] = [[{"x": {"a": number + 0.1}}] * number if number % 3 else None for number in range(9)]
    column = pa.array(rows, kind)
    assert column_values(column) == rows
    assert column_values(column.slice(4, 3)) == rows[4:7]
    assert column_values(column.slice(9)) == []


def test_a_row_with_a_list_that_is_too_long_is_refused_alone(spark: "SparkSession", tmp_path: Path) -> None:
    table = spark.range(3).selectExpr("concat('t', id) target", "sequence(0, id * 1000) numbers", "id n")
    table.write.parquet(str(tmp_path / "people"))
    source = TableSource(str(tmp_path / "people"))
    found = dry_run(spark, IngestOptions(task=parse_options(TASK), audience=source, tables=tmp_path / "tables"))
    assert found.counts.accepted == 1
    assert found.reasons == {"the variables are larger than 2,048 bytes (encoded)": 2}


def test_texts_may_come_as_large_strings(spark: "SparkSession", tmp_path: Path) -> None:
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    (tmp_path / "people.jsonl").write_text('{"target": "a", "n": 1}\n{"target": "b b", "n": [2]}\n{"target": "a"}\n')
    spark.sql("select 'a' target, 'Ann' name").write.parquet(str(tmp_path / "people"))
    spark.conf.set(name, "true")
    try:
        for path, accepted in (("people.jsonl", 1), ("people", 1)):
            source = TableSource(str(tmp_path / path))
            options = IngestOptions(task=parse_options(TASK), audience=source, tables=tmp_path / "tables")
            assert dry_run(spark, options).counts.accepted == accepted
    finally:
        spark.conf.unset(name)
