"""A task whose channel no live worker has: the submitter hears of it, or is refused."""

import logging
from typing import Any
from unittest.mock import Mock

import pytest

from dispatcher.model.errors import Refused, Unreachable
from dispatcher.model.view import WorkerBeat
from producers.submit.channel_check import ChannelCheck
from tests import records


def beat(state: str, *channels: str) -> WorkerBeat:
    return records.beat(state=state, extra={"channels": list(channels)})


def warnings(*beats: WorkerBeat, channel: str = "sms") -> list[str]:
    heard: list[str] = []
    ChannelCheck(lambda: beats).check(channel, strict=False, on_warning=heard.append)
    return heard


def test_one_worker_that_has_the_channel_or_does_not_say_what_it_has_is_enough() -> None:
    for other in (beat("starting", "sms"), records.beat()):
        assert warnings(beat("serving", "null"), other) == []


def test_a_warning_names_the_channels_that_live_workers_have() -> None:
    gone = [beat(state, "sms") for state in ("draining", "stopped", "suspect", "lost", "standby")]
    assert warnings(beat("serving", "null"), beat("serving", "log"), *gone) == [
        "no worker has channel sms: the task waits until one has it. Live workers have: log, null."
    ]


@pytest.mark.parametrize("channel", ["null", "log"])
def test_a_submission_warns_that_its_channel_sends_nothing(channel: str) -> None:
    assert warnings(beat("serving", channel), channel=channel)[0].startswith(f"channel {channel} sends nothing: ")
    ChannelCheck(lambda: [beat("serving", channel)]).check(channel, strict=True, on_warning=None)


def test_that_no_worker_is_running_is_said_instead() -> None:
    assert warnings(beat("stopped", "sms")) == ["no worker is running: the task waits until one is started."]


def test_a_strict_submission_is_refused() -> None:
    with pytest.raises(Refused, match=r"no worker has channel sms\. Live workers have: null\."):
        ChannelCheck(lambda: [beat("serving", "null")]).check("sms", strict=True, on_warning=None)
    with pytest.raises(Refused, match="no worker is running"):
        ChannelCheck(list).check("sms", strict=True, on_warning=None)


def test_without_redis_nothing_is_said_unless_it_must_be_known() -> None:
    workers = Mock(side_effect=Unreachable("Redis is gone."))
    ChannelCheck(workers).check("sms", strict=False, on_warning=pytest.fail)
    with pytest.raises(Unreachable):
        ChannelCheck(workers).check("sms", strict=True, on_warning=None)


def test_many_submissions_in_a_row_cost_one_look_and_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    workers = Mock(return_value=[beat("serving", "null")])
    check = ChannelCheck(workers)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            check.check("sms", strict=False, on_warning=None)
    workers.assert_called_once()
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("channel", "message", "ignored"),
    [
        ("fcm", {"data": {"k": "v"}, "sound": "s", "badge": 0, "category": "c"}, ["sound", "badge", "category"]),
        ("fcm", {"title": "Hi", "sound": "s", "badge": 3, "category": "c", "collapse": "x"}, []),
        ("fcm", {"data": {"k": "v"}, "sound": "s", "locales": {"de": {"title": "Hallo"}}}, []),
        ("fcm", {"sound": "s", "fcm": {"notification": {"title": "Hi"}}}, []),
        ("fcm", {"title": "Hi", "apns": {"aps": {"badge": 1}}}, ["options.apns"]),
        ("apns", {"title": "Hi", "sound": "s", "badge": 3, "category": "c", "fcm": {"android": {}}}, ["options.fcm"]),
        ("http", {"badge": 3}, []),
    ],
)
def test_a_submission_warns_of_each_field_that_its_channel_ignores(
    channel: str, message: dict[str, Any], ignored: list[str]
) -> None:
    heard: list[str] = []
    check = ChannelCheck(lambda: [beat("serving", channel)])
    check.check(channel, strict=False, on_warning=heard.append, message=message)
    assert [warning.partition(" has no effect ")[0] for warning in heard] == ignored
