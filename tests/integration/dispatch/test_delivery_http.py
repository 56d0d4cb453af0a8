"""The http channel from submit to outcome: what a provider gets, and what its answers come to."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import topics
from backends.redis.letter_index import LetterIndex
from backends.redis.view import open_view
from benchmarks.redis_server import free_port
from dispatcher.model.task import PushTask, Target
from dispatcher.model.tier import Tier
from dispatcher.wire.topics import SUBSCRIPTION
from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.provider import Body, Provider, provider, watched
from tests.integration.worker_crew import audience, crew, eventually

pytestmark = pytest.mark.timeout(120)
MESSAGE = {"title": "Hello", "body": "World"}
CLOSED_PORT = free_port()
"""Nobody listens there until a test does."""


@pytest.fixture(scope="module")
def service(module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """A provider and two workers that post to it."""
    with provider() as there:
        config = f"""
[http]
url = {json.dumps(there.url)}
[worker.channels]
closed = "http"
hasty = "http"
[channels.closed]
url = "http://127.0.0.1:{CLOSED_PORT}/push"
[channels.hasty]
url = {json.dumps(there.url)}
timeout_s = 0.5
"""
        with crew(module_settings, tmp_path_factory.mktemp("crew"), "w1", "w2", config=config):
            yield there


@pytest.fixture(scope="module")
def push_client(module_settings: Settings) -> Iterator[PushClient]:
    with PushClient.connect(module_settings) as client:
        yield client


def push(app: str, **fields: Any) -> PushTask:
    return PushTask(**{"app": app, "tier": "high", "channel": "http", "message": MESSAGE, "chunk": 10, **fields})


def at_first(answer: Callable[[Body], web.Response]) -> Callable[[Body], Any]:
    """Answers the first attempt so, and accepts the others."""

    async def chosen(body: Body) -> web.Response:
        return answer(body) if body["attempt"] == 0 else web.Response()

    return chosen


def test_a_post_has_all_that_a_provider_needs(service: Provider, push_client: PushClient) -> None:
    handle = push_client.submit(push("plain", chunk=2), ["a", "b", Target("c", {"name": "Ann"}), "d", "e"])
    view, _ = watched(handle, 20)
    assert (view.state, view.targets.sent, view.targets.total) == ("completed", 5, 5)
    posts = sorted(service.posts_of(handle.id), key=lambda post: post.body["sequence"])
    writer = posts[0].body["writer"]
    common = {"task": handle.id, "app": "plain", "tier": "high", "message": MESSAGE, "writer": writer, "attempt": 0}
    assert [post.body for post in posts] == [
        {**common, "sequence": 0, "targets": ["a", "b"]},
        {**common, "sequence": 1, "targets": ["c", "d"], "variables": [{"name": "Ann"}, None]},
        {**common, "sequence": 2, "targets": ["e"]},
    ]
    assert posts[0].headers["Content-Type"] == "application/json"
    assert [post.headers["Idempotency-Key"] for post in posts] == [f"{handle.id}:{writer}:{n}:0" for n in range(3)]


@pytest.mark.parametrize(
    ("app", "status", "headers"),
    [("broken", 500, {}), ("absent", 503, {}), ("busy", 429, {"Retry-After": "1"}), ("moved", 302, {})],
)
@pytest.mark.parametrize("tier", ["high", "low"])
def test_what_may_pass_is_tried_again_from_the_retry_lane(
    service: Provider, push_client: PushClient, app: str, status: int, headers: dict[str, str], tier: str
) -> None:
    service.answers[app] = at_first(lambda _: web.Response(status=status, headers=headers))
    handle = push_client.submit(push(app, tier=tier), audience(35, app))
    view, looks = watched(handle, 30)
    assert (view.state, view.targets.sent) == ("completed", 35)
    assert looks[0].targets.failed == looks[-1].targets.failed == 0
    for attempt in (0, 1):
        assert service.targets_of(handle.id, attempt) == audience(35, app)
    firsts = {post.body["sequence"]: post.at_s for post in service.posts_of(handle.id) if not post.body["attempt"]}
    agains = [post for post in service.posts_of(handle.id) if post.body["attempt"]]
    assert all(post.at_s - firsts[post.body["sequence"]] >= 1 for post in agains)


def test_single_targets_fail_and_are_listed_with_their_reasons(service: Provider, push_client: PushClient) -> None:
    gone = [{"target": "some-000003", "reason": "unregistered", "retry": False}]
    slow = [{"target": "some-000014", "reason": "busy", "retry": True}]
    service.answers["some"] = at_first(
        lambda body: web.json_response({"failed": [f for f in gone + slow if f["target"] in body["targets"]]})
    )
    handle = push_client.submit(push("some"), [Target(name, {"n": name[-1]}) for name in audience(25, "some")])
    view, _ = watched(handle, 30)
    assert (view.state, view.targets.sent, view.targets.failed) == ("completed", 24, 1)
    again = [post.body for post in service.posts_of(handle.id) if post.body["attempt"]]
    assert [(body["targets"], body["variables"], body["sequence"]) for body in again] == [
        (["some-000014"], [{"n": "4"}], 1)
    ]
    [failure] = handle.failures()
    assert (failure.target, failure.outcome, failure.reason, failure.attempt) == (
        "some-000003",
        "failed",
        "unregistered",
        1,
    )


def test_attempts_end_and_what_cannot_be_mended_fails_at_once(service: Provider, push_client: PushClient) -> None:
    async def down(_: Body) -> web.Response:
        return web.Response(status=503, text="down for repair")

    async def wrong(_: Body) -> web.Response:
        return web.Response(status=400, text="no such app")

    service.answers |= {"down": down, "wrong": wrong}
    given_up = push_client.submit(push("down", max_attempts=2), audience(20, "down"))
    at_once = push_client.submit(push("wrong", tier="low"), audience(20, "wrong"))
    for handle, attempts, reason in (
        (given_up, 2, "gave up after 2 attempts; the last: HTTP 503: down for repair"),
        (at_once, 1, "HTTP 400: no such app"),
    ):
        view, _ = watched(handle, 30)
        assert (view.targets.failed, view.targets.sent, view.targets.total) == (20, 0, 20)
        found = list(handle.failures())
        assert sorted(failure.target for failure in found) == audience(20, view.app)
        assert {(failure.reason, failure.attempt) for failure in found} == {(reason, attempts)}


def test_no_answer_in_time_is_tried_again(service: Provider, push_client: PushClient) -> None:
    async def sleepy(body: Body) -> web.Response:
        await asyncio.sleep(60 if body["attempt"] == 0 else 0)
        return web.Response()

    service.answers["sleepy"] = sleepy
    handle = push_client.submit(push("sleepy", channel="hasty"), audience(20, "sleepy"))
    view, _ = watched(handle, 30)
    assert (view.targets.sent, view.channel) == (20, "hasty")
    assert service.targets_of(handle.id, 1) == audience(20, "sleepy")


@pytest.mark.usefixtures("service")
def test_a_provider_that_is_down_is_tried_again(push_client: PushClient, module_settings: Settings) -> None:
    waiting = topics(module_settings.pulsar).retry_lane(Tier.MEDIUM, 1)
    handle = push_client.submit(push("late", channel="closed", tier="medium"), audience(20, "late"))
    with ExitStack() as stack:
        admin = PulsarAdmin(module_settings.pulsar)
        stack.callback(admin.close)
        eventually(lambda: admin.backlog(waiting, SUBSCRIPTION), 20, "refused connections came to the retry lane")
        there = stack.enter_context(provider(CLOSED_PORT))
        view, _ = watched(handle, 30)
        assert (view.state, view.targets.sent) == ("completed", 20)
        assert {post.body["attempt"] for post in there.posts_of(handle.id)} <= {1, 2}


def test_counts_add_up_at_all_times_while_answers_are_mixed(service: Provider, push_client: PushClient) -> None:
    async def moody(body: Body) -> web.Response:
        if (body["sequence"] + body["attempt"]) % 5 == 0:
            return web.Response(status=500)
        failed = [{"target": t, "reason": "gone", "retry": t.endswith("7")} for t in body["targets"] if t[-1] in "37"]
        return web.json_response({"failed": failed})

    service.answers["moody"] = moody
    push_client.set_capacity(1_000)
    handles = [
        push_client.submit(push("moody", tier=tier, max_attempts=2), audience(2_000, f"moody-{tier}"))
        for tier in ("high", "medium", "low")
    ]
    with ThreadPoolExecutor(len(handles)) as pool:
        seen = list(pool.map(lambda handle: watched(handle, 60), handles))
    for handle, (view, looks) in zip(handles, seen, strict=True):
        assert (view.targets.sent, view.targets.failed, view.targets.total) == (1_600, 400, 2_000)
        assert len({look.targets.sent for look in looks}) > 1
        assert len(list(handle.failures())) == 400
    push_client.set_capacity(0)


def test_failures_are_counted_by_reason_and_read_where_the_index_says_or_everywhere(
    service: Provider, push_client: PushClient, module_settings: Settings
) -> None:
    async def partly(body: Body) -> web.Response:
        reasons: dict[str, dict[str, Any]] = {"3": {"reason": "gone", "invalid": True}, "7": {"reason": "blocked"}}
        failed = [{"target": target, **reasons[target[-1]]} for target in body["targets"] if target[-1] in reasons]
        return web.json_response({"failed": failed})

    service.answers["partly"] = partly
    handles = [push_client.submit(push("partly"), audience(size, f"partly-{size}")) for size in (100, 2_000)]
    for handle in handles:
        watched(handle, 60)
    small, large = ([(group.count, group.outcome) for group in handle.failures_by_reason()] for handle in handles)
    assert (sorted(small), sorted(large)) == ([(10, "failed"), (10, "invalid")], [(200, "failed"), (200, "invalid")])
    with closing(open_view(module_settings.redis)) as view:
        for handle in handles:
            eventually(partial(LetterIndex(view).spans, handle.id), 20, "the worker has noted where its letters are")
        view.command("DEL", view.keys.letters(handles[0].id))
    for handle, count in zip(handles, (20, 400), strict=True):
        targets = [failure.target for failure in handle.failures()]
        assert len(set(targets)) == len(targets) == count


@pytest.mark.parametrize("tier", ["high", "low"])
def test_what_waits_in_a_retry_lane_does_not_hold_up_the_end(
    service: Provider, push_client: PushClient, tier: str
) -> None:
    async def later(_: Body) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "300"})

    service.answers["later"] = later
    cancelled = push_client.submit(push("later", tier=tier), audience(30))
    expired = push_client.submit(push("later", tier=tier, ttl_s=8), audience(30))
    eventually(lambda: all(len(service.posts_of(handle.id)) == 3 for handle in (cancelled, expired)), 20, "all failed")
    cancelled.cancel()
    assert watched(cancelled, 30)[0].targets.cancelled == 30
    assert watched(expired, 30)[0].targets.expired == 30
