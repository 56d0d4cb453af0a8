"""Requests that could be read in two ways are refused, and what is after them is never a request."""

import pytest
from aiohttp.http_exceptions import BadHttpMessage
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.web.refused_requests import REFUSED
from tests.unit.web.stub_server import HEAD, Reply, StubDoor, served
from web.framing import ChunkLines

SMUGGLED = b"GET /v1/tasks/smuggled HTTP/1.1\r\n" + HEAD.encode() + b"\r\n"


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED)
async def test_an_ambiguous_request_is_answered_with_400_and_its_connection_closed(request_: bytes) -> None:
    door = StubDoor()
    async with served(door) as server:
        answers = await server.say(request_ + SMUGGLED)
    assert answers.count(b"HTTP/1.") == 1
    reply = Reply.parse(answers)
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.document["request_id"] == reply.headers["x-request-id"]
    assert not door.asked


async def test_a_malformed_request_leaves_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as server:
        await server.say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\x01\r\n\r\n")
    assert not caplog.records


async def test_a_chunk_extension_is_refused_though_it_comes_after_the_headers() -> None:
    async with served() as server:
        reader, writer = await server.connect()
        writer.write(f"POST /v1/tasks HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        for part in (b"1\r\n{\r\n", b"1", b";a=", b"b\r\n}\r\n0\r\n\r\n"):
            await writer.drain()
            writer.write(part)
        assert Reply.parse(await reader.read()).status == 400
        writer.close()


async def test_a_chunked_body_is_read_and_the_connection_kept() -> None:
    async with served() as server:
        reader, writer = await server.connect()
        for _ in range(2):
            writer.write(f"POST /v1/tasks HTTP/1.1\r\n{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
            writer.write(b'1\r\n{\r\n7\r\n"a": 1}\r\n0\r\nX-Trailer: 1\r\n\r\n')
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 422 " in head
            assert b"connection: close" not in head.lower()
            await reader.readexactly(int(Reply.parse(head).headers["content-length"]))
        writer.close()


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=5),
    st.lists(st.integers(1, 8), min_size=1),
    st.sampled_from([b"", b";a=b"]),
    st.integers(0, 5),
)
def test_an_extension_is_found_wherever_reads_divide_the_chunks(
    chunks: list[bytes], reads: list[int], extension: bytes, at: int
) -> None:
    lines = [*(b"%x" % len(chunk) for chunk in chunks), b"0"]
    at = min(at, len(chunks))
    lines[at] += extension
    body = b"".join(line + b"\r\n" + data + b"\r\n" for line, data in zip(lines, [*chunks, b""], strict=True))
    follower, refused, position, turn = ChunkLines(), False, 0, 0
    try:
        while position < len(body):
            size = reads[turn % len(reads)]
            follower.check(body[position : position + size])
            position, turn = position + size, turn + 1
    except BadHttpMessage:
        refused = True
    assert refused == bool(extension)
