"""Lists as CSV and NDJSON: the same rows, and nothing that a spreadsheet would run."""

import csv
import io
import json
from typing import Any

import pytest

from web.encoding import encoded
from web.routing import Answer

ROWS: list[dict[str, Any]] = [
    {"id": "a", "targets": {"total": 3, "sent": -1}, "eta_s": None, "last_error": None, "reasons": ["x", 1]},
    {"id": 'b "quoted",\nin lines', "targets": {"total": 0, "sent": 2}, "eta_s": 1.5, "last_error": {"text": "=1+1"}},
]


def as_csv(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    response = encoded(Answer({"rows": rows, "more": False}), "text/csv")
    assert isinstance(response.body, bytes)
    return list(csv.DictReader(io.StringIO(response.body.decode(), newline="")))


def test_csv_has_a_column_for_each_inner_field() -> None:
    first, second = as_csv(ROWS)
    assert list(first) == ["id", "targets.total", "targets.sent", "eta_s", "reasons", "last_error.text"]
    assert list(first.values()) == ["a", "3", "-1", "", '["x",1]', ""]
    assert list(second.values()) == ['b "quoted",\nin lines', "0", "2", "1.5", "", "'=1+1"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", '=HYPERLINK("http://x")'])
def test_text_that_a_spreadsheet_would_run_is_quoted(text: str) -> None:
    assert as_csv([{"id": text}]) == [{"id": f"'{text}"}]


@pytest.mark.parametrize("text", ["plain", "<script>", "\u202egpj", "\U0001f389", "a=1", "'", '"', ";|\\"])
def test_other_text_is_as_it_is(text: str) -> None:
    assert as_csv([{"id": text}]) == [{"id": text}]


def test_empty_list_is_an_empty_table() -> None:
    assert as_csv([]) == []


def test_ndjson_has_a_row_in_each_line_and_the_cursor_in_a_header() -> None:
    response = encoded(Answer({"rows": ROWS, "cursor": "next"}), "application/x-ndjson")
    assert isinstance(response.body, bytes)
    assert [json.loads(line) for line in response.body.splitlines()] == ROWS
    assert response.headers["X-Next-Cursor"] == "next"
    assert response.content_type == "application/x-ndjson"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/html, TEXT/CSV; q=0.9", "text/csv"),
        ("application/json, text/csv", "application/json"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("nonsense;;,,/", "application/json"),
    ],
)
def test_first_known_type_that_the_client_accepts_is_taken(accept: str, kind: str) -> None:
    assert encoded(Answer({"rows": ROWS}), accept).content_type == kind


def test_what_is_no_list_is_json() -> None:
    assert encoded(Answer({"id": "a"}, 201, {"Location": "/x"}), "text/csv").content_type == "application/json"
