"""The channels that need no network, and how channels are found by name."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest

from consumers.delivery.channel_registry import load_channels
from consumers.delivery.channels.http import HttpChannel
from consumers.delivery.channels.log import LogChannel, NullChannel
from dispatcher.model.errors import InvalidInput, Refused
from dispatcher.ports import BatchChannel
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, Outcome, Report
from tests.unit.dispatch.consumers.envelopes import MESSAGE, envelope

HERE = __name__


# ---------------------------------------------------------------- null
def test_null_sends_everything_and_counts() -> None:
    channel = NullChannel({})
    reports = asyncio.run(channel.deliver([envelope(0, ["a", "b"]), envelope(1)], "low"))
    assert reports == [ALL_SENT, ALL_SENT]
    assert (channel.envelopes, channel.targets) == (2, 3)


# ---------------------------------------------------------------- log
async def delivered(channel: LogChannel, *calls: list[Envelope]) -> list[Report]:
    """The reports of these calls, from the channel's opening to its end."""
    await channel.open()
    reports = [report for envelopes in calls for report in await channel.deliver(envelopes, "high")]
    await channel.close()
    return reports


@pytest.mark.parametrize(
    "odd",
    [{"message": msgspec.Raw(b"\xa1\xff")}, {"variables": [{"a": msgspec.msgpack.Ext(5, b"x")}]}],
    ids=["message", "variables"],
)
def test_an_envelope_that_cannot_be_json_fails_alone(odd: dict[str, Any], tmp_path: Path) -> None:
    channel = LogChannel({"path": str(tmp_path / "log")})
    before, failed, after = asyncio.run(delivered(channel, [envelope(0), envelope(1, ["b"], **odd), envelope(2)]))
    assert before == after == ALL_SENT
    assert failed.verdict.code == Outcome.FAILED
    assert "cannot be written as JSON" in failed.verdict.reason
    assert [json.loads(line)["sequence"] for line in (tmp_path / "log").read_text().splitlines()] == [0, 2]


def test_log_writes_a_line_per_envelope(tmp_path: Path) -> None:
    file = tmp_path / "new" / "pushes.jsonl"
    channel = LogChannel({"path": str(file)}, wall_s=lambda: 1_000_000_000.25)
    calls = [[envelope(0, ["a", "b"]), envelope(1, ["c"], variables=[{"n": 1}])], [envelope(2)]]
    assert asyncio.run(delivered(channel, *calls)) == [ALL_SENT] * 3
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0] == {
        "ts": "2001-09-09T01:46:40.250Z",
        "task": "task-1",
        "app": "shop",
        "tier": "high",
        "writer": "0",
        "sequence": 0,
        "attempt": 0,
        "message": MESSAGE,
        "targets": ["a", "b"],
    }
    assert lines[1]["variables"] == [{"n": 1}]
    assert [line["sequence"] for line in lines] == [0, 1, 2]


async def test_log_lines_are_in_the_file_when_success_is_reported_and_are_appended(tmp_path: Path) -> None:
    file = tmp_path / "pushes.jsonl"
    file.write_text("kept\n")

    channel = LogChannel({"path": str(file)})
    await channel.open()
    await channel.deliver([envelope(0)], "high")
    seen = file.read_text()
    await channel.close()
    assert seen.startswith("kept\n{")
    assert seen.endswith("}\n")


def test_log_goes_to_standard_output_where_no_file_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert asyncio.run(delivered(LogChannel({}), [envelope(4)])) == [ALL_SENT]
    assert json.loads(capfd.readouterr().out)["sequence"] == 4


def test_a_line_torn_by_a_failure_does_not_spoil_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pushes.jsonl"
    write = os.write
    room = 10

    def full_disk(descriptor: int, data: memoryview) -> int:
        nonlocal room
        if room == 0:
            raise OSError(28, "No space left on device")
        written = write(descriptor, data[:room])
        room -= written
        return written

    async def deliver() -> None:
        channel = LogChannel({"path": str(file)})
        await channel.open()
        monkeypatch.setattr(os, "write", full_disk)
        with pytest.raises(OSError, match="No space"):
            await channel.deliver([envelope(0)], "high")
        monkeypatch.setattr(os, "write", write)
        await channel.deliver([envelope(0)], "high")
        await channel.close()

    asyncio.run(deliver())
    torn, whole = file.read_text().splitlines()
    assert len(torn) == 10
    assert json.loads(whole)["sequence"] == 0


# ---------------------------------------------------------------- by name
class Own(NullChannel):
    """A user's channel."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__({"name": settings["name"]})
        self.key = settings["key"]


class Halfway:
    """Lacks most of what a channel needs."""

    name = "halfway"
    timeout_s = 0

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    async def open(self) -> None: ...


class Choosy(NullChannel):
    """Says itself what is wrong."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        raise Refused("Not on Sundays.")


class Sync(NullChannel):
    """Written as for a blocking client."""

    def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:  # type: ignore[override]
        return [ALL_SENT for _ in envelopes]


class SyncOpen(NullChannel):
    def open(self) -> None:  # type: ignore[override]
        """Connect."""


def counted(method: Any) -> Any:
    @wraps(method)
    def call(*given: Any) -> Any:
        return method(*given)

    return call


class Decorated(NullChannel):
    """Its decorator returns what the async function returns."""

    deliver = counted(NullChannel.deliver)


class Compiled(NullChannel):
    """Not a function that Python can look into."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.deliver = AsyncMock()  # type: ignore[method-assign]


class Forgetful(BatchChannel):
    """Has no deliver."""

    timeout_s, concurrency, batch_limit = 1.0, 1, 1

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.name = settings["name"]


NOT_A_CLASS = 5


def test_channels_are_found_by_name_or_class_and_given_their_settings() -> None:
    channels = load_channels(
        {"null": "null", "log": "log", "sms": "http", "own": f"{HERE}:Own"},
        {"sms": {"url": "http://localhost/sms", "timeout_s": 3}, "own": {"key": "k"}},
    )
    assert {name: channel.name for name, channel in channels.items()} == {name: name for name in channels}
    assert isinstance(channels["sms"], HttpChannel)
    assert channels["sms"].timeout_s == 3
    own = channels["own"]
    assert isinstance(own, sys.modules[HERE].Own)
    assert own.key == "k"


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("pigeon", r"The channel mine is neither null, log, http, fcm, apns nor a module:Class, but 'pigeon'"),
        ("no.such.module:Channel", r"module no.such.module of the channel mine cannot be imported"),
        (f"{HERE}:NoSuch", r"has no NoSuch"),
        (f"{HERE}:NOT_A_CLASS", r"not a class under the name NOT_A_CLASS"),
        (f"{HERE}:Own", r"The channel mine cannot be created: .* raised KeyError: 'key'"),
        (f"{HERE}:Halfway", r"lacks deliver, close, timeout_s .*, concurrency .*, batch_limit"),
        (f"{HERE}:Sync", r"deliver\(\) of the channel mine \(.*:Sync\) is not async. Write `async def deliver\(self, "),
        (f"{HERE}:Sync", r"fairlane.channels.BlockingChannel and write `def deliver_blocking"),
        (f"{HERE}:Forgetful", r"cannot be created: .*abstract class Forgetful .*deliver"),
        (f"{HERE}:SyncOpen", r"open\(\) of the channel mine .* is not async. Write `async def open"),
        ("http", r"The http channel has no url"),
        ("log", r"no-such-setting"),
        ("null", r"no setting no-such-setting"),
    ],
)
def test_what_is_wrong_with_a_channel_is_said(path: str, complaint: str) -> None:
    settings = {"no-such-setting": 1} if path in ("log", "null") else {}
    with pytest.raises(InvalidInput, match=complaint):
        load_channels({"mine": path}, {"mine": settings})


@pytest.mark.parametrize("name", ["Decorated", "Compiled"])
def test_what_may_be_async_is_not_refused(name: str) -> None:
    assert load_channels({"mine": f"{HERE}:{name}"})


def test_a_channels_own_words_are_kept() -> None:
    with pytest.raises(Refused, match="Not on Sundays"):
        load_channels({"mine": f"{HERE}:Choosy"})
