import pytest

from dispatcher.model.errors import InvalidInput
from spark_jobs.source.columns import Columns, columns_of
from spark_jobs.source.task_options import parse_options
from tests.unit.spark_jobs.tables import TASK

types = pytest.importorskip("pyspark.sql.types")


def planned(schema: str, **options: str) -> Columns:
    fields = [part.split(" ", 1) for part in schema.split("; ")]
    made = types.StructType([types.StructField(name, _type(kind)) for name, kind in fields])
    return columns_of(made, parse_options({**TASK, **options}))


def _type(kind: str) -> object:
    text = types.StringType()
    known = {
        "map": types.MapType(text, text), "bad map": types.MapType(types.LongType(), text),
        "struct": types.StructType([types.StructField("name", text)]),
        "bytes": types.BinaryType(), "deep": types.MapType(text, types.ArrayType(types.BinaryType())),
        "int": types.IntegerType(), "date": types.DateType(), "string": text,
    }  # fmt: skip
    return known[kind]


def test_all_other_columns_are_variables() -> None:
    assert planned("target string; name string; since date; tier string", split="", variables="name,since") == Columns(
        "target", ("name", "since"), "", ()
    )
    assert planned("target string; name string; day int").variables == ("name", "day")
    assert planned("target string; name string", variables="").variables == ()


def test_one_struct_or_map_holds_them_all() -> None:
    assert planned("target string; variables map; more int").whole == "variables"
    assert planned("token string; who struct", target="token", variables="who").whole == "who"


def test_a_struct_or_map_beside_others_is_one_variable() -> None:
    assert planned("target string; who struct").variables == ("who",)
    assert planned("target string; who struct; tags map; n int").variables == ("who", "tags", "n")


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("token string; name string", {}, "The table has no column target; it has token, name."),
        ("target string", {"variables": "name"}, "no column name"),
        ("target string", {"split": "language"}, "no column language"),
        ("target int", {}, "The column target is of type int; the target must be text"),
        ("target string; raw bytes", {}, "The column raw is of type binary"),
        (
            "target string; variables bad map",
            {},
            "of type map<bigint,string>; the names in a map must be text",
        ),
        ("target string; variables deep", {}, "of type binary; bytes have no text"),
        ("target string; day date", {"split": "day"}, "a split column must be text or a whole number"),
    ],
)
def test_a_missing_or_wrong_column_is_told_in_one_line(schema: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        planned(schema, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
