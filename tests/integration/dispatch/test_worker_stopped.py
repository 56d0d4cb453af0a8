"""A worker that is stopped (SIGSTOP) until after the use-by of its leases, and continues."""

import asyncio
import json
import signal
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from backends.redis.view import open_view
from dispatcher.model.view import WorkerBeat
from fairlane import PushClient, Settings
from producers.handle import TaskHandle
from tests.integration.provider import Body, provider
from tests.integration.worker_crew import audience, crew, eventually, push

TARGETS = 1_500
ANSWER_S = 0.02


async def slowly(_: Body) -> web.Response:
    await asyncio.sleep(ANSWER_S)
    return web.Response()


async def never(_: Body) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


def slow_channel(url: str, **settings: int) -> str:
    """The configuration of a channel `slow` that posts there."""
    lines = [f"{name} = {value}" for name, value in {"url": json.dumps(url), **settings}.items()]
    return "\n".join(['[worker.channels]\nslow = "http"\n[channels.slow]', *lines])


def submit(client: PushClient, count: int) -> TaskHandle:
    return client.submit(push(app="slow", channel="slow", chunk=1), audience(count))


def beat_of(client: PushClient, name: str) -> WorkerBeat:
    return next(beat for beat in client.workers() if beat.id.startswith(name))


@pytest.mark.timeout(240)
def test_a_worker_stopped_past_its_use_by_sends_nothing_under_the_dead_lease_when_it_wakes(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    with provider() as there, PushClient.connect(fresh_settings) as client:
        there.answers["slow"] = slowly
        config = slow_channel(there.url, concurrency=1, timeout_s=5)
        with crew(fresh_settings, tmp_path, "w1", config=config) as members:
            handle = submit(client, TARGETS)
            eventually(lambda: len(there.posts) > 30, 30, "it is in full swing")
            members.members["w1"].send_signal(signal.SIGSTOP)
            under_way = len(there.posts)
            assert under_way < TARGETS // 2, "the worker holds leases on most of the task"
            members.join("w2")  # ends claims and folds, which the stopped worker cannot do
            members.await_serving("w2")
            handle.pause()
            view = open_view(fresh_settings.redis)
            eventually(lambda: not view.command("ZCARD", view.keys.claims), 60, "the claims have ended")
            view.close()
            at_wake = len(there.posts)
            members.members["w1"].send_signal(signal.SIGCONT)
            eventually(lambda: beat_of(client, "w1").state == "serving", 30, "it has woken")
            eventually(lambda: beat_of(client, "w1").in_flight == 0, 30, "what it held is given up")
            assert len(there.posts) == at_wake
            there.answers.pop("slow")
            handle.resume()
            assert handle.wait(60).targets.sent == TARGETS
            again = Counter(there.targets_of(handle.id, 0)) - Counter(audience(TARGETS))
            assert len(again) <= 1  # the call that was under way when it was stopped


@pytest.mark.timeout(120)
def test_a_claim_lasts_as_long_as_the_slowest_call_that_may_be_made_under_it(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    """A call may begin until the lease ends and then take the channel's timeout: only after that may others send."""
    timeout_s = 20
    with (
        provider() as there,
        PushClient.connect(fresh_settings) as client,
        closing(open_view(fresh_settings.redis)) as view,
    ):
        there.answers["slow"] = never
        with crew(fresh_settings, tmp_path, "w1", config=slow_channel(there.url, timeout_s=timeout_s)):
            submit(client, 10)
            eventually(lambda: there.posts, 30, "a call is under way")
            members = view.command("ZRANGE", view.keys.claims, 0, -1)
            packed = [view.command("GET", f"{view.keys.prefix}:claim:{member.decode()}") for member in members]
            assert packed
            for claim in packed:
                end_ms, lease_end_ms, *_ = msgspec.msgpack.decode(claim)
                assert end_ms >= lease_end_ms + timeout_s * 1_000
