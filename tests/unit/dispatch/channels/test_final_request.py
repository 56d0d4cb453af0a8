"""The request that leaves for one target: its type, priority and numbers, and what submission refuses of it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.channels.rules import apns as apns_rules
from dispatcher.channels.spec import Handling, TargetRequest
from dispatcher.channels.specs import SPECS
from dispatcher.channels.submission.target_check import TargetCheck
from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import PushTask
from dispatcher.model.tier import Tier
from lab.fake.apns.checks import header_problem, payload_problem
from lab.fake.fcm.checks import parse, problem_of

TARGETS = {"apns": "0" * 64, "fcm": "a-registration-token-1"}


def task(channel: str, message: dict[str, Any], **fields: Any) -> PushTask:
    return PushTask(app="shop", tier="high", channel=channel, message=message, **fields)


def request(push: PushTask, tier: Tier = Tier.HIGH, **variables: Any) -> TargetRequest:
    rendering = SPECS[push.channel].render(push.complete_message, Handling(tier, now_ms=0, expires_ms=0))
    return rendering.request(TARGETS[push.channel], variables)


def apns(message: dict[str, Any], tier: Tier = Tier.HIGH, /, **fields: Any) -> tuple[str, str, Any]:
    """Return type, priority and payload of a message that the fake takes, too."""
    sent = request(task("apns", message, options={"apns": fields} if fields else {}), tier)
    push_type = sent.headers["apns-push-type"]
    assert (header_problem(sent.headers), payload_problem(sent.body, push_type)) == ("", "")
    return push_type, sent.headers["apns-priority"], json.loads(sent.body)


@pytest.mark.parametrize(
    ("message", "options", "push_type", "priority", "payload"),
    [
        ({"body": "x"}, {}, "alert", "10", {"aps": {"alert": {"body": "x"}}}),
        ({"badge": 0}, {}, "alert", "10", {"aps": {"badge": 0}}),
        ({}, {"aps": {"badge": 0}}, "alert", "10", {"aps": {"badge": 0}}),
        ({}, {"aps": {"alert": {"loc-key": "HELLO"}}}, "alert", "10", {"aps": {"alert": {"loc-key": "HELLO"}}}),
        ({"badge": 3, "data": {"k": "v"}}, {}, "alert", "10", {"k": "v", "aps": {"badge": 3}}),
        ({"sound": "ping", "data": {"k": "v"}}, {}, "alert", "10", {"k": "v", "aps": {"sound": "ping"}}),
        ({}, {"aps": {"sound": {"name": "a", "critical": 1}}}, "alert", "10", None),
        ({"data": {"k": "v"}}, {}, "background", "5", {"k": "v", "aps": {"content-available": 1}}),
        ({"data": {"k": "v"}, "category": "c"}, {}, "background", "5", None),
        ({"data": {"k": "v"}}, {"headers": {"apns-push-type": "background"}}, "background", "5", None),
        ({"data": {"k": "v"}}, {"headers": {"apns-push-type": "voip"}}, "voip", "10", {"k": "v", "aps": {}}),
        ({"data": {"k": "v"}}, {"headers": {"apns-push-type": "voip", "apns-priority": "5"}}, "voip", "5", None),
        (
            {},
            {"headers": {"apns-push-type": "liveactivity"}, "aps": {"event": "update", "content-state": {"a": 1}}},
            "liveactivity",
            "10",
            {"aps": {"event": "update", "content-state": {"a": 1}}},
        ),
        ({}, {"headers": {"apns-push-type": "mdm"}, "mdm": "magic"}, "mdm", "10", {"mdm": "magic", "aps": {}}),
        ({"body": "x"}, {"aps": {"content-available": 1}}, "alert", "10", None),
        ({"data": {"k": "v"}, "locales": {"de": {"title": "x"}}}, {"aps": {"badge": 1}}, "alert", "10", None),
        ({"badge": "7"}, {}, "alert", "10", {"aps": {"badge": 7}}),
        ({"body": "x"}, {"aps": {"alert": None, "badge": None}}, "alert", "10", {"aps": {"alert": {"body": "x"}}}),
        ({"data": {"k": "v"}}, {"aps": {"badge": None}}, "background", "5", None),
        (
            {"body": "x"},
            {"custom": {"k": None}},
            "alert",
            "10",
            {"aps": {"alert": {"body": "x"}}, "custom": {"k": None}},
        ),
    ],
)
def test_a_notification_has_the_type_and_priority_that_apple_asks_for(
    message: dict[str, Any], options: dict[str, Any], push_type: str, priority: str, payload: Any
) -> None:
    sent = apns(message, **options)
    assert sent[:2] == (push_type, priority)
    assert payload is None or sent[2] == payload
    if "apns-priority" not in options.get("headers", {}):
        assert apns(message, Tier.LOW, **options)[1] == "5"


HEADERS = "task: options.apns.headers"
TITLE = {"title": "t"}


@pytest.mark.parametrize(
    ("channel", "fields", "complaint"),
    [
        ("apns", {"message": {"title": "t"}, "headers": {"apns-push-type": "background"}}, f"{HEADERS}.apns-push-type"),
        ("apns", {"message": {"badge": 1}, "headers": {"apns-push-type": "background"}}, f"{HEADERS}.apns-push-type"),
        ("apns", {"message": {"data": {}}, "headers": {"apns-push-type": "alert"}}, f"{HEADERS}.apns-push-type"),
        ("apns", {"message": {"data": {"k": "v"}}, "headers": {"apns-priority": "10"}}, f"{HEADERS}.apns-priority"),
        ("apns", {"message": {"body": "x"}, "headers": {"apns-priority": "7"}}, f"{HEADERS}.apns-priority"),
        ("apns", {"message": {"body": "x"}, "headers": {"apns-push-type": {}}}, f"{HEADERS}.apns-push-type"),
        ("apns", {"message": {"body": "x"}, "aps": {"badge": True}}, "task: options.apns.aps.badge: must be a number"),
        (
            "apns",
            {"message": {"body": "x"}, "aps": {"badge": "many"}},
            "task: message: badge is no whole number ('many')",
        ),
        (
            "apns",
            {"message": {"body": "x"}, "aps": {"badge": -1}},
            "task: options.apns.aps.badge: must be a number from 0",
        ),
        ("apns", {"message": {"body": "x"}, "aps": {"badge": 1.5}}, "task: options.apns.aps.badge: must be a number"),
        ("apns", {"message": {"body": "x"}, "aps": {"badge": {}}}, "task: options.apns.aps.badge: must be a number"),
        ("apns", {"message": {"body": "x"}, "aps": {"alert": 5}}, "task: options.apns.aps.alert: must be a text or an"),
        (
            "apns",
            {"message": {"body": "x"}, "aps": {"thread-id": 5}},
            "task: options.apns.aps.thread-id: must be a text",
        ),
        (
            "apns",
            {"message": {"body": "x"}, "aps": {"relevance-score": "{{score}}"}},
            "task: options.apns.aps.relevance-score: must be a number",
        ),
        ("apns", {"message": {"badge": "{{n}} new"}}, "task: message.badge: badge is no whole number ('{{n}} new')"),
        ("apns", {"message": {"data": {"k": "v"}, "locales": {"de": {"title": "x"}}}}, "task: message: must not be a"),
        ("fcm", {"message": TITLE, "android": {"ttl": "{{ttl}}"}}, "task: options.fcm.android.ttl: is no dur"),
        (
            "fcm",
            {"message": {"body": "x"}, "android": {"notification": {"colour": "red"}}},
            "task: options.fcm.android",
        ),
        (
            "fcm",
            {"message": {"body": "x"}, "apns": {"headers": {"apns-priority": 5}}},
            "task: options.fcm.apns.headers",
        ),
        (
            "fcm",
            {"message": {"body": "x"}, "webpush": {"headers": {"TTL": 60}}},
            "task: options.fcm.webpush.headers.TTL",
        ),
        ("fcm", {"message": TITLE, "data": {"n": 5}}, "task: options.fcm.data.n: must be a text"),
        (
            "fcm",
            {"message": {"body": "x"}, "android": {"data": {"gcm.x": "1"}}},
            "task: options.fcm.android.data.gcm.x",
        ),
        (
            "fcm",
            {"message": TITLE, "android": {"direct_boot_ok": "yes"}},
            "task: options.fcm.android.direct_boot_ok",
        ),
        (
            "fcm",
            {"message": TITLE, "android": {"notification": {"title": 5}}},
            "task: options.fcm.android.notification",
        ),
        (
            "fcm",
            {"message": TITLE, "android": {"notification": {"title_loc_args": "x"}}},
            "task: options.fcm.android.n",
        ),
        (
            "fcm",
            {"message": TITLE, "android": {"notification": 5}},
            "task: options.fcm.android.notification: must",
        ),
        ("fcm", {"message": TITLE, "android": {"ttl": 60}}, "task: options.fcm.android.ttl: must be a text"),
        *(
            (
                "fcm",
                {"message": TITLE, "android": {"notification": {name: value}}},
                f"task: options.fcm.android.notification.{name}: must",
            )
            for name, value in (
                *(("notification_count", True), ("color", "red"), ("visibility", "all")),
                *(("notification_priority", "MAX"), ("event_time", "tomorrow"), ("light_settings", "on")),
                *(("vibrate_timings", [1]), ("body_loc_args", ["a", 5])),
            )
        ),
        (
            "fcm",
            {"message": TITLE, "apns": {"payload": {"aps": {"badge": -1}}}},
            "task: options.fcm.apns.payload.aps.b",
        ),
        (
            "fcm",
            {"message": TITLE, "apns": {"payload": {"aps": "x"}}},
            "task: options.fcm.apns.payload.aps: must be an",
        ),
        ("fcm", {"message": TITLE, "fcm_options": {"label": "x"}}, "task: options.fcm.fcm_options.label: there is no"),
        (
            "fcm",
            {"message": TITLE, "fcm_options": {"analytics_label": "a b"}},
            "task: options.fcm.fcm_options.analytics_label: must be of the form [a-z0-9",
        ),
        (
            "fcm",
            {"message": TITLE, "webpush": {"fcm_options": {"link": "http://x"}}},
            "task: options.fcm.webpush.fcm_options.link: must be of the form https://",
        ),
        (
            "fcm",
            {"message": {**TITLE, "locales": {"": {"title": "x"}}}},
            "task: message.locales.: is no language; write",
        ),
        ("apns", {"message": {**TITLE, "locales": {"C": {"title": "x"}}}}, "task: message.locales.C: is no language"),
        (
            "fcm",
            {"message": {"body": "x", "locales": {"de": {"data": {"from": "1"}}}}},
            "task: message.locales.de.data.from: is a key that FCM keeps",
        ),
    ],
)
def test_what_the_provider_or_the_device_would_refuse_is_refused_at_submission_with_the_field(
    channel: str, fields: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        task(channel, fields.pop("message"), options={channel: fields} if fields else {})
    assert str(refused.value).startswith(complaint)


def test_a_call_may_be_larger_than_a_notification() -> None:
    call = {"headers": {"apns-push-type": "voip"}}
    assert len(request(task("apns", {"data": {"call": "x" * 4_500}}, options={"apns": call})).body) > 4_500
    with pytest.raises(InvalidInput, match="at most 5,120"):
        task("apns", {"data": {"call": "x" * 5_200}}, options={"apns": call})
    with pytest.raises(InvalidInput, match="at most 4,096"):
        task("apns", {"data": {"call": "x" * 4_500}})


@pytest.mark.parametrize("options", [{}, {"apns": {"headers": {"apns-push-type": "liveactivity"}}}])
def test_a_collapse_text_is_filled_in_for_each_target(options: dict[str, Any]) -> None:
    for channel in ("apns", "fcm"):
        push = task(channel, {"body": "x"}, collapse="order-{{order}}", options=options)
        sent = request(push, order="B2"), request(push, order=7)
        if channel == "apns":
            assert [one.headers["apns-collapse-id"] for one in sent] == ["order-B2", "order-7"]
        else:
            messages = [json.loads(one.body)["message"] for one in sent]
            assert [one["android"]["collapse_key"] for one in messages] == ["order-B2", "order-7"]
            assert [one["apns"]["headers"]["apns-collapse-id"] for one in messages] == ["order-B2", "order-7"]


@pytest.mark.parametrize("collapse", [" a b ", "{{order}}"])
def test_a_collapse_header_has_no_spaces_around_it(collapse: str) -> None:
    """HTTP/2 has none, and ends the request otherwise."""
    assert request(task("apns", {"body": "x"}, collapse=collapse), order=" a b ").headers["apns-collapse-id"] == "a b"


@pytest.mark.parametrize("order", ["x" * 59, "a\r\nhost: evil", "\x7f"])
def test_a_collapse_text_of_a_target_that_no_header_can_hold_is_refused(order: str) -> None:
    for channel in ("apns", "fcm"):
        check = TargetCheck.of(channel, task(channel, {"body": "x"}, collapse="order-{{order}}").complete_message)
        assert check is not None
        assert not check.are_good([TARGETS[channel]], [{"order": order}])
        assert "collapse" in check.complaint(TARGETS[channel], {"order": order})
        assert check.complaint(TARGETS[channel], {"order": "x" * 58}) == ""
        assert "variable order" in check.complaint(TARGETS[channel], None)
    with pytest.raises(ValueError, match=r"has more than|holds a control"):
        request(task("apns", {"body": "x"}, collapse="order-{{order}}"), order=order)


@pytest.mark.parametrize(
    ("channel", "options", "path"),
    [
        ("apns", {}, "aps.badge"),
        ("apns", {"apns": {"aps": {"badge": "{{unread}}"}}}, "aps.badge"),
        ("fcm", {}, "message.apns.payload.aps.badge"),
        ("fcm", {}, "message.android.notification.notification_count"),
        ("fcm", {"fcm": {"apns": {"payload": {"aps": {"badge": "{{unread}}"}}}}}, "message.apns.payload.aps.badge"),
    ],
)
@pytest.mark.parametrize("unread", [7, "7", 7.0])
def test_a_badge_of_a_target_is_a_number(channel: str, options: Any, path: str, unread: object) -> None:
    message = {"title": "Hi"} if options else {"title": "Hi", "badge": "{{unread}}"}
    value = json.loads(request(task(channel, message, options=options), unread=unread).body)
    for name in path.split("."):
        value = value[name]
    assert value == 7
    assert not isinstance(value, str)


@pytest.mark.parametrize("channel", ["apns", "fcm"])
@pytest.mark.parametrize(
    ("unread", "complaint"),
    [(7, ""), (" 7 ", ""), ("seven", "whole number"), (-1, "whole number"), (True, "whole number"), ("", "variable n")],
)
def test_a_target_whose_badge_is_no_number_is_refused(channel: str, unread: object, complaint: str) -> None:
    check = TargetCheck.of(channel, task(channel, {"title": "Hi", "badge": "{{n}}"}).complete_message)
    assert check is not None
    assert complaint in check.complaint(TARGETS[channel], {"n": unread})
    assert check.are_good([TARGETS[channel]], [{"n": unread}]) == (not complaint)


def test_a_null_in_the_options_changes_nothing() -> None:
    """A block of YAML without content is one."""
    push = task("fcm", {"body": "x"}, options={"fcm": {"android": None, "notification": None}}, collapse="c")
    message = json.loads(request(push).body)["message"]
    assert message["android"] == {"priority": "HIGH", "collapse_key": "c"}
    assert message["notification"] == {"body": "x"}


def test_sound_category_badge_and_collapse_reach_all_platforms_behind_fcm() -> None:
    push = task("fcm", {"title": "Hi", "sound": "ping", "badge": 3, "category": "news", "collapse": "c"})
    message = json.loads(request(push).body)["message"]
    assert problem_of(message) is None
    assert message["android"]["notification"] == {"channel_id": "news", "sound": "ping", "notification_count": 3}
    assert message["apns"]["payload"]["aps"] == {"category": "news", "sound": "ping", "badge": 3}
    assert message["apns"]["headers"]["apns-collapse-id"] == message["android"]["collapse_key"] == "c"


def test_data_without_a_text_stays_data_on_android() -> None:
    """A block for a notification would make one of it that has no text."""
    message = json.loads(request(task("fcm", {"data": {"k": "v"}, "sound": "ping", "badge": 3})).body)["message"]
    assert "notification" not in message["android"]
    assert message["apns"]["payload"]["aps"] == {"sound": "ping", "badge": 3}


def test_a_variable_that_decides_what_the_provider_takes_is_checked_for_each_target() -> None:
    push = task("fcm", {"body": "x", "data": {"{{key|k}}": "v"}}, options={"fcm": {"android": {"ttl": "{{ttl|60}}s"}}})
    check = TargetCheck.of("fcm", push.complete_message)
    assert check is not None
    values: list[dict[str, Any]] = [{}, {"ttl": 5}, {"ttl": "soon"}, {"key": "from"}]
    complaints = [check.complaint(TARGETS["fcm"], own) for own in values]
    assert complaints[:2] == ["", ""]
    assert complaints[2].startswith("message.fcm.android.ttl: is no duration")
    assert complaints[3].startswith("message.data.from: is a key that FCM keeps")
    assert [check.are_good([TARGETS["fcm"]], [own]) for own in values] == [True, True, False, False]


def test_the_final_requests_of_sample_targets_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    check = TargetCheck.of("apns", {"body": "x"})
    assert check is not None
    check.check_samples([TARGETS["apns"]] * 3, None)
    monkeypatch.setattr(apns_rules, "MAX_PAYLOAD_BYTES", 5)
    with pytest.raises(InvalidInput, match="message: has 30 bytes; at most 5"):
        check.check_samples([TARGETS["apns"]] * 3, None)


TEXTS = st.sampled_from(["", "x", "{{a}}", "{{b|3}}", "10", "background", "voip", "60s", "from", "\0", "\u00e9" * 40])
VALUES = TEXTS | st.sampled_from([5, -1, 7.5, True, None, [], ["{{a}}"], {"k": "v"}])
NAMES = st.sampled_from([
    *("aps", "headers", "badge", "alert", "sound", "content-available", "apns-priority", "apns-push-type", "data"),
    *("android", "apns", "webpush", "notification", "payload", "ttl", "priority", "from", "sticky", "title"),
])  # fmt: skip
OPTIONS: Any = st.recursive(VALUES, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=6)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "title": TEXTS,
        "data": st.dictionaries(TEXTS | NAMES, TEXTS, max_size=2),
        "sound": TEXTS,
        "badge": st.sampled_from([0, 3, "{{a}}", "{{b|1}}", "x"]),
        "collapse": TEXTS,
        "locales": st.dictionaries(st.sampled_from(["de", "iw"]), st.fixed_dictionaries({}, optional={"body": TEXTS})),
    },
)
VARIABLES = st.none() | st.dictionaries(st.sampled_from(["a", "b", "lang"]), TEXTS | st.sampled_from([7, "de", "\n"]))


@settings(max_examples=300)
@given(st.sampled_from(["apns", "fcm"]), MESSAGES, st.just({}) | st.dictionaries(NAMES, OPTIONS, max_size=3), VARIABLES)
def test_the_fakes_take_every_request_that_submission_accepts(
    channel: str, message: dict[str, Any], options: dict[str, Any], variables: dict[str, Any] | None
) -> None:
    try:
        push = task(channel, message, options={channel: options})
    except InvalidInput:
        return
    check = TargetCheck.of(channel, push.complete_message)
    assert check is not None
    if check.complaint(TARGETS[channel], variables):
        return
    sent = request(push, **variables or {})
    if channel == "apns":
        assert header_problem(sent.headers) == payload_problem(sent.body, sent.headers["apns-push-type"]) == ""
    else:
        document = parse(sent.body)
        assert isinstance(document, dict)
        assert problem_of(document["message"]) is None
