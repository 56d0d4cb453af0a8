"""A variable has one form, whether it comes from Python, a file or Spark."""

import datetime
import enum
import json
import uuid
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.channels.template import Template
from dispatcher.channels.value_texts import plain_value, text_of
from dispatcher.model.task import Target
from producers.files.targets_file import TargetsFile
from producers.submit.cutter import Cutter
from producers.submit.validation import check_each, check_slab
from spark_jobs.source.columns import Columns
from tests.unit.dispatch.producers.fake_service import cut

UTC, MISSING = datetime.UTC, "(missing)"
BERLIN = datetime.timezone(datetime.timedelta(hours=1))


class Word(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "another text"


class Plan(enum.StrEnum):
    PRO = "pro"


class Old(str, enum.Enum):  # noqa: UP042  # whose str() is not its value
    PRO = "pro"


class Level(enum.IntEnum):
    THREE = 3


class Size(enum.Enum):
    BIG = Decimal("1.50")


@dataclass
class Seat:
    row: int
    price: Decimal


class Trip(msgspec.Struct):
    at: datetime.date


def moment(zone: datetime.tzinfo | None = None, micros: int = 0) -> datetime.datetime:
    return datetime.datetime(2026, 12, 1, 18, 0, 0, micros, zone)


PYTHON: list[tuple[object, Any, str]] = [
    ("Ann", "Ann", "Ann"),
    (Word("Ann"), "Ann", "Ann"),
    (Plan.PRO, "pro", "pro"),
    (Old.PRO, "pro", "pro"),
    (Level.THREE, 3, "3"),
    (Size.BIG, "1.50", "1.50"),
    ("", "", ""),
    (True, True, "true"),
    (None, None, MISSING),
    (7, 7, "7"),
    (2**64 - 1, 2**64 - 1, "18446744073709551615"),
    (10**30, "1" + "0" * 30, "1" + "0" * 30),
    (-(2**63) - 1, "-9223372036854775809", "-9223372036854775809"),
    (19.99, 19.99, "19.99"),
    (3.0, 3.0, "3.0"),
    (1e22, 1e22, "1" + "0" * 22),
    (1e-7, 1e-7, "0.0000001"),
    (-2.5e-10, -2.5e-10, "-0.00000000025"),
    (float("nan"), MISSING, MISSING),
    (float("inf"), MISSING, MISSING),
    (Decimal("19.90"), "19.90", "19.90"),
    (Decimal("1E+3"), "1000", "1000"),
    (Decimal("0E-18"), "0", "0"),
    (Decimal("12.500000000000000000"), "12.5", "12.5"),
    (Decimal("1.00000000000E-7"), "0.0000001", "0.0000001"),
    (Decimal("-0.10"), "-0.10", "-0.10"),
    (Decimal("NaN"), MISSING, MISSING),
    (Decimal("-Infinity"), MISSING, MISSING),
    (moment(UTC), "2026-12-01T18:00:00Z", "2026-12-01T18:00:00Z"),
    (moment(BERLIN), "2026-12-01T18:00:00+01:00", "2026-12-01T18:00:00+01:00"),
    (moment(), "2026-12-01T18:00:00", "2026-12-01T18:00:00"),
    (moment(UTC, 500_000), "2026-12-01T18:00:00.500000Z", "2026-12-01T18:00:00.500000Z"),
    (moment(UTC).replace(year=1), "0001-12-01T18:00:00Z", "0001-12-01T18:00:00Z"),
    (datetime.date(2026, 12, 1), "2026-12-01", "2026-12-01"),
    (datetime.time(18, 0), "18:00:00", "18:00:00"),
    (datetime.time(18, 0, tzinfo=UTC), "18:00:00Z", "18:00:00Z"),
    (datetime.timedelta(minutes=90), "1:30:00", "1:30:00"),
    (datetime.timedelta(days=2, seconds=1), "48:00:01", "48:00:01"),
    (datetime.timedelta(seconds=-1.5), "-0:00:01.500000", "-0:00:01.500000"),
    (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007", "00000000-0000-0000-0000-000000000007"),
    ((1, 2), [1, 2], "[1,2]"),
    ({2, 1}, [1, 2], "[1,2]"),
    ([Decimal("1.10"), float("nan"), Plan.PRO], ["1.10", None, "pro"], '["1.10",null,"pro"]'),
    ({"at": moment(UTC), Word("n"): 1}, {"at": "2026-12-01T18:00:00Z", "n": 1}, '{"at":"2026-12-01T18:00:00Z","n":1}'),
    (Seat(3, Decimal("9.90")), {"row": 3, "price": "9.90"}, '{"row":3,"price":"9.90"}'),
    (Trip(datetime.date(2026, 12, 1)), {"at": "2026-12-01"}, '{"at":"2026-12-01"}'),
]


def shown(variables: Any) -> str:
    return str(json.loads(Template("{{v|(missing)}}").fill("", variables)))


@pytest.mark.parametrize(("value", "accepted", "text"), PYTHON, ids=repr)
def test_a_value_of_python_has_one_form_on_the_wire_and_one_as_text(value: object, accepted: Any, text: str) -> None:
    for check in (check_slab, check_each):
        [own] = check([Target("t", {"v": value, "w": "x"})], int)[0].variables or [None]
        assert own is not None
        assert own.get("v", MISSING) == accepted
        assert type(own.get("v", MISSING)) is type(accepted)
        assert shown(own) == text
        msgspec.msgpack.decode(msgspec.msgpack.encode(own))


@pytest.mark.parametrize(
    ("literal", "accepted", "text"),
    [
        ("19.90", 19.9, "19.9"),
        ("1e22", 1e22, "1" + "0" * 22),
        ("3.0", 3.0, "3.0"),
        ("1" + "0" * 30, "1" + "0" * 30, "1" + "0" * 30),
        ("null", None, MISSING),
        ("true", True, "true"),
        ('"2026-12-01 18:00"', "2026-12-01 18:00", "2026-12-01 18:00"),
        ('{"a":[1.5,null]}', {"a": [1.5, None]}, '{"a":[1.5,null]}'),
    ],
)
def test_a_value_of_a_json_file_stays_as_it_is(literal: str, accepted: Any, text: str, tmp_path: Path) -> None:
    file = tmp_path / "people.jsonl"
    file.write_text(f'{{"target": "t", "v": {literal}, "w": "x"}}\n')
    [block] = cut(TargetsFile(file), Cutter(1), print)
    [own] = block.variables or [None]
    assert own is not None
    assert own["v"] == accepted
    assert shown(own) == text


def numpy_values() -> list[tuple[object, Any, str]]:
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    return [
        (np.int64(5), 5, "5"),
        (np.uint64(2**64 - 1), 2**64 - 1, "18446744073709551615"),
        (np.float64(19.99), 19.99, "19.99"),
        (np.float32(19.99), 19.99, "19.99"),
        (np.float16(0.1), 0.1, "0.1"),
        (np.float32("nan"), MISSING, MISSING),
        (np.bool_(True), True, "true"),
        (np.str_("Ann"), "Ann", "Ann"),
        (np.datetime64("2026-12-01T18:00", "ns"), "2026-12-01T18:00:00", "2026-12-01T18:00:00"),
        (np.datetime64("2026-12-01"), "2026-12-01", "2026-12-01"),
        (np.datetime64("NaT"), MISSING, MISSING),
        (np.timedelta64(90, "m"), "1:30:00", "1:30:00"),
        (pd.Timestamp("2026-12-01 18:00", tz="UTC"), "2026-12-01T18:00:00Z", "2026-12-01T18:00:00Z"),
        (pd.Timedelta(minutes=90), "1:30:00", "1:30:00"),
        (pd.NaT, MISSING, MISSING),
        (pd.NA, MISSING, MISSING),
    ]


@pytest.mark.parametrize("index", range(16))
def test_values_of_numpy_and_pandas_are_those_of_python(index: int) -> None:
    value, accepted, text = numpy_values()[index]
    test_a_value_of_python_has_one_form_on_the_wire_and_one_as_text(value, accepted, text)


def spark_columns() -> list[tuple[Any, object, Any, str]]:
    pa = pytest.importorskip("pyarrow")
    return [
        (pa.decimal128(38, 18), Decimal("0E-18"), "0", "0"),
        (pa.decimal128(38, 18), Decimal("0.0000001"), "0.0000001", "0.0000001"),
        (pa.decimal128(10, 2), Decimal("19.90"), "19.90", "19.90"),
        (pa.float32(), 19.99, 19.99, "19.99"),
        (pa.float32(), 16_777_216.0, 16_777_216.0, "16777216.0"),
        (pa.float32(), 1e-7, 1e-7, "0.0000001"),
        (pa.float32(), float("nan"), MISSING, MISSING),
        (pa.float64(), float("inf"), MISSING, MISSING),
        (pa.float64(), 1e22, 1e22, "1" + "0" * 22),
        (pa.int64(), 2**53 + 1, 2**53 + 1, "9007199254740993"),
        (pa.timestamp("us", "UTC"), moment(UTC), "2026-12-01T18:00:00Z", "2026-12-01T18:00:00Z"),
        (pa.timestamp("us", "+01:00"), moment(BERLIN), "2026-12-01T18:00:00+01:00", "2026-12-01T18:00:00+01:00"),
        (pa.timestamp("us"), moment(), "2026-12-01T18:00:00", "2026-12-01T18:00:00"),
        (pa.date32(), datetime.date(2026, 12, 1), "2026-12-01", "2026-12-01"),
        (pa.time64("us"), datetime.time(18, 0), "18:00:00", "18:00:00"),
        (pa.bool_(), True, True, "true"),
        (pa.large_string(), "Ann", "Ann", "Ann"),
        (pa.dictionary(pa.int32(), pa.string()), "a", "a", "a"),
        (pa.string(), None, MISSING, MISSING),
        (pa.list_(pa.float32()), [19.99], [19.99], "[19.99]"),
        (pa.struct({"p": pa.float32(), "q": pa.float64()}), {"p": 0.1, "q": 0.5}, None, '{"p":0.1,"q":0.5}'),
        (pa.map_(pa.string(), pa.float32()), [("p", 19.99)], {"p": 19.99}, '{"p":19.99}'),
        (pa.map_(pa.string(), pa.list_(pa.date32())), [("p", [datetime.date(1, 1, 1)])], None, '{"p":["0001-01-01"]}'),
        (pa.large_list(pa.float32()), [19.99], [19.99], "[19.99]"),
    ]


@pytest.mark.parametrize("index", range(24))
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_value_of_a_column_of_spark_is_that_of_python(index: int, is_whole: bool) -> None:
    pa = pytest.importorskip("pyarrow")
    from spark_jobs.source.rows import read_rows

    kind, value, accepted, text = spark_columns()[index]
    if not is_whole and pa.types.is_nested(kind):
        return  # only a struct or map that holds all variables has such values
    column = pa.array([value], kind)
    words = pa.array(["x"])
    if is_whole:
        column = pa.StructArray.from_arrays([column, words], ["v", "w"])
        batch, columns = pa.record_batch({"target": ["t"], "vars": column}), Columns("target", (), "vars", ())
    else:
        batch = pa.record_batch({"target": ["t"], "v": column, "w": words})
        columns = Columns("target", ("v", "w"), "", ())
    [own] = read_rows(batch, columns).variables or [None]
    assert own is not None
    assert accepted is None or own.get("v", MISSING) == accepted
    assert shown(own) == text


@pytest.mark.parametrize(
    "value",
    [
        *(b"Ann", bytearray(b"x"), memoryview(b"x"), object(), 1j, range(3), msgspec.Raw(b"1")),
        *(
            msgspec.msgpack.Ext(1, b""),
            [b"x"],
            {"a": b"x"},
            {1: "x"},
            {object()},
            Decimal("1E+9999"),
            Decimal("1E-9999"),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_form_is_refused_and_named(value: object) -> None:
    accepted, refusals = check_slab([Target("t", {"v": value}), Target("u", {"v": "x"})], int)
    assert accepted.addresses == ["u"]
    assert refusals[0].reason.startswith("the variables cannot be encoded: v: ")


def test_a_set_of_several_types_has_an_order() -> None:
    assert text_of({"b", "a", 10, 2, None}) == '[null,2,10,"a","b"]'


def test_a_number_that_is_too_long_is_refused_for_its_size() -> None:
    _, [refusal] = check_slab([Target("t", {"v": 10**5_000})], int)
    assert refusal.reason == "the variables are larger than 2,048 bytes (encoded)"


floats = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | floats | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(plain)
def test_a_json_value_is_not_changed(value: object) -> None:
    assert plain_value(value) == value


@given(floats | st.decimals(allow_nan=False, allow_infinity=False, places=20))
def test_a_number_has_no_exponent_and_loses_nothing(value: float | Decimal) -> None:
    text = text_of(value)
    assert text is not None
    assert "e" not in text.lower()
    assert type(value)(text) == value
