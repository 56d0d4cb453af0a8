"""Audiences in files: every format, streamed, with the lines of what is wrong."""

import gzip
import io
import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import Target
from producers.files.targets_file import Format, TargetsFile
from producers.submit.cutter import Cutter
from producers.submit.validation import Refusal
from tests.unit.dispatch.producers.fake_service import cut


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def refused(source: TargetsFile, cutter: Cutter | None = None) -> list[Refusal]:
    found: list[Refusal] = []
    list(cut(source, cutter or Cutter(1), found.extend))
    return found


@pytest.mark.parametrize(
    ("name", "text", "items"),
    [
        ("a.txt", "one\r\n\n  two  \nthree", ["one", "two", "three"]),
        ("a.txt", "", []),
        ("a.txt", "one,two\n", ["one,two"]),
        ("a.csv", "target\none\n\ntwo\n", ["one", "two"]),
        ("a.csv", "token;name\r\none;Ann\r\n", [Target("one", {"name": "Ann"})]),
        ("a.csv", '"name";"Token"\n"Ann; B.";one\n', [Target("one", {"name": "Ann; B."})]),
        ("a.csv", "name|token\nAnn, B.|one\n", [Target("one", {"name": "Ann, B."})]),
        ("a.csv", "token\none;1\n", ["one;1"]),
        ("a.tsv", "token\tname\none\tAnn\n", [Target("one", {"name": "Ann"})]),
        ("a.csv", "", []),
        ("a.csv", "\ufeffToken\none\n", ["one"]),
        ("a.csv", 'name,token\n"Ann, B.",one\n', [Target("one", {"name": "Ann, B."})]),
        ("a.jsonl", '"one"\n\n{"target": "two"}\n', ["one", Target("two")]),
        ("a.jsonl", '{"token": "one", "variables": {"n": 1}, "app": "x"}\n', [Target("one", {"n": 1})]),
        ("a.jsonl", '{"token": "one", "n": 1}\n', [Target("one", {"n": 1})]),
        ("a.ndjson", '{"target": "one"}', [Target("one")]),
        ("a.json", '["one", {"target": "two", "n": [1, "]"]}]', ["one", Target("two", {"n": [1, "]"]})]),
        ("a.json", '\ufeff[\n  {\n    "target": "one"\n  },\n  "two"\n]\n\n', [Target("one"), "two"]),
        ("a.json", "[]", []),
        ("a.json", ' [ "one" ] ', ["one"]),
        ("a.json", '"one"\n{"target": "two"}\n', ["one", Target("two")]),
        ("a.jsonl", '[\n"one"\n]', ["one"]),
        ("guess", '[{"target": "one"}]', [Target("one")]),
        ("guess", "token;name\none;Ann\n", [Target("one", {"name": "Ann"})]),
        ("guess", "\n\r\n[\n" + '"one"]', ["one"]),
        ("guess", '\n"one"\n', ["one"]),
        ("guess", "\n\none\n\ntwo\n", ["one", "two"]),
        ("guess", '{"target": "one"}\n', [Target("one")]),
        ("guess", '"one"\n', ["one"]),
        ("guess", "token,name\none,Ann\n", [Target("one", {"name": "Ann"})]),
        ("guess", "token\none\n", ["one"]),
        ("guess", "one\ntwo\n", ["one", "two"]),
    ],
)
def test_formats(tmp_path: Path, name: str, text: str, items: list[object]) -> None:
    assert list(TargetsFile(written(tmp_path, name, text))) == items


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.json", "guess"])
@pytest.mark.parametrize("data", ["target,name\nabc,Ann\n".encode("utf-16"), b"PK\x03\x04\x14\x00\x06\nabc\n"])
def test_a_file_that_is_no_text_is_refused_though_some_of_its_lines_could_be_targets(
    tmp_path: Path, name: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInput, match=f"{name} is not a text in UTF-8"):
        list(TargetsFile(tmp_path / name))


@pytest.mark.parametrize("name", ["a.csv.gz", "guess"])
def test_gzip_is_recognised(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"token,name\none,Ann\n"))
    assert list(TargetsFile(tmp_path / name)) == [Target("one", {"name": "Ann"})]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"one\ntwo\n"))))
    assert list(TargetsFile("-")) == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.txt", "one\n\nb b\n\n\nfour\n\x07\n", [(3, "b b"), (7, "\\x07")]),
        ("a.csv", "token,n\none,1\nb b,2\nthree\n\nfour,4,4\n", [(3, "b b"), (4, "three"), (6, "four,4,4")]),
        ("a.csv", 'token,n\n"one","two\nlines"\nb b,2\n', [(4, "b b")]),
        ("a.csv", "token\none\ntwo,2\n", [(3, "two,2")]),
        ("a.csv", 'token\n"one"\n"two" 2\nthree\n"four', [(3, ""), (5, "")]),
        ("a.json", '[\n"one",\n7,\n{"n": 1}, "",\nnull]', [(3, "7"), (4, '{"n": 1}'), (4, ""), (5, "null")]),
        ("a.json", '["\\ud83c",\n{"target":\n"b b"\n}, "\\\\ud83c"]', [(1, "\\udcff"), (2, "b b")]),
        ("a.jsonl", '"one"\n{broken\n[1]\n{"name": 1}\n', [(2, "{broken"), (3, "[1]"), (4, '{"name": 1}')]),
    ],
)  # fmt: skip
def test_bad_lines_are_refused_with_their_line(
    tmp_path: Path, name: str, text: str, lines: list[tuple[int, str]]
) -> None:
    assert [(refusal.line, refusal.target) for refusal in refused(TargetsFile(written(tmp_path, name, text)))] == lines


@pytest.mark.parametrize(
    ("name", "data", "line", "reason"),
    [
        ("a.txt", b"one\n\xff\xfe\ntwo\n", 2, "one that cannot be printed"),
        ("a.csv", b"target,name\none,Jos\xe9\ntwo,Ann\nthree,\n", 2, "text that is not UTF-8: save the file as UTF-8"),
        ("a.json", b'["one",\n{"target": "\xff", "n": "Jos\xe9"}, "two"]', 2, "one that cannot be printed"),
        (
            "a.csv",
            b"target\none\n%b\ntwo\n" % (b"x" * 200_000),
            3,
            "the line is not CSV: field larger than field limit (131072)",
        ),
    ],
    ids=["target", "variables", "array", "line"],
)
def test_a_line_that_cannot_be_read_is_refused_and_the_others_are_not(
    tmp_path: Path, name: str, data: bytes, line: int, reason: str
) -> None:
    (tmp_path / name).write_bytes(data)
    cutter = Cutter(1)
    (refusal,) = refused(TargetsFile(tmp_path / name), cutter)
    assert (refusal.line, cutter.targets) == (line, 2)
    assert refusal.reason.endswith(reason)


def test_a_filter_keeps_rows_and_its_columns_are_no_variables(tmp_path: Path) -> None:
    text = "app,segment,token,locale\nshop,a,one,de\nnews,a,two,de\nshop,b,three,fr\nshop,c,four,ja\n"
    source = TargetsFile(written(tmp_path, "a.csv", text), where={"app": "shop", "segment": ["a", "b"]})
    assert list(source) == [Target("one", {"locale": "de"}), Target("three", {"locale": "fr"})]
    json_lines = '{"app": "shop", "target": "one"}\n{"app": "news", "target": "two"}\n"three"\n'
    assert list(TargetsFile(written(tmp_path, "a.jsonl", json_lines), where={"app": "shop"})) == [Target("one")]


@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (5_000, 5_000), (20_000, 10_000)])
def test_a_limit_takes_the_first(tmp_path: Path, limit: int, count: int) -> None:
    path = written(tmp_path, "a.txt", "".join(f"t{number}\n" for number in range(10_000)))
    assert list(TargetsFile(path, limit=limit)) == [f"t{number}" for number in range(count)]


@pytest.mark.parametrize("half", ["\\ud83c", "\\udf89"])
def test_half_a_character_refuses_its_target_wherever_the_text_is_cut(tmp_path: Path, half: str) -> None:
    for blanks in range(8_165, 8_195):
        text = f'[{" " * blanks}"a{half}b", "c\\ud83c\\udf89d"]'
        assert [(one.line, one.target) for one in refused(TargetsFile(written(tmp_path, "a.json", text)))] == [
            (1, "a\\udcffb")
        ]


@pytest.mark.parametrize("check", [list, TargetsFile.check])
def test_a_missing_file_is_invalid(tmp_path: Path, check: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        check(TargetsFile(tmp_path / "none.csv"))


def test_a_truncated_gzip_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n" * 1_000)[:-12])
    with pytest.raises(InvalidInput, match="cannot be read"):
        list(TargetsFile(tmp_path / "a.gz", "lines"))


@pytest.mark.parametrize("format_", ["lines", "csv", "jsonl"])
def test_a_large_file_is_read_whole(tmp_path: Path, format_: Format) -> None:
    rows = {"lines": "t{}", "csv": "t{}", "jsonl": '"t{}"'}[format_]
    header = "token\n" if format_ == "csv" else ""
    path = written(tmp_path, "big", header + "\n".join(rows.format(number) for number in range(30_000)))
    assert list(TargetsFile(path, format_)) == [f"t{number}" for number in range(30_000)]


LONG = "\n".join(f"t{number},Ada" for number in range(900))
NOT_CLOSED = "begins on line"
NOT_JSON = "not JSON from line"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "name,age\nAnn,3\n", "column"),
        ("a.csv", "one\ntwo\n", "column"),
        ("a.csv", "\ntoken\none\n", "column"),
        ("guess", "id;name\n1;Ada\n", "column"),
        ("guess", "\nid,token\n1,one\n", "column"),
        ("a.csv", "device_id\nabc\n", "target or token or address: its first line has 'device_id'.*--format lines"),
        ("a.csv", "id;name\n1;Ada\n", r"column.* its first line has 'id', 'name'\. Name the column"),
        ("a.csv", "target,name,name\none,Ann,Bob\n", r"a\.csv has two columns named 'name'"),
        ("a.csv", "target,target\none,Ann\n", r"a\.csv has two columns named 'target'"),
        ("a.csv", f"{'x' * 200_000}\none\n", r"first line of .*a\.csv is not CSV: field larger"),
        ("a.csv", 'token,n\none,"Ada\ntwo,Bob\nthree,Carl\n', f"{NOT_CLOSED} 2 is not closed.*up to line 4"),
        ("a.csv", 'token,n\none,"Ada\ntwo,"Bob"\nthree,Carl\n', f"{NOT_CLOSED} 2 is not closed.*up to line 3"),
        ("a.csv", f'token,n\none,1\ntwo,"Ada\n{LONG}\nb,Bob"\n', f"{NOT_CLOSED} 3 is not closed.*up to line 904"),
        ("a.csv", f'token,n\none,1\ntwo,"Ada\n{LONG * 20}\n', f"{NOT_CLOSED} 3 is not closed"),
        ("a.json", '["one",\n"two"', f"{NOT_JSON} 2 on: the array is not closed"),
        ("a.json", "[", f"{NOT_JSON} 1 on: the array is not closed"),
        ("a.json", '["one",\n]', f"{NOT_JSON} 2 on: unallowed token at this point in JSON text"),
        ("a.json", '["one"\n"two"]', f"{NOT_JSON} 2 on: there is no ',' or ']' after a value"),
        ("a.json", '["one"]\n["two"]', f"{NOT_JSON} 2 on: there is text after the end"),
        ("a.json", '["one",\n{"target": "two", "n": NaN}]', f"{NOT_JSON} 2 on: invalid char in json text"),
        ("a.json", '["one",\n{"target": "two]', f"{NOT_JSON} 2 on: the array is not closed"),
        ("a.json", '["one",\n"\\\\\\udf89", "\\\\ud83c\\udf89"]', f"{NOT_JSON} 2 on: a text has half a character"),
        ("a.json", f'["one",\n"{"x" * 2_000_000}"]', f"{NOT_JSON} 2 on: no value of at most 1,048,576 characters"),
        ("a.json", '["one", ' + "[" * 100_000, f"{NOT_JSON} 1 on: a value is nested too deeply"),
        ("a.txt", '[\n"one"\n]\n', r"begins as JSON does. Name it \.json"),
    ],
    ids=itertools.count(),
)
def test_a_file_that_is_no_list_of_targets_is_refused_as_a_whole(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    """A quote that is not closed swallows no rows, and of two columns of one name none is lost."""
    with pytest.raises(InvalidInput, match=message):
        refused(TargetsFile(written(tmp_path, name, text)))


@pytest.mark.parametrize("check", [list, TargetsFile.check])
@pytest.mark.parametrize(
    ("name", "text", "where"),
    [("a.csv", "id\nabc\n", None), ("a.csv", "token,age\none,3\n", {"app": "x"}), ("a.txt", "one\n", {"app": "x"})],
)
def test_a_column_that_is_not_there_is_missed_before_anything_is_submitted(
    tmp_path: Path, check: Any, name: str, text: str, where: dict[str, str] | None
) -> None:
    with pytest.raises(InvalidInput, match="column"):
        check(TargetsFile(written(tmp_path, name, text), where=where))


@pytest.mark.parametrize("separator", [", ", ",\n"])
def test_a_large_array_is_read_in_parts(tmp_path: Path, separator: str) -> None:
    """On one line or on many, never the whole of it is in memory."""
    values = (f'{{"target": "t\u00e9-{number}", "name": "Ada"}}' for number in range(120_000))
    path = written(tmp_path, "a.json", "[" + separator.join(values) + "]")
    tracemalloc.start()
    count = sum(len(slab.items) for slab in TargetsFile(path).slabs(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 120_000
    assert peak < path.stat().st_size / 2


@pytest.mark.parametrize(
    ("text", "items", "notes"),
    [
        ("token, name, lang\none, Ann, de\n", [Target("one", {"name": "Ann", "lang": "de"})], []),
        ("token,name\n one ,\t Ann \n", [Target("one", {"name": "Ann"})], []),
        ('token,name\none, "Lee, Ann"\n', [Target("one", {"name": "Lee, Ann"})], []),
        ("sep=;\r\ntoken;name\r\none;Ann\r\n", [Target("one", {"name": "Ann"})], ["the delimiter is ';'"]),
        ('"sep=,"\ntoken,name\none,"a;b"\n', [Target("one", {"name": "a;b"})], ["the delimiter is ','"]),
        ("SEP=\t\ntoken\tname\none\tAnn\n", [Target("one", {"name": "Ann"})], [r"the delimiter is '\t'"]),
        ("\ufeffsep=:\ntoken:name\none:Ann\n", [Target("one", {"name": "Ann"})], ["the delimiter is ':'"]),
        ("sep=;\ntoken\none\n", ["one"], ["the delimiter is ';'"]),
        ("token;name;;\none;Ann;;\n", [Target("one", {"name": "Ann"})], ["2 columns without a name"]),
        (",token,name\n,one,Ann\n", [Target("one", {"name": "Ann"})], ["1 column without a name"]),
        (
            "sep=;\ntoken;;name\none; ;Ann\n",
            [Target("one", {"name": "Ann"})],
            ["the delimiter is ';'", "1 column without a name"],
        ),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "guess"])
def test_what_spreadsheets_add_to_a_table_is_left_out_and_noted(
    tmp_path: Path, name: str, text: str, items: list[object], notes: list[str]
) -> None:
    source = TargetsFile(written(tmp_path, name, text))
    assert list(source) == items
    assert [note.partition(": ")[2][: len(start)] for note, start in zip(source.notes, notes, strict=True)] == notes


def test_a_value_in_a_column_without_a_name_refuses_its_row(tmp_path: Path) -> None:
    source = TargetsFile(written(tmp_path, "a.csv", "token;name;\none;Lee;Ann\ntwo;Bob;\n"))
    cutter = Cutter(1)
    (refusal,) = refused(source, cutter)
    assert (refusal.line, refusal.reason) == (2, "the line has a value in a column without a name")
    assert cutter.targets == 1


@pytest.mark.parametrize(("bad", "count", "is_refused"), [(8, 50, True), (2, 3, True), (1, 3, False), (2, 60, False)])
def test_a_file_in_another_encoding_is_refused_before_any_target_is_sent(
    tmp_path: Path, bad: int, count: int, is_refused: bool
) -> None:
    rows = ["José" if number < bad else "Ann" for number in range(count)]
    text = "token,name\n" + "".join(f"t{number},{name}\n" for number, name in enumerate(rows))
    (tmp_path / "a.csv").write_bytes(text.encode("latin-1"))
    if is_refused:
        with pytest.raises(InvalidInput, match=rf"{bad} of its first {count + 1} lines are not\. Save it as UTF-8"):
            list(TargetsFile(tmp_path / "a.csv"))
    else:
        assert len(refused(TargetsFile(tmp_path / "a.csv"))) == bad


LONG_LINES = {
    "a.csv": (b"token,name\none,", b"\ntwo,Bob\n", "field larger"),
    "b.csv": (b"token,name\none,Ann", b"\ntwo,Bob\n", "field larger"),
    "a.txt": (b"one\n", b"\ntwo\n", "longer than 1,024"),
    "a.jsonl": (b'"one"\n"', b'"\n"two"\n', "the line is longer than 1,048,576 bytes"),
    "r.txt": (b"one\r", b"\rtwo\r", "longer than 1,024"),
}


@pytest.mark.parametrize("name", LONG_LINES)
@pytest.mark.parametrize("unit", [b"x" * (1 << 20), b"x," * (1 << 19), b" " * (1 << 20), b"[" * (1 << 20)])
def test_a_line_of_any_length_is_refused_in_little_memory(tmp_path: Path, name: str, unit: bytes) -> None:
    head, tail, reason = LONG_LINES[name]
    with gzip.open(tmp_path / f"{name}.gz", "wb", compresslevel=1) as file:
        file.writelines([head, *[unit] * 32, tail])
    cutter = Cutter(1)
    tracemalloc.start()
    try:
        (refusal,) = refused(TargetsFile(tmp_path / f"{name}.gz"), cutter)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert reason in refusal.reason
    assert cutter.targets == (1 if name.endswith("csv") else 2)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", 'token,name\none,"x' + '\n","' * 600_000, "a quoted field that begins on line 2 is not closed"),
        ("a.csv", "x" * 3_000_000, "first line of .* is not CSV: field larger"),
        ("a.json", '["one", "' + "x" * 3_000_000, "no value of at most 1,048,576 characters"),
        ("a.json", "[" * 3_000_000, "nested too deeply"),
    ],
)
def test_a_row_without_end_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        list(TargetsFile(written(tmp_path, name, text)))


def test_a_line_of_json_that_is_nested_too_deeply_is_refused_and_the_others_are_not(tmp_path: Path) -> None:
    text = '"one"\n' + "[" * 3_000 + "\n" + '{"target": "two", "n": ' + "[" * 3_000 + "]" * 3_000 + '}\n"three"\n'
    cutter = Cutter(1)
    assert [refusal.line for refusal in refused(TargetsFile(written(tmp_path, "a.jsonl", text)), cutter)] == [2, 3]
    assert cutter.targets == 2
