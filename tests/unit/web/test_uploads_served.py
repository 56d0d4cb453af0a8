"""Uploads over connections: how they break off, how slow they may be, and how many there are."""

import asyncio
import gzip
from dataclasses import dataclass, field
from typing import Any

import pytest

from producers.desk.task_desk import Accepted
from producers.submit.cutter import SlabSource
from producers.submit.report import SubmitResult
from tests.unit.web.stub_server import HEAD, Reply, Server, StubDoor, rest_of, served, until
from web import uploads
from web.uploads import MAX_OF_APP, MAX_UPLOADS

TASK = b'{"channel": "null", "message": "hello"}\n'
TARGETS = b'"one"\n"two"\n'
CHUNKED = "Transfer-Encoding: chunked\r\n"
BODY = b"%x\r\n%b\r\n" % (len(TASK), TASK) + b"%x\r\n%b\r\n" % (len(TARGETS), TARGETS)
WHOLE = BODY + b"0\r\n\r\n"


@dataclass
class Door(StubDoor):
    """A door that counts the targets of uploads. begun: those in threads, ends: what became of each."""

    begun: list[object] = field(default_factory=list)
    ends: list[object] = field(default_factory=list)

    def submit(self, fields: Any, targets: SlabSource, _rules: object, _key: str) -> Accepted:
        self.begun.append(fields)
        try:
            self.ends.append(sum(len(slab.items) for slab in targets.slabs(1)))
        except BaseException as error:
            self.ends.append(error)
            error.add_note("It is called t.")
            raise
        result = SubmitResult(
            task="t", created_ms=1, accepted=int(str(self.ends[-1])), refused=0, refusals=(), envelopes=0,
            resumed_from=0, stopped="", seconds=0.0,
        )  # fmt: skip
        return Accepted("shop", "null", result, is_replayed=False)


class Client:
    """A connection that uploads."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self) -> Reply:
        """Return the answer once the server has closed, and close as well."""
        try:
            return Reply.parse(await rest_of(self.reader))
        finally:
            self.writer.close()


async def begun(server: Server, sent: bytes, headers: str = CHUNKED) -> Client:
    """Send an upload, or its beginning; its connection stays open."""
    client = Client(*await server.connect())
    head = f"POST /v1/tasks HTTP/1.1\r\n{HEAD}Content-Type: application/x-ndjson\r\nConnection: close\r\n{headers}\r\n"
    client.writer.write(head.encode() + sent)
    return client


async def test_complete_uploads_are_submitted() -> None:
    door, body = Door(), TASK + TARGETS
    async with served(door) as server:
        for headers, sent in (
            (CHUNKED, WHOLE),
            (f"Content-Length: {len(body)}\r\n", body),
            (f"Content-Length: {len(gzip.compress(body))}\r\nContent-Encoding: gzip\r\n", gzip.compress(body)),
        ):
            reply = await (await begun(server, sent, headers)).answer()
            assert (reply.status, reply.document["accepted"]) == (201, 2)
    assert door.ends == [2, 2, 2]


async def test_client_that_waits_to_be_asked_for_its_body_is_asked() -> None:
    async with served(Door()) as server:
        client = await begun(server, b"", f"{CHUNKED}Expect: 100-continue\r\n")
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        client.writer.write(WHOLE)
        assert (await client.answer()).status == 201


LENGTH = f"Content-Length: {len(TASK + TARGETS) + 1}\r\n"
BROKEN = {
    "without its last chunk": (CHUNKED, BODY),
    "within the last chunk": (CHUNKED, BODY + b"0\r\n"),
    "within a chunk": (CHUNKED, BODY[:-4]),
    "within the size of a chunk": (CHUNKED, BODY + b"5"),
    "a byte before its length": (LENGTH, TASK + TARGETS),
}


@pytest.mark.parametrize("close", ["close", "abort", "write_eof"])
@pytest.mark.parametrize("place", BROKEN)
async def test_connection_that_closes_early_breaks_the_upload_off(place: str, close: str) -> None:
    headers, sent = BROKEN[place]
    door = Door()
    async with served(door) as server:
        client = await begun(server, sent, headers)
        await until(lambda: door.begun, "the upload has begun")
        getattr(client.writer.transport if close == "abort" else client.writer, close)()
        await until(lambda: door.ends, "it has ended")
        client.writer.close()
    assert "The upload broke off" in str(door.ends[0])


@pytest.mark.parametrize(
    "bad", [b"5\r\nhelloX\r\n0\r\n\r\n", b"Z\r\n", b"-1\r\n\r\n", b"0;extended\r\n\r\n", b"5;a=b\r\nhello\r\n0\r\n\r\n"]
)
async def test_malformed_chunk_breaks_the_upload_off(bad: bytes) -> None:
    door = Door()
    async with served(door) as server:
        client = await begun(server, BODY)
        await until(lambda: door.begun, "the upload has begun")
        client.writer.write(bad)
        assert (await client.answer()).status == 400
        await until(lambda: door.ends, "it has ended")
    assert "The upload broke off" in str(door.ends[0])


async def test_slow_upload_is_ended_with_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "PACE_S", 0.5)
    door = Door()
    async with served(door) as server:
        reply = await (await begun(server, BODY)).answer()
        assert (reply.status, "retry-after" in reply.headers) == (408, True)
        assert reply.document["next_step"] == "Send the same again. It is called t."
    assert len(door.ends) == 1
    assert not isinstance(door.ends[0], int)


async def test_ninth_upload_is_sent_away_until_another_ends() -> None:
    door = Door()
    async with served(door) as server:
        clients = [await begun(server, BODY) for _ in range(MAX_UPLOADS)]
        await until(lambda: len(door.begun) == MAX_UPLOADS, "all have begun")
        reply = await (await begun(server, WHOLE)).answer()
        assert (reply.status, "retry-after" in reply.headers) == (503, True)
        assert reply.document["type"].endswith("#busy")
        assert server.figures.free_uploads == 0
        clients[0].writer.close()
        await until(lambda: len(door.ends) == 1, "one has ended")
        assert (await (await begun(server, WHOLE)).answer()).status == 201
        for client in clients[1:]:
            client.writer.write(b"0\r\n\r\n")
            assert (await client.answer()).status == 201
        assert server.figures.free_uploads == MAX_UPLOADS


async def test_one_app_cannot_take_all_places_of_uploads() -> None:
    door = Door(app="shop")
    async with served(door) as server:
        clients = [await begun(server, BODY) for _ in range(MAX_OF_APP)]
        await until(lambda: len(door.begun) == MAX_OF_APP, "all have begun")
        reply = await (await begun(server, WHOLE)).answer()
        assert (reply.status, "retry-after" in reply.headers) == (503, True)
        assert f"{MAX_OF_APP} uploads of app shop" in reply.document["detail"]
        door.app = "news"
        assert (await (await begun(server, WHOLE)).answer()).status == 201
        door.app = "shop"
        clients[0].writer.write(b"0\r\n\r\n")
        assert (await clients[0].answer()).status == 201
        assert (await (await begun(server, WHOLE)).answer()).status == 201
        for client in clients[1:]:
            client.writer.close()


async def test_server_that_stops_takes_no_new_upload_and_breaks_open_ones_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "STOP_S", 0.5)
    door = Door()
    async with served(door) as server:
        in_time, late = await begun(server, BODY), await begun(server, BODY)
        await until(lambda: len(door.begun) == 2, "both have begun")
        server.stop.set()
        async with asyncio.timeout(20):
            while (await server.ask("GET /readyz")).status == 200:  # noqa: ASYNC110  # it looks for the stop now and then
                await asyncio.sleep(0.01)
        assert (await (await begun(server, WHOLE)).answer()).status == 503
        in_time.writer.write(b"0\r\n\r\n")
        assert (await in_time.answer()).status == 201
        reply = await late.answer()
        assert (reply.status, "retry-after" in reply.headers) == (503, True)
    assert [type(end).__name__ for end in door.ends] == ["int", "NotReady"]


@pytest.mark.parametrize("coding", ["br", "gzip, gzip", "deflate", "x"])
async def test_unknown_coding_is_refused(coding: str) -> None:
    door = Door()
    async with served(door) as server:
        assert (await (await begun(server, WHOLE, f"{CHUNKED}Content-Encoding: {coding}\r\n")).answer()).status == 415
    assert not door.begun


@pytest.mark.parametrize(
    ("line", "status"), [(b'{"channel": 1}\n', 422), (b"x\n", 400), (b'{"message": "%b"}\n' % (b"x" * 70_000), 413)]
)
async def test_answer_to_a_bad_first_line_comes_before_the_rest(line: bytes, status: int) -> None:
    async with served(Door()) as server:
        client = await begun(server, b"%x\r\n%b\r\n" % (len(line), line))
        assert (await client.answer()).status == status
