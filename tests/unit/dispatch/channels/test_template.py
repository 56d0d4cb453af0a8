"""Variables in messages."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.channels.template import TARGET, MissingVariable, Template, WholeNumber


def filled(value: object, target: str = "t", **variables: Any) -> Any:
    return json.loads(Template(value).fill(target, variables))


def test_variables_are_filled_in_everywhere_in_a_document() -> None:
    message = {"title": "Hi {{name}}", "data": {"for-{{ name }}": ["{{name}}", 1, None, True]}}
    assert filled(message, name="Ann") == {"title": "Hi Ann", "data": {"for-Ann": ["Ann", 1, None, True]}}


def test_the_target_goes_where_the_document_says() -> None:
    assert filled({"token": TARGET, "title": "{{a}}"}, "tok", a="x") == {"token": "tok", "title": "x"}


@pytest.mark.parametrize(
    ("value", "shown"), [(3, "3"), (1.5, "1.5"), (True, "true"), ({"a": [1]}, '{"a":[1]}'), ("", "")]
)
def test_values_appear_as_in_json(value: object, shown: str) -> None:
    assert filled("<{{x}}>", x=value) == f"<{shown}>"


@pytest.mark.parametrize("variables", [{}, {"name": None}])
def test_a_default_takes_the_place_of_a_missing_variable(variables: dict[str, Any]) -> None:
    assert filled("Hi {{name|you there}}!", **variables) == "Hi you there!"
    assert filled("Hi {{name|}}!", **variables) == "Hi !"
    with pytest.raises(MissingVariable, match="name"):
        filled("Hi {{name}}", **variables)


@pytest.mark.parametrize("default", ['"x"', "a\\b", "\n", '\t"', "\u2028", "\0"])
def test_a_default_stays_one_text_whatever_it_contains(default: str) -> None:
    assert filled({"body": f"<{{{{name|{default}}}}}>"}) == {"body": f"<{default}>"}


def test_required_variables_are_those_without_default() -> None:
    assert Template({"a": "{{x}} {{y|1}}", "b": ["{{z}}", TARGET]}).required == {"x", "z"}


@pytest.mark.parametrize("text", ["{{", "{{}}", "{{a b}}", "{{1a}}", "x {{a}} {{b"])
def test_a_text_that_is_no_template_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\{\{"):
        Template(text)


@pytest.mark.parametrize("text", [r"\u00005", r"\u00000\u0000", "\0" + "0\0", "\1", "\\", '"', "\u2028", "{", "}}"])
def test_no_text_is_taken_for_a_slot(text: str) -> None:
    """A title of U+0001 was replaced by the target, and `\\u00000` broke the JSON or raised an IndexError."""
    document = {"title": text, text: f"{text}{{{{name}}}}{text}"}
    assert filled(document, name='a"b') == {"title": text, text: f'{text}a"b{text}'}


@pytest.mark.parametrize(
    ("value", "number"),
    [(7, 7), ("7", 7), (" 07 ", 7), (7.0, 7), ("7.00", 7), (0, 0), ("", 1), (None, 1), (float("nan"), 1)],
)
def test_a_variable_becomes_a_number_where_the_document_has_one(value: object, number: int) -> None:
    assert filled({"badge": WholeNumber("{{n|1}}", "badge")}, n=value) == {"badge": number}


@pytest.mark.parametrize("value", ["seven", -1, "7.5", 7.5, True, [7], "1e3", "\u0667", 10**16, "7}"])
def test_a_value_that_is_no_whole_number_is_refused_where_the_document_has_one(value: object) -> None:
    with pytest.raises(ValueError, match="the variable n must be a whole number"):
        Template(WholeNumber("{{n|1}}", "badge")).fill("", {"n": value})


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "{{n|few}}", "{{n|}}", "{{n}}{{m}}", "about {{n}}"])
def test_a_text_that_can_be_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"badge is no whole number \(.*\): write a number"):
        Template(WholeNumber(text, "badge"))


PLAIN = st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"]), max_size=20)


@given(PLAIN, PLAIN, st.text(st.characters(exclude_categories=["Cs"])), PLAIN)
def test_whatever_a_variable_contains_stays_one_text(before: str, after: str, value: str, target: str) -> None:
    document = {"k": f"{before}{{{{v}}}}{after}", "target": TARGET}
    assert filled(document, target, v=value) == {"k": before + value + after, "target": target}
