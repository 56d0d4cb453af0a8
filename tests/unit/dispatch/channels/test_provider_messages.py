"""Messages of the channels `fcm` and `apns`: what is refused at submission, and what is sent."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.channels.apns import ApnsSpec, apns_id
from dispatcher.channels.fcm import FcmSpec
from dispatcher.channels.rules.apns import ID_FORM
from dispatcher.channels.spec import ChannelSpec, Handling, merged
from dispatcher.model.errors import InvalidInput
from dispatcher.model.tier import Tier

FCM, APNS = FcmSpec(), ApnsSpec()
BOTH = pytest.mark.parametrize("spec", [FCM, APNS], ids=["fcm", "apns"])
NOW = Handling(Tier.HIGH, now_ms=1_000_000, expires_ms=0)


def body(spec: ChannelSpec, message: dict[str, Any], how: Handling = NOW, target: str = "tok", **variables: Any) -> Any:
    templates = spec.render(message, how).templates
    return json.loads(templates.of(variables).fill(target, variables))


@BOTH
@pytest.mark.parametrize(
    "message",
    [
        {"titel": "x"},
        {"body": 5},
        {"data": {"k": 5}},
        {"badge": -1},
        {"locales": {"de": {"x": ""}}},
        {"fcm": []},
    ],
)
def test_a_message_of_another_form_is_refused_with_the_field(spec: ChannelSpec, message: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        spec.check_message(message)
    assert next(iter(message)) in str(refused.value)


@BOTH
@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({}, "message"),
        ({"body": "x" * 4_090}, "message"),
        ({"body": "x", "locales": {"de": {"body": "ü" * 2_100}}}, "message.locales.de"),
        ({"body": "x", "collapse": "ü" * 33}, "message.collapse"),
    ],
)
def test_what_a_provider_would_refuse_is_named(spec: ChannelSpec, message: dict[str, Any], field: str) -> None:
    assert [problem.field for problem in spec.check_message(message)] == [field]


@BOTH
def test_a_sound_message_has_no_problem(spec: ChannelSpec) -> None:
    assert spec.check_message({"title": "Hi {{name}}", "body": "b", "data": {"a": "1"}, "locales": {"de": {}}}) == []


@BOTH
@pytest.mark.parametrize("collapse", ["a\nb", "a\r\nhost: evil", "a\tb", "\x7f", "a\u00a0b"])
def test_a_collapse_text_that_no_header_can_hold_is_named(spec: ChannelSpec, collapse: str) -> None:
    """It was accepted, and failed each target when it was sent."""
    assert [p.field for p in spec.check_message({"body": "x", "collapse": collapse})] == ["message.collapse"]


def test_keys_and_targets_that_belong_to_the_provider_are_named() -> None:
    assert [p.field for p in FCM.check_message({"data": {"from": "1", "google.x": "2", "fromage": "3"}})] == [
        "message.data.from",
        "message.data.google.x",
    ]
    assert FCM.check_message({"body": "x", "fcm": {"topic": "all"}})[0].field == "message.fcm.topic"
    assert APNS.check_message({"data": {"aps": "1"}})[0].field == "message.data.aps"
    assert APNS.check_message({"apns": {"aps": 5}})[0].field == "message.apns.aps"


@BOTH
@pytest.mark.parametrize("target", ["", "short", "ü" * 64, "a" * 5_000, "a b" * 30])
def test_a_malformed_target_is_named(spec: ChannelSpec, target: str) -> None:
    assert spec.check_target(target)


def test_targets_of_each_provider_are_accepted() -> None:
    assert FCM.check_target("dGVzdA:APA91bH-_x" * 9) is None
    assert APNS.check_target("0aF9" * 16) is None


def test_what_fcm_is_sent() -> None:
    message = {"title": "Hi {{name|you}}", "data": {"id": "{{id}}"}, "collapse": "c", "category": "news"}
    how = Handling(Tier.HIGH, now_ms=1_000, expires_ms=61_999)
    assert body(FCM, message, how, name="Ann", id=7) == {
        "message": {
            "token": "tok",
            "notification": {"title": "Hi Ann"},
            "data": {"id": "7"},
            "android": {
                "priority": "HIGH",
                "ttl": "60s",
                "collapse_key": "c",
                "notification": {"channel_id": "news"},
            },
            "apns": {"headers": {"apns-collapse-id": "c"}, "payload": {"aps": {"category": "news"}}},
        }
    }


def test_what_apns_is_sent() -> None:
    message = {"title": "Hi", "data": {"id": "{{id}}"}, "collapse": "c", "badge": 0, "apns": {"aps": {"sound": "s"}}}
    how = Handling(Tier.LOW, now_ms=1_000_999, expires_ms=1_061_000)
    assert body(APNS, message, how, id=7) == {"id": "7", "aps": {"alert": {"title": "Hi"}, "badge": 0, "sound": "s"}}
    assert APNS.render(message, how).headers == {
        "apns-push-type": "alert",
        "apns-priority": "5",
        "apns-expiration": "1060",
        "apns-collapse-id": "c",
    }


def test_data_alone_is_a_background_notification() -> None:
    headers = APNS.render({"data": {"a": "1"}}, NOW).headers
    assert (headers["apns-push-type"], headers["apns-priority"]) == ("background", "5")


def test_a_task_without_time_to_live_is_kept_as_long_as_the_provider_allows() -> None:
    assert "ttl" not in body(FCM, {"body": "x"})["message"]["android"]
    assert APNS.render({"body": "x"}, NOW).headers["apns-expiration"] == str(1_000 + 30 * 86_400)


@BOTH
def test_a_target_gets_the_texts_of_its_language(spec: ChannelSpec) -> None:
    message = {"body": "hello", "locales": {"de": {"body": "hallo"}, "zh-Hant": {"body": "nihao"}}}

    def text(**variables: Any) -> str:
        return next(word for word in ("hello", "hallo", "nihao") if word in str(body(spec, message, **variables)))

    assert [text(lang=tag) for tag in ("de", "DE_at", "zh-Hant-TW")] == ["hallo", "hallo", "nihao"]
    assert {text(lang=tag) for tag in ("zh", "fr", "", 5)} == {text()} == {"hello"}


@BOTH
def test_variables_of_all_languages_are_required(spec: ChannelSpec) -> None:
    message = {"body": "{{a}}", "locales": {"de": {"body": "{{b}}"}}}
    templates = spec.render(message, NOW).templates
    assert templates.required_with(["lang"]) == frozenset({"a", "b"})
    assert templates.required_with(["a"]) == frozenset({"a"})
    with pytest.raises(InvalidInput, match="variable"):
        spec.render({"body": "{{a"}, NOW)


def test_objects_are_merged_deeply() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"c": 3}, "d": 4}) == {"a": {"b": 1, "c": 3}, "d": 4}


Place = tuple[str, str, int, int]
TASKS, WRITERS = st.sampled_from(["a", "b"]), st.sampled_from(["0", "spark.1"])
PLACES = st.tuples(TASKS, WRITERS, st.integers(0, 9), st.integers(0, 499))


@given(PLACES, PLACES)
def test_a_place_in_a_task_has_one_apns_id_and_two_places_have_two(one: Place, other: Place) -> None:
    assert (apns_id(*one) == apns_id(*other)) == (one == other)
    assert ID_FORM.fullmatch(apns_id(*one))
