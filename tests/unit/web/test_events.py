"""Event streams: present state first, then changes, in bounded memory, for as long as the key is valid."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from dispatcher.access.principal import Principal
from dispatcher.model.errors import NoKey, NotFound
from dispatcher.model.view import TaskView
from producers.desk.board.follower import MAX_CHANGES, MAX_FOLLOWERS, Changes, Follower, Followers
from producers.desk.board.lists import Selection
from tests.unit.tasks import task_view
from tests.unit.web.stub_server import HEAD, Server, StubDoor, served, until
from web import connections

ENDED = task_view("a", state="completed", finished_ms=1)


class EventDoor(StubDoor):
    """A door whose board holds the task a."""

    is_revoked = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.followers = Followers()
        self.open_streams = 0

    def principal(self, token: str) -> Principal:
        if self.is_revoked:
            raise NoKey("The key was revoked.")
        return super().principal(token)

    def desks(self, *_: object) -> Any:
        return SimpleNamespace(board=self)

    def one(self, id_: str) -> Selection:
        if id_ != "a":
            raise NotFound(f"There is no task {id_}.")
        return Selection(id=id_)

    def some(self, only: Mapping[str, Any]) -> Selection:
        return Selection(**only)

    @contextmanager
    def follow(self, selection: Selection, wake: Callable[[], None]) -> Iterator[Callable[[], Changes]]:
        follower = Follower(selection, wake)
        self.followers.add(follower)
        self.open_streams += 1
        try:
            follower.put(task_view("a", 10))
            yield follower.take
        finally:
            self.open_streams -= 1
            self.followers.remove(follower)

    def change(self, task: TaskView) -> None:
        self.followers.put(None, task)


class Stream:
    """The part of a stream that a client receives."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def next(self, kind: str) -> Any:
        """Return the data of the next event, which is of this kind."""
        async with asyncio.timeout(20):
            while True:
                line = await self.reader.readline()
                assert line, "the stream has ended"
                if line.startswith(b"event: "):
                    assert line.decode() == f"event: {kind}\n"
                    return json.loads((await self.reader.readline()).removeprefix(b"data: "))

    async def rest(self) -> bytes:
        """Return what comes until the server ends the stream."""
        async with asyncio.timeout(20):
            return await self.reader.read()


@asynccontextmanager
async def stream_of(server: Server, path: str = "/v1/tasks/a/events") -> AsyncIterator[Stream]:
    reader, writer = await server.connect()
    writer.write(f"GET {path} HTTP/1.1\r\n{HEAD}\r\n".encode())
    yield Stream(reader, writer)
    writer.close()


async def test_stream_begins_with_the_present_state_and_ends_with_the_task() -> None:
    async with served(door := EventDoor()) as server, stream_of(server) as stream:
        assert b" 200 " in await stream.reader.readline()
        first = await stream.next("task")
        assert (first["id"], first["state"], first["targets"]["pending"], first["rate"]) == ("a", "running", 10, 0.0)
        door.change(task_view("b", 1))
        door.change(task_view("a", 4))
        assert (await stream.next("task"))["targets"]["pending"] == 4
        door.change(ENDED)
        assert (await stream.next("end"))["state"] == "completed"
        assert (await stream.rest()).endswith(b"0\r\n\r\n")
        assert door.open_streams == 0


async def test_filter_selects_what_is_followed() -> None:
    async with served(door := EventDoor()) as server, stream_of(server, "/v1/events?app=shop&tier=high") as stream:
        await stream.next("task")
        door.change(task_view("b", tier="low"))
        door.change(task_view("c", state="paused"))
        assert (await stream.next("task"))["id"] == "c"
        door.change(ENDED)
        assert (await stream.next("end"))["id"] == "a"
        door.change(task_view("d"))
        assert (await stream.next("task"))["id"] == "d"


@pytest.mark.parametrize(
    ("path", "status"), [("/v1/tasks/b/events", 404), ("/v1/events?nonsense=1", 422), ("/v1/events?app=a&app=b", 422)]
)
async def test_what_cannot_be_followed_is_a_problem(path: str, status: int) -> None:
    async with served(EventDoor()) as server:
        reply = await server.ask(f"GET {path}")
    assert reply.status == status
    assert reply.headers["content-type"] == "application/problem+json"


async def test_stream_ends_when_its_key_is_revoked() -> None:
    async with served(door := EventDoor()) as server, stream_of(server) as stream:
        await stream.next("task")
        door.is_revoked = True
        assert (await stream.rest()).endswith(b"0\r\n\r\n")


async def test_streams_end_when_the_server_stops() -> None:
    async with served(EventDoor()) as server, AsyncExitStack() as opened:
        streams = [await opened.enter_async_context(stream_of(server)) for _ in range(20)]
        for stream in streams:
            await stream.next("task")
        server.stop.set()
        for stream in streams:
            assert (await stream.rest()).endswith(b"0\r\n\r\n")


async def test_stream_beyond_the_bound_is_refused_until_one_ends() -> None:
    async with served(door := EventDoor()) as server:
        others = [Follower(Selection(), lambda: None) for _ in range(MAX_FOLLOWERS)]
        for other in others:
            door.followers.add(other)
        reply = await server.ask("GET /v1/tasks/a/events")
        assert (reply.status, "retry-after" in reply.headers) == (503, True)
        door.followers.remove(others[0])
        async with stream_of(server) as stream:
            await stream.next("task")
        await until(lambda: door.open_streams == 0, "the server notices that the client has left")


async def test_slow_client_is_reset_and_then_goes_on() -> None:
    async with served(door := EventDoor()) as server, stream_of(server, "/v1/events") as stream:
        await stream.next("task")
        for number in range(2 * MAX_CHANGES):  # at once: the server has no chance to send some
            door.change(task_view(f"t{number}"))
        assert await stream.next("reset") == {}
        door.change(task_view("c"))
        assert (await stream.next("task"))["id"] == "c"


async def test_client_that_does_not_read_its_stream_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_S", 0.2)
    async with served(door := EventDoor()) as server:
        _, writer = await server.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(f"GET /v1/events HTTP/1.1\r\n{HEAD}\r\n".encode())
        await until(lambda: door.open_streams == 1, "the stream has begun")
        door.change(task_view("b" * (16 << 20)))
        await until(lambda: door.open_streams == 0, "the stream has ended")
        await until(lambda: server.figures.connections == 0, "the connection has ended")
        writer.close()


async def test_head_of_a_stream_has_no_body() -> None:
    async with served(door := EventDoor()) as server:
        reply = await server.ask("HEAD /v1/events")
    assert (reply.status, reply.body, door.open_streams) == (200, b"", 0)
    assert reply.headers["content-type"] == "text/event-stream"
