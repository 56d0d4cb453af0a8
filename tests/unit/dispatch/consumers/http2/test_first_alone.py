"""A server that allows one stream until it has seen a request."""

import asyncio
from pathlib import Path

import pytest

from consumers.delivery.http2.first_alone import FirstAlone
from consumers.delivery.http2.port import Fate, HttpRequest, HttpResponse, RequestFailed
from tests.unit.dispatch.consumers.http2.calls import attempt, attempts, opened, until
from tests.unit.dispatch.consumers.http2.frame_server import Cut, Plan, serving

NAMES = [f"r{number}" for number in range(200)]
ONE_AT_FIRST = Plan(streams=1, streams_later=100, delay_s=0.01)


async def test_no_stream_is_refused(certificates: Path) -> None:
    async with serving(certificates, ONE_AT_FIRST) as server, opened(certificates, connections=1) as client:
        found = await attempts(FirstAlone(client), server, NAMES)
        assert all(isinstance(one, HttpResponse) for one in found.values())
        assert (server.seen.connections, server.seen.too_many) == (1, 0)
        assert server.seen.most_streams > 50


async def test_without_it_most_streams_are_refused(certificates: Path) -> None:
    async with serving(certificates, ONE_AT_FIRST) as server, opened(certificates, connections=1) as client:
        found = await attempts(client, server, NAMES)
        refused = [one for one in found.values() if isinstance(one, RequestFailed)]
        assert all(one.fate is Fate.NOT_TAKEN for one in refused)
        assert len(refused) > 100


async def test_the_next_connection_begins_alone_again(certificates: Path) -> None:
    plan = Plan(streams=1, streams_later=100, cut=Cut.HANG, warm=len(NAMES))
    async with serving(certificates, plan) as server, opened(certificates, connections=1) as curl:
        client = FirstAlone(curl)
        await attempts(client, server, NAMES)
        under_way = asyncio.ensure_future(attempt(client, server, "cut"))
        await until(lambda: "cut" in server.seen.accepted)
        server.drop_connections()
        assert isinstance(await under_way, RequestFailed)
        found = await attempts(client, server, [f"again-{name}" for name in NAMES])
        assert all(isinstance(one, HttpResponse) for one in found.values())
        assert (server.seen.connections, server.seen.too_many) == (2, 0)


class Scripted:
    """A client that fails or waits as it is asked to."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.gate = asyncio.Event()
        self.failure: RequestFailed | None = None

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.sent.append(request.body)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return HttpResponse(status=200, body=b"", lines=())


def post(name: str) -> HttpRequest:
    return HttpRequest(url="https://provider.example", body=name.encode())


async def test_those_that_wait_for_a_failing_first_request_are_not_taken() -> None:
    scripted = Scripted()
    client = FirstAlone(scripted)
    calls = [asyncio.ensure_future(client.send(post(name))) for name in ("first", "second", "third")]
    await asyncio.sleep(0)
    scripted.failure = RequestFailed(Fate.UNKNOWN, "cut")
    scripted.gate.set()
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [one.fate for one in found if isinstance(one, RequestFailed)] == [
        Fate.UNKNOWN,
        Fate.NOT_TAKEN,
        Fate.NOT_TAKEN,
    ]
    assert scripted.sent == [b"first"]
    scripted.failure = None
    assert (await client.send(post("later"))).status == 200


@pytest.mark.parametrize(("cancelled", "sent"), [(0, [b"a", b"b", b"c"]), (1, [b"a", b"c"])], ids=["first", "waits"])
async def test_a_cancelled_first_request_leaves_it_to_the_next_and_one_that_waits_disturbs_nobody(
    cancelled: int, sent: list[bytes]
) -> None:
    scripted = Scripted()
    client = FirstAlone(scripted)
    calls = [asyncio.ensure_future(client.send(post(name))) for name in "abc"]
    await asyncio.sleep(0)
    calls.pop(cancelled).cancel()
    await until(lambda: scripted.sent == sent[: 2 - cancelled])
    scripted.gate.set()
    assert [one.status for one in await asyncio.gather(*calls)] == [200, 200]
    assert scripted.sent == sent
