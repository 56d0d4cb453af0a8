"""A push provider for the tests: an HTTP server that keeps what it is posted and answers as it is told."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from benchmarks.redis_server import free_port
from dispatcher.model.view import TaskView
from producers.handle import TaskHandle

Body = dict[str, Any]
Answer = Callable[[Body], Awaitable[web.Response]]


@dataclass(frozen=True)
class Post:
    """at_s: monotonic."""

    body: Body
    headers: Mapping[str, str]
    at_s: float


async def accept(_: Body) -> web.Response:
    return web.Response()


@dataclass
class Provider:
    """url: to post to. posts: in the order they came. answers: by app; others are accepted."""

    url: str
    posts: list[Post] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.posts.append(Post(body, request.headers, time.monotonic()))
        return await self.answers.get(body["app"], accept)(body)

    def posts_of(self, task: str) -> list[Post]:
        return [post for post in self.posts if post.body["task"] == task]

    def targets_of(self, task: str, attempt: int) -> list[str]:
        """All targets that came with an attempt, sorted."""
        posts = [post.body for post in self.posts_of(task) if post.body["attempt"] == attempt]
        return sorted(target for body in posts for target in body["targets"])


@contextmanager
def provider(port: int | None = None) -> Iterator[Provider]:
    """A provider that serves on this port, or any, in a thread of its own."""
    chosen = port or free_port()
    here = Provider(f"http://127.0.0.1:{chosen}/push")
    loop, ready = asyncio.new_event_loop(), threading.Event()

    async def begin() -> web.AppRunner:
        application = web.Application()
        application.router.add_post("/push", here.answer)
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", chosen).start()
        return runner

    def run() -> None:
        runner = loop.run_until_complete(begin())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, name="provider")
    thread.start()
    try:
        assert ready.wait(10)
        yield here
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def assert_adds_up(view: TaskView) -> None:
    counts = view.targets
    ended = counts.sent + counts.invalid + counts.failed + counts.expired + counts.cancelled
    assert counts.total == ended + counts.pending, view
    assert counts.pending >= 0, view


def watched(handle: TaskHandle, within_s: float, every_s: float = 0.02) -> tuple[TaskView, list[TaskView]]:
    """Waits for the end of a task and checks at every look that its counts add up and only grow. The end, all looks."""
    deadline_s, looks = time.monotonic() + within_s, list[TaskView]()
    while not looks or not looks[-1].ended:
        assert time.monotonic() < deadline_s, f"not ended within {within_s:g} s: {looks[-1]}"
        looks.append(handle.progress())
        assert_adds_up(looks[-1])
        assert looks[-1].targets.sent >= looks[max(len(looks) - 2, 0)].targets.sent
        time.sleep(every_s)
    return looks[-1], looks
