"""A server that is told to stop lets open requests end, and says so to load balancers."""

import asyncio
import threading
import time

import pytest

from tests.unit.web.stub_server import HEAD, WITHIN_S, Reply, Server, StubDoor, served, until
from web import server as program


async def test_a_stopping_server_is_not_ready_and_ends_open_requests() -> None:
    door = StubDoor()
    async with served(door) as server:
        door.open.clear()
        slow = asyncio.create_task(server.ask("GET /v1/tasks"))
        await until(lambda: server.figures.in_flight == 1, "a request is open")
        assert (await server.ask("GET /readyz")).status == 200
        server.stop.set()
        await await_unready(server)
        assert (await server.ask("GET /livez")).status == 200
        door.open.set()
        assert (await slow).status == 200
        await server.ended
        with pytest.raises(ConnectionRefusedError):
            await server.connect()


async def test_a_stopping_server_keeps_no_connection() -> None:
    door = StubDoor()
    async with served(door) as server:
        door.open.clear()
        slow = asyncio.create_task(server.say(f"GET /v1/tasks HTTP/1.1\r\n{HEAD}\r\n".encode()))
        await until(lambda: server.figures.in_flight == 1, "a request is open")
        server.stop.set()
        await await_unready(server)
        door.open.set()
        assert Reply.parse(await slow).headers["connection"] == "close"


async def test_a_request_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "IDLE_WITHIN_S", 0.1)
    monkeypatch.setattr(program, "END_WITHIN_S", 0.1)
    door = StubDoor(open=threading.Event())
    async with served(door) as server:
        door.open.clear()
        slow = asyncio.create_task(server.say(f"GET /v1/tasks HTTP/1.1\r\n{HEAD}\r\n".encode()))
        await until(lambda: server.figures.in_flight == 1, "a request is open")
        server.stop.set()
        assert await slow == b""
        await server.ended
        door.open.set()


async def await_unready(server: Server) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while (await server.ask("GET /readyz")).status != 503:
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.01)
