"""The message of a task as it travels: with the task's fields for delivery, and checked by its channel."""

from typing import Any

import pytest

from dispatcher.channels.submission.task_message import edited_message
from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import PushTask

TITLE = {"title": "Sale"}


def push(**fields: Any) -> PushTask:
    return PushTask(**{"app": "shop", "tier": "high", "channel": "fcm", "message": TITLE, **fields})


def test_the_fields_for_delivery_travel_in_the_message() -> None:
    android: Any = {"android": {"priority": "NORMAL"}}
    task = push(collapse="c", category="k", provider_ttl_s="1h", options={"fcm": android}, locales={"de": "Hallo"})
    delivery = {"collapse": "c", "category": "k", "provider_ttl_s": 3_600.0, "fcm": android}
    assert task.complete_message == {**TITLE, **delivery, "locales": {"de": {"body": "Hallo"}}}
    assert task.message == TITLE


def test_without_such_fields_the_message_travels_as_it_is() -> None:
    assert push(channel="http", message={"any": [1]}).complete_message == {"any": [1]}


def test_objects_may_come_as_json_texts() -> None:
    task = push(options='{"fcm": {"android": {}}}', locales='{"de": {"body": "Hallo"}}')
    assert (task.options, task.locales) == ({"fcm": {"android": {}}}, {"de": {"body": "Hallo"}})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"message": {"boddy": "x"}}, "task: message: Object contains unknown field `boddy`. Its fields are: title,"),
        ({"message": {"body": "{{first name}}"}}, "task: message: '{{first name}}' has '{{' that is not a variable"),
        ({"message": {"body": "x" * 4_090}}, "task: message: has 4,1"),
        ({"message": {"body": "x", "data": {"from": "1"}}}, "task: message.data.from: is a key that FCM keeps"),
        ({"collapse": "x" * 65}, "task: collapse: has more than 64 bytes; shorten it"),
        ({"locales": {"de": "x" * 4_090}}, "task: locales.de: has 4,1"),
        ({"provider_ttl_s": -1}, "task: provider_ttl_s: it must be 0 or more"),
        ({"options": {"wns": {}}}, "task: options.wns: there are no options for this channel, only for fcm, apns"),
        (
            {"options": {"fcm": {"andriod": {}}}},
            "task: options.fcm.andriod: there is no such field; did you mean android?",
        ),
        ({"options": {"fcm": {"android": {"ttl": "soon"}}}}, "task: options.fcm.android.ttl: is no duration"),
        ({"options": {"fcm": {"topic": "all"}}}, "task: options.fcm.topic: names a target"),
        ({"options": {"fcm": {"webpush": 5}}}, "task: options.fcm.webpush: must be an object"),
        (
            {"channel": "apns", "options": {"apns": {"headers": {"apns-priority": 5}}}},
            "task: options.apns.headers.apns-priority: must be one of the texts 10, 5, 1",
        ),
        (
            {"channel": "apns", "options": {"apns": {"headers": {"apns-topic": "x"}}}},
            "task: options.apns.headers.apns-topic: there is no such field",
        ),
        ({"channel": "http", "collapse": "c"}, "task: collapse: channel http does not have this"),
        ({"collapse": "c", "message": {"body": "x", "collapse": "d"}}, "task: collapse: is given, and collapse in"),
        ({"locales": "de"}, "task: locales: is no JSON object"),
    ],
)
def test_what_its_provider_would_refuse_is_refused_with_the_field_and_the_fix(
    fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        push(**fields)
    assert str(refused.value).startswith(complaint)


def test_a_message_and_its_fields_have_one_limit_of_size() -> None:
    texts = {tag: {"body": "x" * 3_500} for tag in ("de", "en", "fr", "it", "es")}
    with pytest.raises(InvalidInput, match="task: message: is 17,"):
        push(locales=texts)


def test_an_edited_message_keeps_what_it_does_not_say_about_the_delivery() -> None:
    submitted = {**TITLE, "collapse": "c", "fcm": {"android": {}}, "locales": {"de": {"title": "Verkauf"}}}
    assert edited_message("fcm", submitted, {"title": "New", "collapse": "d"}) == {
        "title": "New",
        "collapse": "d",
        "fcm": {"android": {}},
    }
    assert edited_message("http", submitted, {"title": "New"}) == {"title": "New"}


def test_an_edited_message_is_checked() -> None:
    with pytest.raises(InvalidInput, match=r"message\.data\.from: is a key"):
        edited_message("fcm", TITLE, {"data": {"from": "x"}})
