"""Events: what happens to tasks, as text/event-stream."""

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import suppress

import msgspec

from dispatcher.model.view import TaskView
from fairlane.figures.rows import EVENT_FIELDS, picked
from producers.desk.board.lists import Selection
from producers.desk.board_desk import BoardDesk
from web.routes.inputs import TaskSelection
from web.routing import Call, Route, Stream

BEAT_S = 15.0
"""A comment is sent after this time without an event, so that no proxy ends the connection."""
_LOOK_S = 2.0
"""How often the key is checked meanwhile."""
_RESET = b"event: reset\ndata: {}\n\n"
_BEAT = b": alive\n\n"


def task_events(call: Call) -> Stream:
    """Follow one task until it ends."""
    desk = call.desks.board
    return Stream(_events(desk, desk.one(call.path["id"])))


def events(call: Call) -> Stream:
    """Follow the live tasks of a filter."""
    desk = call.desks.board
    return Stream(_events(desk, desk.some(call.query.only())))


async def _events(desk: BoardDesk, selection: Selection) -> AsyncGenerator[bytes, None]:
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(woken.set)

    with desk.follow(selection, wake) as take:
        sent_s = -math.inf  # the server sends its headers with the first part
        while True:
            woken.clear()
            is_reset, tasks = take()
            part = b"".join([*([_RESET] if is_reset else []), *map(_event, tasks)])
            if not part and loop.time() - sent_s >= BEAT_S:
                part = _BEAT
            yield part
            if part:
                sent_s = loop.time()
            if selection.id is not None and any(task.ended for task in tasks):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await woken.wait()


def _event(task: TaskView) -> bytes:
    data = msgspec.json.encode(picked(task, EVENT_FIELDS))
    return b"event: %b\ndata: %b\n\n" % (b"end" if task.ended else b"task", data)


ROUTES = (
    Route(method="GET", path="/v1/tasks/{id}/events", action="tasks.events", handle=task_events),
    Route(method="GET", path="/v1/events", action="tasks.events", handle=events, query=TaskSelection, name="events"),
)
