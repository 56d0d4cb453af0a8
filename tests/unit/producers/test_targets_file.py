"""Audiences in files: every format, streamed, with the lines of what is wrong."""

import gzip
import io
from pathlib import Path
from typing import Any

import pytest

from dispatcher.errors import InvalidInput
from dispatcher.task import Target
from producers.cutter import Cutter
from producers.targets_file import Format, TargetsFile
from producers.validation import Refusal
from tests.unit.producers.world import cut


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def refused(source: TargetsFile) -> list[tuple[int, str]]:
    found: list[Refusal] = []
    list(cut(source, Cutter(1), found.extend))
    return [(refusal.line, refusal.target) for refusal in found]


@pytest.mark.parametrize(
    ("name", "text", "items"),
    [
        ("a.txt", "one\r\n\n  two  \nthree", ["one", "two", "three"]),
        ("a.txt", "", []),
        ("a.txt", "one,two\n", ["one,two"]),
        ("a.csv", "target\none\n\ntwo\n", ["one", "two"]),
        ("a.csv", "one\ntwo\n", ["one", "two"]),
        ("a.csv", "", []),
        ("a.csv", "\ufeffToken\none\n", ["one"]),
        ("a.csv", 'name,token\n"Ann, B.",one\n', [Target("one", {"name": "Ann, B."})]),
        ("a.jsonl", '"one"\n\n{"target": "two"}\n', ["one", Target("two")]),
        ("a.jsonl", '{"token": "one", "variables": {"n": 1}, "app": "x"}\n', [Target("one", {"n": 1})]),
        ("a.jsonl", '{"token": "one", "n": 1}\n', [Target("one", {"n": 1})]),
        ("a.ndjson", '{"target": "one"}', [Target("one")]),
        ("guess", '{"target": "one"}\n', [Target("one")]),
        ("guess", '"one"\n', ["one"]),
        ("guess", "token,name\none,Ann\n", [Target("one", {"name": "Ann"})]),
        ("guess", "token\none\n", ["one"]),
        ("guess", "one\ntwo\n", ["one", "two"]),
    ],
)
def test_formats(tmp_path: Path, name: str, text: str, items: list[object]) -> None:
    assert list(TargetsFile(written(tmp_path, name, text))) == items


@pytest.mark.parametrize("name", ["a.csv.gz", "guess"])
def test_gzip_is_recognised(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"token,name\none,Ann\n"))
    assert list(TargetsFile(tmp_path / name)) == [Target("one", {"name": "Ann"})]


def test_the_format_can_be_said(tmp_path: Path) -> None:
    assert list(TargetsFile(written(tmp_path, "a.csv", "token\n"), "lines")) == ["token"]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"one\ntwo\n"))))  # type: ignore[arg-type]
    assert list(TargetsFile("-")) == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.txt", "one\n\nb b\n\n\nfour\n\x07\n", [(3, "b b"), (7, "\\x07")]),
        ("a.csv", "token,n\none,1\nb b,2\nthree\n\nfour,4,4\n", [(3, "b b"), (4, "three"), (6, "four,4,4")]),
        ("a.csv", 'token,n\n"one","two\nlines"\nb b,2\n', [(4, "b b")]),
        ("a.csv", "one\ntwo,2\n", [(2, "two,2")]),
        ("a.jsonl", '"one"\n{broken\n[1]\n{"name": 1}\n', [(2, "{broken"), (3, "[1]"), (4, '{"name": 1}')]),
    ],
)  # fmt: skip
def test_bad_lines_are_refused_with_their_line(
    tmp_path: Path, name: str, text: str, lines: list[tuple[int, str]]
) -> None:
    assert refused(TargetsFile(written(tmp_path, name, text))) == lines


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\xfe\ntwo\n")
    source = TargetsFile(tmp_path / "a.txt")
    assert [line for line, _ in refused(source)] == [2]


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


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.csv", "name,age\nAnn,3\n", {}),
        ("a.csv", "token,age\none,3\n", {"where": {"app": "x"}}),
        ("a.csv", "one\n", {"where": {"app": "x"}}),
        ("a.txt", "one\n", {"where": {"app": "x"}}),
    ],
)
def test_a_file_without_the_columns_is_invalid(tmp_path: Path, name: str, text: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="column"):
        list(TargetsFile(written(tmp_path, name, text), **options))


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
    path = written(tmp_path, "big", "\n".join(rows.format(number) for number in range(30_000)))
    assert list(TargetsFile(path, format_)) == [f"t{number}" for number in range(30_000)]


def test_a_line_that_is_no_csv_is_refused_and_the_others_are_not(tmp_path: Path) -> None:
    source = TargetsFile(written(tmp_path, "a.csv", f"target\none\n{'x' * 200_000}\ntwo\n"))
    found: list[Refusal] = []
    cutter = Cutter(1)
    list(cut(source, cutter, found.extend))
    assert [(refusal.line, refusal.reason) for refusal in found] == [
        (3, "the line is not CSV: field larger than field limit (131072)")
    ]
    assert cutter.targets == 2


def test_a_first_line_that_is_no_csv_is_told(tmp_path: Path) -> None:
    source = TargetsFile(written(tmp_path, "a.csv", f"{'x' * 200_000}\none\n"))
    with pytest.raises(InvalidInput, match=r"first line of .*a\.csv is not CSV: field larger"):
        refused(source)
