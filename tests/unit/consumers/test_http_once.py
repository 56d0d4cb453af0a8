"""A POST of the http channel reaches its provider at most once, whatever the connection does."""

import asyncio
from collections.abc import Callable

import pytest

from consumers.delivery.channels.http import HttpChannel
from dispatcher.wire.outcome import ALL_SENT, UNKNOWN, UNSENT, Report
from tests.unit.consumers.envelopes import envelope
from tests.unit.consumers.http_posts import CLIENTS

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Provider:
    """Takes whole POSTs, and does with each what a test says by its number."""

    def __init__(self, act: Callable[[int, asyncio.StreamWriter], None]) -> None:
        self.taken = 0
        self._act = act
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                self.taken += 1
                self._act(self.taken, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"])
def test_an_answer_that_breaks_off_within_its_headers_is_no_answer(client: str, before: bytes) -> None:
    def act(_number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(before + b"HTTP/1.1 200 OK\r\nContent-Le")
        writer.close()

    provider, [report] = deliver(client, act, 1)
    assert (provider.taken, report.verdict.code) == (1, UNKNOWN)


def deliver(client: str, act: Callable[[int, asyncio.StreamWriter], None], count: int) -> tuple[Provider, list[Report]]:
    """Post envelopes one after the other, over one connection as long as it lives."""
    provider = Provider(act)

    async def main() -> list[Report]:
        server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/push"
        channel = HttpChannel({"url": url, "client": client, "concurrency": 1, "timeout_s": 5.0})
        await channel.open()
        try:
            return [report for number in range(count) for report in await channel.deliver([envelope(number)], "high")]
        finally:
            await channel.close()
            server.close()
            await provider.close()

    return provider, asyncio.run(main())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("end", ["close", "abort"])
def test_a_post_that_was_taken_is_not_sent_again_when_its_connection_ends(client: str, end: str) -> None:
    def act(number: int, writer: asyncio.StreamWriter) -> None:
        if number == 2:
            (writer.close if end == "close" else writer.transport.abort)()
        else:
            writer.write(ANSWER)

    provider, reports = deliver(client, act, 3)
    assert [report.verdict.code for report in reports] == [ALL_SENT.verdict.code, UNKNOWN, ALL_SENT.verdict.code]
    assert provider.taken == 3


@pytest.mark.parametrize("client", CLIENTS)
def test_a_connection_that_ends_between_posts_costs_no_post_twice(client: str) -> None:
    def act(_number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(ANSWER)
        writer.close()

    provider, reports = deliver(client, act, 5)
    sent = [report for report in reports if report == ALL_SENT]
    assert len(sent) == provider.taken
    assert {report.verdict.code for report in reports} <= {ALL_SENT.verdict.code, UNKNOWN, UNSENT}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_redirection_and_a_417_are_not_followed(client: str) -> None:
    def act(number: int, writer: asyncio.StreamWriter) -> None:
        status = b"417 Expectation Failed" if number == 1 else b"307 Temporary Redirect\r\nLocation: /other"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")

    provider, _ = deliver(client, act, 2)
    assert provider.taken == 2
