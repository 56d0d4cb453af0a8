"""Bodies are bounded, one by one and all together."""

import gzip

import pytest

from tests.unit.web.stub_server import HEAD, Reply, served
from web import bodies
from web.routing import JSON_BYTES


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes() -> None:
    async with served() as server:
        reader, writer = await server.connect()
        writer.write(f"POST /v1/tasks/change HTTP/1.1\r\n{HEAD}Content-Length: {JSON_BYTES + 1}\r\n\r\n".encode())
        assert b" 413 " in await reader.readline()
        writer.close()


async def test_a_body_that_becomes_too_large_is_refused_before_the_rest_is_read() -> None:
    async with served() as server:
        reader, writer = await server.connect()
        writer.write(f"POST /v1/tasks/change HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        writer.write(b"%x\r\n" % (JSON_BYTES + 1) + b"a" * (JSON_BYTES + 1))  # and no end
        assert b" 413 " in await reader.readline()
        writer.close()


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "zstd", "nothing", "gzip, identity"])
async def test_an_encoded_body_is_refused(coding: str) -> None:
    async with served() as server:
        reply = await server.ask("POST /v1/tasks/change", gzip.compress(b"{}"), f"{HEAD}Content-Encoding: {coding}\r\n")
    assert reply.status == 415


@pytest.mark.parametrize(
    "body", [b"", b"{", b"NaN", b'{"filter": {}, "weight": NaN}', b"\xff", b"[" * 100_000, b'"\\ud800"', b"{}x"]
)
async def test_what_is_no_json_is_unreadable(body: bytes) -> None:
    async with served() as server:
        reply = await server.ask("POST /v1/tasks/change", body)
    assert reply.status == 400
    assert reply.document["type"].endswith("#unreadable")


async def test_a_doubled_field_is_named() -> None:
    async with served() as server:
        reply = await server.ask("POST /v1/tasks/change", b'{"filter": {"app": "a", "app": "b"}}')
    assert reply.status == 422
    assert "'app'" in reply.document["detail"]


async def test_too_many_large_bodies_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "ROOM_BYTES", 100_000)
    async with served() as server:
        large = b'{"filter": {"ids": ["' + b"a" * 200_000 + b'"]}}'
        refused = await server.ask("POST /v1/tasks/change", large)
        small = await server.ask("POST /v1/tasks/change", b"{}")
    assert (refused.status, refused.headers["retry-after"]) == (503, "2")
    assert small.status == 422


async def test_room_is_free_again_after_each_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "ROOM_BYTES", 300_000)
    async with served() as server:
        for _ in range(5):
            large = b'{"filter": {"ids": ["' + b"a" * 200_000 + b'"]}}'
            assert (await server.ask("POST /v1/tasks/change", large)).status == 422


async def test_a_body_that_breaks_off_is_unreadable() -> None:
    async with served() as server:
        broken = f"POST /v1/tasks HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}zz\r\n"
        assert Reply.parse(await server.say(broken.encode())).status == 400
