"""A POST of the http channel reaches its provider at most once, whatever the connection does."""

import asyncio

import pytest

from dispatcher.wire.outcome import ALL_SENT, UNKNOWN, UNSENT
from tests.unit.dispatch.consumers.http_posts import deliver_raw

pytestmark = pytest.mark.usefixtures("client")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"])
def test_an_answer_that_breaks_off_within_its_headers_is_no_answer(before: bytes) -> None:
    def act(_number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(before + b"HTTP/1.1 200 OK\r\nContent-Le")
        writer.close()

    provider, [report] = deliver_raw(act, 1)
    assert (provider.taken, report.verdict.code) == (1, UNKNOWN)


@pytest.mark.parametrize("end", ["close", "abort"])
def test_a_post_that_was_taken_is_not_sent_again_when_its_connection_ends(end: str) -> None:
    def act(number: int, writer: asyncio.StreamWriter) -> None:
        if number == 2:
            (writer.close if end == "close" else writer.transport.abort)()
        else:
            writer.write(ANSWER)

    provider, reports = deliver_raw(act, 3)
    assert [report.verdict.code for report in reports] == [ALL_SENT.verdict.code, UNKNOWN, ALL_SENT.verdict.code]
    assert provider.taken == 3


def test_a_connection_that_ends_between_posts_costs_no_post_twice() -> None:
    def act(_number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(ANSWER)
        writer.close()

    provider, reports = deliver_raw(act, 5)
    sent = [report for report in reports if report == ALL_SENT]
    assert len(sent) == provider.taken
    assert {report.verdict.code for report in reports} <= {ALL_SENT.verdict.code, UNKNOWN, UNSENT}


def test_a_redirection_and_a_417_are_not_followed() -> None:
    def act(number: int, writer: asyncio.StreamWriter) -> None:
        status = b"417 Expectation Failed" if number == 1 else b"307 Temporary Redirect\r\nLocation: /other"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")

    provider, _ = deliver_raw(act, 2)
    assert provider.taken == 2
