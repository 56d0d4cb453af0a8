"""The http channel against a real server: what is posted, and what each status means for the targets."""

import asyncio
import json
import socket
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest
from aiohttp import web

from consumers.delivery.channels.http import HttpChannel, signature_headers, signing_key
from consumers.delivery.retry_after import retry_after_s
from dispatcher.model.errors import InvalidInput
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, RETRY, UNKNOWN, UNSENT, Report, Verdict
from tests.unit.dispatch.consumers.envelopes import MESSAGE, batch, envelope
from tests.unit.dispatch.consumers.http_posts import FAILED, THREE, answering, deliver, post, post_all, verdict
from tests.unit.dispatch.consumers.office import office

pytestmark = pytest.mark.usefixtures("client")


# ---------------------------------------------------------------- what is posted
def test_an_envelope_is_one_post_of_its_fields() -> None:
    ((headers, body),) = asyncio.run(_seen(THREE, headers={"X-Key": "secret"}))
    assert (headers["content-type"], headers["x-key"]) == ("application/json", "secret")
    assert not [name for name in headers if name.startswith("webhook-")]
    assert json.loads(body) == {
        "task": "task-1",
        "app": "shop",
        "tier": "high",
        "message": MESSAGE,
        "targets": ["a", "b", "c"],
        "writer": "0",
        "sequence": 7,
        "attempt": 2,
    }


async def _seen(*envelopes: Envelope, **settings: Any) -> list[tuple[dict[str, str], bytes]]:
    """Headers and body of the POSTs."""
    seen: list[tuple[dict[str, str], bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(({name.lower(): value for name, value in request.headers.items()}, await request.read()))
        return web.Response()

    await post_all(answer, list(envelopes), settings)
    return seen


def test_the_same_attempt_has_the_same_key_and_every_other_one_another() -> None:
    """Two writers have the same sequences; the next attempt may have fewer targets."""
    first = envelope(7, writer="spark.3", attempt=2)
    others = [envelope(7, writer="spark.4", attempt=2), envelope(7, writer="spark.3", attempt=3), envelope(8)]
    keys = [headers["idempotency-key"] for headers, _ in asyncio.run(_seen(first, first, *others))]
    assert sorted(keys) == sorted(
        ["task-1:spark.3:7:2", "task-1:spark.3:7:2", "task-1:spark.4:7:2", "task-1:spark.3:7:3", "task-1:0:8:0"]
    )


def test_a_post_is_signed_as_standard_webhooks_says() -> None:
    """The vector is the one of the tests in the specification's repository."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body, message_id = b'{"test": 2432232314}', "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert signature_headers(signing_key(secret), message_id, 1614265330, body) == {
        "webhook-id": message_id,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    ((headers, posted),) = asyncio.run(_seen(THREE, signing_secret=secret, headers={"webhook-id": "mine"}))
    assert headers["webhook-id"] == headers["idempotency-key"] == "task-1:0:7:2"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    signed = signature_headers(signing_key(secret), "task-1:0:7:2", int(headers["webhook-timestamp"]), posted)
    assert headers["webhook-signature"] == signed["webhook-signature"]


def test_each_envelope_has_its_own_report() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=200 if (await request.json())["sequence"] else 404)

    failed, sent = post(answer, envelope(0), envelope(1))
    assert (failed.verdict.code, sent) == (FAILED, ALL_SENT)


def test_an_envelope_that_cannot_be_json_fails_alone() -> None:
    failed, sent = post(answering(200), envelope(0, message=msgspec.Raw(b"\xa1\xff")), envelope(1))
    assert (failed.verdict.code, sent) == (FAILED, ALL_SENT)


# ---------------------------------------------------------------- what answers mean
@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_2xx_is_sent(status: int) -> None:
    assert post(answering(status)) == [ALL_SENT]


@pytest.mark.parametrize("status", [301, 408, 425, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(status: int) -> None:
    failure = verdict(answering(status, "too much"))
    assert (failure.code, failure.reason, failure.retry_after_s) == (RETRY, f"HTTP {status}: too much", None)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
def test_other_4xx_fail_with_status_and_the_beginning_of_the_answer(status: int) -> None:
    failure = verdict(answering(status, "no\n such  thing" + "!" * 10_000))
    assert failure.code == FAILED
    assert failure.reason.startswith(f"HTTP {status}: no such thing!!!")
    assert len(failure.reason) < 250


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_in_seconds_is_passed_on(status: int) -> None:
    assert verdict(answering(status, Retry_After="17")) == Verdict(RETRY, f"HTTP {status}", 17.0)


def test_retry_after_as_a_date_is_passed_on() -> None:
    date, later = (format_datetime(datetime(2026, 1, 1, 0, minute, tzinfo=UTC), usegmt=True) for minute in (0, 2))
    assert verdict(answering(429, Date=date, Retry_After=later)).retry_after_s == 120.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("999999999", 86_400.0),
        ("Thu, 01 Jan 1970 00:16:50 GMT", 10.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("1e308", 86_400.0),
        ("-1e308", 0.0),
        ("9" * 5_000, None),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 86_400.0),
        ("inf", None),
        ("", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after_s({"Retry-After": value}, wall_s=1_000.0) == seconds


def test_what_became_of_a_slow_request_is_unknown() -> None:
    async def answer(_request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    assert verdict(answer, timeout_s=0.1) == Verdict(UNKNOWN, "no answer within 0.1 s")


def test_a_refused_connection_sends_nothing() -> None:
    async def refused() -> list[Report]:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return await deliver(f"http://127.0.0.1:{port}/", [THREE], {})

    (report,) = asyncio.run(refused())
    assert report.verdict.code == UNSENT
    assert "onnect" in report.verdict.reason


def test_a_connection_that_does_not_come_sends_nothing(client: str) -> None:
    """As behind a firewall that drops packets: the listener's queue is full."""
    with socket.socket() as listener, ExitStack() as others:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with office(HttpChannel({"name": "x", "url": url, "client": client, "timeout_s": 1.0})) as at:
            at.send(batch([envelope(0)]))
            [report] = at.reported()[1]
    assert report == Report(Verdict(UNSENT, "no connection within 0.5 s"))


def test_what_became_of_a_request_is_unknown_after_the_connection_broke_off() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    assert verdict(answer).code == UNKNOWN


# ---------------------------------------------------------------- settings
@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, "has no url"),
        ({"url": None}, "has no url"),
        ({"url": "ftp://x"}, "url: it has the wrong form"),
        ({"url": "http://:80"}, "url: it names no host"),
        ({"url": "http://x", "timeout_s": 0}, "timeout_s: it must be more than 0"),
        ({"url": "http://x", "timeout_s": "long"}, "timeout_s"),
        ({"url": "http://x", "retries": 3}, "retries"),
        *(
            ({"url": "http://x", "signing_secret": secret}, "signing secret .* is not .* and the base64 of 24")
            for secret in (
                "",
                "whsec_",
                "whsec_short",
                "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                f"whsec_{'A' * 88}",
                "whsec_é",
            )
        ),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        HttpChannel(settings)


def test_a_wrong_setting_does_not_show_its_value() -> None:
    with pytest.raises(InvalidInput) as caught:
        HttpChannel({"name": "sms", "url": "ftp://me:hush@x", "headers": {"X-Key": "hush\n" * 2}})
    assert "The settings of the channel sms are wrong: url: " in str(caught.value)
    assert "hush" not in str(caught.value)
