"""A submitter's view of a provider that fails or is slow, and of workers that are not there."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from benchmarks.redis_server import free_port
from dispatcher.analysis.why import Why
from fairlane import PushClient, PushTask, Settings
from fairlane.screen.fields import local_moment
from tests.integration.provider import Body, Provider, provider
from tests.integration.worker_crew import Crew, audience, crew, eventually, let_commands_use, text_of
from tests.unit.command_line import CommandLine

pytestmark = pytest.mark.timeout(180)
LASTS_S = 12.0
UNCOUNTED = 0.05
"""Maximum part of a task's time that goes to no cause, if the task lasts longer than 10 s."""


async def busy(body: Body) -> web.Response:
    return web.Response(status=429, headers={"Retry-After": "600"}, text="slow down")


async def broken(body: Body) -> web.Response:
    return web.Response(status=500) if body["attempt"] < 2 else web.Response()


async def wrong_key(_: Body) -> web.Response:
    return web.Response(status=401)


async def slow(_: Body) -> web.Response:
    await asyncio.sleep(LASTS_S)
    return web.Response()


ANSWERS = {"busy": busy, "broken": broken, "wrong-key": wrong_key, "slow": slow}


@pytest.fixture
def there() -> Iterator[Provider]:
    with provider() as there:
        there.answers.update(ANSWERS)
        yield there


@pytest.fixture
def members(fresh_settings: Settings, there: Provider, tmp_path: Path) -> Iterator[Crew]:
    """A service without workers; those that join post to the provider."""
    config = f"""
[http]
url = {json.dumps(there.url)}
timeout_s = 60
[worker.channels]
closed = "http"
[channels.closed]
url = "http://127.0.0.1:{free_port()}/push"
"""
    with crew(fresh_settings, tmp_path, config=config) as members:
        yield members


def channel_of(task: str) -> str:
    return task.rpartition("-")[2]


def push(app: str, channel: str = "http", **fields: Any) -> PushTask:
    return PushTask(app=app, tier="high", channel=channel, message="Hi", id=f"{app}-{channel}", **fields)


def parts(why: Why) -> dict[str, float]:
    return {part.cause: part.ms / why.age_ms for part in why.parts}


def test_a_submitter_sees_why_nothing_is_sent(members: Crew, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    let_commands_use(members.settings, monkeypatch)
    texts = partial(text_of, cli)
    with closing(PushClient.connect(members.settings)) as client:
        early = client.submit(push("early"), audience(10))
        eventually(lambda: client.why(early.id).age_ms > 1_000, 20, "it has an age")
        assert parts(client.why(early.id))["no_worker_runs"] > 0.99
        assert "early-http waits now: no worker is running" in texts("task", "why", early.id)
        assert early.progress().eta_s is None

        members.join("w1")
        members.await_serving("w1")
        assert early.wait(30).state == "completed"
        assert parts(client.why(early.id))["no_worker_runs"] > 0.5

        tasks = [client.submit(push(app), audience(20)).id for app in ANSWERS]
        tasks.append(client.submit(push("refused", "closed", max_attempts=2), audience(20)).id)
        absent = client.submit(push("absent", "sms"), audience(20))
        check_errors(client, texts, members)
        end_s = time.monotonic() + LASTS_S
        eventually(lambda: time.monotonic() > end_s, LASTS_S + 5, "the tasks last long enough")
        eventually(lambda: client.task("slow-http").progress().ended, 30, "the slow one is sent")
        for task in [early.id, *tasks, absent.id]:
            why = client.why(task)
            assert why.age_ms < 10_000 or parts(why).get("unknown", 0.0) < UNCOUNTED, why
        assert parts(client.why("slow-http"))["provider"] > 0.7
        assert parts(client.why("busy-http"))["retry_wait"] > 0.7
        assert "fairlane app cap busy RATE --channel http" in texts("task", "why", "busy-http"), (
            "it has no failures yet"
        )
        assert parts(client.why(absent.id))["no_channel"] > 0.99
        assert absent.progress().eta_s is None


def noted(client: PushClient, task: str, *, is_refused: bool) -> tuple[int, str]:
    """Return the number of errors of a task and the last one: of targets refused, or of those put back unsent."""
    error = client.task(task).progress().last_error
    if error is None:
        return 0, ""
    return (error.count, error.reason) if is_refused else (error.unsent, error.unsent_reason)


def check_errors(client: PushClient, texts: Any, members: Crew) -> None:
    """Check what show, why and the log say of the errors soon after they were made."""
    reasons = {
        "busy-http": "HTTP 429: slow down",
        "broken-http": "HTTP 500",
        "wrong-key-http": "HTTP 401",
        "refused-closed": "Failed to connect",
    }
    for task, reason in reasons.items():
        channel = channel_of(task)
        is_refused = channel != "closed"
        eventually(lambda: noted(client, task, is_refused=is_refused)[0] >= 20, 10, f"{task} has its errors")  # noqa: B023
        assert reason in noted(client, task, is_refused=is_refused)[1], "the first error, or the last of all attempts"
        shown = texts("task", "show", task)
        assert ("sends failed so far, the last at " if is_refused else "targets put back unsent so far") in shown
        assert reason in shown
        assert f"fairlane.worker.report.send_notes: Channel {channel}: {reason}" in members.log_of("w1")
    busy = client.task("busy-http").progress().last_error
    assert busy is not None
    assert f"busy-http waits now: retry 1 is due at {local_moment(busy.retry_ms)}" in texts("task", "why", "busy-http")
    eventually(lambda: client.why("slow-http").now == "provider", 10, "it is in the provider")
    assert "slow-http waits now: channel http has its targets" in texts("task", "why", "slow-http")
