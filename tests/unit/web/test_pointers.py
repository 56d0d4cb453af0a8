"""An input that does not fit is refused with a JSON pointer to the field at fault."""

from typing import Any

import msgspec
import pytest

from dispatcher.model.errors import InvalidInput
from web.bodies import parse_json, parse_query
from web.problems import MAX_DETAIL, ProblemError, problem_of
from web.routes.service import ServiceChanges
from web.routes.tasks import ManyChanges, NewTask, TaskPage

TASK: dict[str, Any] = {"channel": "log", "message": "hi"}


def pointers(body: bytes, model: type = NewTask) -> list[str]:
    """Return the pointers of the problem that a body gets."""
    with pytest.raises(InvalidInput) as refused:
        parse_json(body, model)
    return [error["pointer"] for error in problem_of(refused.value).document("r1")["errors"]]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"tier": 1}, "/tier"),
        ({"targets": ["a", "b", "c", {"target": "d", "vars": []}]}, "/targets/3/vars"),
        ({"targets": [{"target": "a", "colour": 1}]}, "/targets/0/colour"),
        ({"targets": [{"vars": {}}]}, "/targets/0/target"),
        ({"targets": [None]}, "/targets/0"),
        ({"colour": "red"}, "/colour"),
        ({"weight": 10**400}, "/weight"),
    ],
)
def test_pointer_leads_to_the_field(fields: dict[str, Any], pointer: str) -> None:
    body = b'{"weight": 1e400}' if "weight" in fields else msgspec.json.encode(TASK | fields)
    assert pointers(body) == [pointer]


def test_pointer_leads_into_objects_of_objects() -> None:
    assert pointers(b'{"filter": {"ids": ["a", 1]}}', ManyChanges) == ["/filter/ids/1"]


def test_pointer_to_a_value_of_a_map_is_that_of_the_map() -> None:
    assert pointers(b'{"tiers": {"high": "x"}}', ServiceChanges) == ["/tiers"]


def test_missing_field_is_named() -> None:
    assert pointers(b"{}") == ["/channel"]


def test_wrong_body_is_the_whole_document() -> None:
    assert pointers(b"[]") == [""]


def test_field_of_a_query_is_named() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_query([("limit", "0")], TaskPage)
    assert [error["pointer"] for error in problem_of(refused.value).document("r1")["errors"]] == ["/limit"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"NaN", b'{"weight": NaN}', b'"\\ud800"', b'"\xff"', b"[" * 10_000 + b"]" * 10_000, b'{"a":' * 10_000],
    ids=["nothing", "a part", "NaN", "NaN inside", "half a character", "no UTF-8", "deep lists", "deep objects"],
)
def test_what_is_not_json_cannot_be_read(body: bytes) -> None:
    with pytest.raises(ProblemError) as refused:
        parse_json(body, NewTask)
    assert refused.value.kind.status == 400


def test_message_that_is_nested_too_deeply_cannot_be_read() -> None:
    with pytest.raises(ProblemError, match="nested too deeply"):
        parse_json(b'{"channel": "log", "message": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, NewTask)


@pytest.mark.parametrize("body", [b'{"a": 1, "b": 1, "a": 2}', b'{"c": [{"a": 1, "\\u0061": 2}]}'])
def test_field_that_is_twice_in_one_object_is_named(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="The field 'a' is in one object twice"):
        parse_json(body, dict)


def test_field_twice_among_many_is_found_in_linear_time() -> None:
    names = b",".join(b'"a%d":1' % number for number in range(100_000))
    with pytest.raises(InvalidInput, match="'a99999' is in one object twice"):
        parse_json(b"{" + names + b',"a99999":1}', dict)


def test_long_input_is_not_sent_back() -> None:
    error = InvalidInput("x" * 1_000_000)
    assert len(problem_of(error).document("r1")["detail"]) < MAX_DETAIL + 10
