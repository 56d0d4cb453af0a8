"""Targets are checked against their channel and the variables of their message."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.channels.push_message import read_message
from dispatcher.channels.spec import compiled
from dispatcher.channels.specs import SPECS
from dispatcher.channels.submission.target_check import TargetCheck
from dispatcher.model.errors import InvalidInput

APNS, FCM = "ab" * 32, "token-of-a-device-1234"


def check(message: dict[str, Any], channel: str = "apns") -> TargetCheck:
    made = TargetCheck.of(channel, message)
    assert made is not None
    return made


def test_channels_without_a_spec_have_no_check() -> None:
    assert TargetCheck.of("http", {"any": 1}) is None


@pytest.mark.parametrize(("channel", "good", "bad"), [("apns", APNS, FCM), ("fcm", FCM, "short")])
def test_a_target_of_another_form_is_refused(channel: str, good: str, bad: str) -> None:
    its = check({"body": "x"}, channel)
    assert its.are_good([good, good], None)
    assert not its.are_good([good, bad], None)
    assert its.complaint(good, None) == ""
    assert its.complaint(bad, None).startswith("the target is not")


def test_a_target_without_a_variable_of_the_message_is_refused_with_the_fix() -> None:
    its = check({"body": "Hi {{name}} {{town|there}}"})
    assert its.are_good([APNS], [{"name": "Ann"}])
    assert not its.are_good([APNS], None)
    assert not its.are_good([APNS, APNS], [{"name": "Ann"}, {"town": "Ulm", "name": None}])
    assert its.complaint(APNS, {"town": "Ulm"}) == (
        "the message has the variable name, which the target does not have: "
        "add it, or write a default: {{name|a default}}"
    )


def test_variables_are_those_of_the_targets_language() -> None:
    its = check({"body": "Hi", "locales": {"de": {"body": "Hallo {{name}}"}}})
    assert its.complaint(APNS, {"lang": "en"}) == its.complaint(APNS, None) == ""
    assert "variable name" in its.complaint(APNS, {"lang": "de-AT"})


def test_a_message_that_is_too_large_for_one_target_is_refused_for_it() -> None:
    its = check({"body": "{{a}} and {{a}}"})
    assert its.complaint(APNS, {"a": "x" * 1_900}) == ""
    assert its.complaint(APNS, {"a": "x" * 2_048}).startswith("the message with the target's variables is larger")
    assert its.complaint(APNS, {"a": {"deep": "x" * 2_100}})


@pytest.mark.parametrize("number", [1e300, -5e-324])
def test_a_number_with_many_digits_counts_with_all_of_them(number: float) -> None:
    its = check({"body": "{{a}}" * 14})
    assert its.complaint(APNS, {"a": number}).startswith("the message with the target's variables is larger")
    assert its.complaint(APNS, {"a": 0.5}) == its.complaint(APNS, {"a": 0.0}) == ""


def test_the_default_of_a_null_counts() -> None:
    its = check({"body": "{{a|" + "x" * 2_400 + "}} {{b}}"})
    assert its.complaint(APNS, {"a": None, "b": "\U0001f600" * 450}).startswith(
        "the message with the target's variables"
    )
    assert its.complaint(APNS, {"a": "x", "b": "\U0001f600" * 450}) == ""


def test_columns_that_a_message_needs_are_named_before_anything_is_read() -> None:
    its = check({"body": "{{name}} {{town}}", "locales": {"de": {"body": "{{stadt}}"}}})
    its.check_columns(["name", "town", "more"])
    with pytest.raises(InvalidInput, match=r"no column: stadt, town\.") as refused:
        its.check_columns(["name", "lang"])
    assert "{{stadt|a default}}" in str(refused.value)


texts = st.text(st.characters(codec="utf-8"), max_size=20) | st.integers() | st.booleans() | st.lists(st.integers())


@given(texts, texts)
def test_the_size_is_that_of_the_filled_document(first: object, second: object) -> None:
    message = {"title": "{{a}}", "body": "Hi {{b|you}}", "data": {"k": "{{a}}"}}
    template = compiled(read_message(message), SPECS["apns"].document).of(None)
    variables = {"a": first, "b": second}
    assert template.size(variables) == len(template.fill("", variables))


def test_languages_without_a_text_are_counted_one_by_one_up_to_a_thousand() -> None:
    its = check({"body": "Hi", "locales": {"de": {"body": "Hallo"}}})
    for _ in range(2):
        its.note_languages([{"lang": f"x{number}"} for number in range(1_100)] + [{"lang": "de"}, None, {}])
    assert len(its.without_text) == 1_001
    assert (its.without_text["x0"], its.without_text["others"], its.without_text.total()) == (2, 200, 2_200)
