"""Connections are bounded, and none may be slow for ever."""

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.web.stub_server import HEAD, Reply, StubDoor, rest_of, served, until
from web import bodies, connections


async def test_one_connection_too_many_is_closed_and_a_place_that_became_free_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    async with served() as server:
        held = [await server.connect() for _ in range(2)]
        await until(lambda: server.figures.connections == 2, "both are open")
        assert await server.say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
        held[0][1].close()
        await until(lambda: server.figures.connections == 1, "one is free again")
        assert (await server.ask("GET /livez")).status == 200
        held[1][1].close()


async def test_connection_that_comes_when_no_file_is_left_is_served_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "_AGAIN_S", 0.1)
    async with served() as server:
        assert (await server.ask("GET /livez")).status == 200  # it has opened what it needs
        with socket.socket() as client:
            client.setblocking(False)
            with no_more_files():
                await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", server.port))
                await until(lambda: caplog.records, "it cannot be accepted")
            assert "no connection can be accepted" in caplog.text
            reader, writer = await asyncio.open_connection(sock=client)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert Reply.parse(await rest_of(reader)).status == 200
            writer.close()


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no file for the time of the block."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as lowest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno(), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_headers_that_do_not_come_close_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.1)
    async with served() as server:
        assert await server.say(b"") == b""
        assert await server.say(b"GET /livez HTTP/1.1\r\nHost: loc") == b""


async def test_headers_of_a_later_request_have_a_time_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.1)
    async with served() as server:
        reader, writer = await server.connect()
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await reader.readuntil(b'{"status": "live"}')
        writer.write(b"GET /li")
        assert await rest_of(reader) == b""
        writer.close()


async def test_headers_that_come_byte_by_byte_have_no_longer_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.3)
    async with served() as server:
        reader, writer = await server.connect()

        async def drip() -> None:
            writer.write(b"GET /")
            while True:
                writer.write(b"a")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        assert await rest_of(reader) == b""
        dripping.cancel()
        writer.close()


async def test_a_body_that_does_not_come_is_answered_with_408_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "READ_S", 0.1)
    monkeypatch.setattr(connections, "LINGER_S", 0.1)
    async with served() as server:
        reply = await server.say(f"POST /v1/tasks HTTP/1.1\r\n{HEAD}Content-Length: 9\r\n\r\n{{".encode())
    assert Reply.parse(reply).status == 408


async def test_a_client_that_does_not_read_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_S", 0.2)

    async with served(StubDoor(cursor="c" * (16 << 20))) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as deaf:
            await asyncio.to_thread(deaf.sendall, f"GET /v1/tasks HTTP/1.1\r\n{HEAD}\r\n".encode())
            await until(lambda: server.figures.requests["tasks.list", 200] == 1, "it is answered")
            await until(lambda: server.figures.connections == 0, "it is cut off")


async def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as server:
        _, writer = await server.connect()
        writer.write(f"POST /v1/tasks HTTP/1.1\r\n{HEAD}Content-Length: 9\r\n\r\n{{".encode())
        await until(lambda: server.figures.in_flight == 1, "the body is read")
        writer.close()
        await until(lambda: server.figures.connections == 0, "the connection has ended")
        await until(lambda: server.figures.in_flight == 0, "the request too")
    assert not caplog.records
