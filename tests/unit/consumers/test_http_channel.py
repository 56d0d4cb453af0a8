"""The http channel against a real server: what each answer, or none, means for the targets."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from consumers.channels.http import HttpChannel
from consumers.channels.http_answer import ANSWER_LIMIT, REASON_LIMIT, Answer, AnswerReader, retry_after_s
from consumers.channels.http_signature import signature_headers, signing_key
from dispatcher.envelope import Envelope
from dispatcher.errors import InvalidInput
from dispatcher.outcome import ALL_SENT, RETRY, Outcome, Report, Verdict
from dispatcher.verdicts import read_reports
from tests.unit.consumers.envelopes import MESSAGE, envelope

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]
THREE = envelope(7, ["a", "b", "c"], attempt=2)
FAILED = int(Outcome.FAILED)


async def _post(answer: Answering, envelopes: list[Envelope], settings: dict[str, Any]) -> list[Report]:
    """Delivers to a server that answers so."""
    app = web.Application()
    app.router.add_post("/push", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        return await _deliver(f"http://127.0.0.1:{port}/push", envelopes, settings)
    finally:
        await runner.cleanup()


async def _deliver(url: str, envelopes: list[Envelope], settings: dict[str, Any]) -> list[Report]:
    channel = HttpChannel({"url": url, **settings})
    await channel.open()
    try:
        return list(await channel.deliver(envelopes, "high"))
    finally:
        await channel.close()


def post(answer: Answering, *envelopes: Envelope, **settings: Any) -> list[Report]:
    return asyncio.run(_post(answer, list(envelopes) or [THREE], settings))


def answering(status: int = 200, text: str = "", **headers: str) -> Answering:
    async def answer(_request: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=text, headers=named)

    return answer


def verdict(answer: Answering, **settings: Any) -> Verdict:
    (report,) = post(answer, **settings)
    assert report.exceptions is None
    return report.verdict


# ---------------------------------------------------------------- what is posted
def test_an_envelope_is_one_post_of_its_fields() -> None:
    seen: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.headers["Content-Type"], request.headers["X-Key"], await request.json()))
        return web.Response(status=204)

    assert post(answer, THREE, headers={"X-Key": "secret"}) == [ALL_SENT]
    assert seen == [
        (
            "application/json",
            "secret",
            {
                "task": "task-1",
                "app": "shop",
                "tier": "high",
                "message": MESSAGE,
                "targets": ["a", "b", "c"],
                "writer": "0",
                "sequence": 7,
                "attempt": 2,
            },
        )
    ]


async def _seen(*envelopes: Envelope, **settings: Any) -> list[tuple[dict[str, str], bytes]]:
    """Headers and body of the POSTs."""
    seen: list[tuple[dict[str, str], bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(({name.lower(): value for name, value in request.headers.items()}, await request.read()))
        return web.Response()

    await _post(answer, list(envelopes), settings)
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


def test_without_a_secret_nothing_is_signed() -> None:
    ((headers, _),) = asyncio.run(_seen(THREE))
    assert not [name for name in headers if name.startswith("webhook-")]


def test_variables_are_posted_where_there_are_any() -> None:
    seen: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((await request.json())["variables"])
        return web.Response()

    post(answer, envelope(0, ["a", "b"], variables=[{"name": "Ann"}, None]))
    assert seen == [[{"name": "Ann"}, None]]


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
    said = verdict(answering(status, "too much"))
    assert (said.code, said.reason, said.retry_after_s) == (RETRY, f"HTTP {status}: too much", None)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
def test_other_4xx_fail_with_status_and_the_beginning_of_the_answer(status: int) -> None:
    said = verdict(answering(status, "no\n such  thing" + "!" * 10_000))
    assert said.code == FAILED
    assert said.reason.startswith(f"HTTP {status}: no such thing!!!")
    assert len(said.reason) < 250


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


def test_a_slow_answer_is_tried_again() -> None:
    async def answer(_request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    assert verdict(answer, timeout_s=0.1) == Verdict(RETRY, "no answer within 0.1 s")


def test_a_refused_connection_is_tried_again() -> None:
    async def refused() -> list[Report]:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return await _deliver(f"http://127.0.0.1:{port}/", [THREE], {})

    (report,) = asyncio.run(refused())
    assert report.verdict.code == RETRY
    assert "ConnectorError" in report.verdict.reason


def test_a_connection_that_breaks_off_is_tried_again() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    assert verdict(answer).code == RETRY


# ---------------------------------------------------------------- single targets
def failing(*failures: dict[str, Any]) -> Answering:
    return answering(200, json.dumps({"failed": failures, "id": 5}))


def test_an_answer_fails_single_targets() -> None:
    (report,) = post(failing({"target": "b", "reason": "gone"}, {"target": "c", "reason": "busy", "retry": True}))
    assert report.verdict.code == Outcome.SENT
    assert report.exceptions == {1: Verdict(FAILED, "gone"), 2: Verdict(RETRY, "busy")}


def test_a_target_that_is_no_longer_there_is_invalid_and_never_tried_again() -> None:
    (report,) = post(failing({"target": "b", "reason": "unregistered", "invalid": True, "retry": True}))
    assert report.exceptions == {1: Verdict(int(Outcome.INVALID), "unregistered")}


def test_a_failed_target_fails_wherever_it_stands_and_unless_strict_a_stranger_nowhere() -> None:
    (report,) = post(failing({"target": "a"}, {"target": "z"}), envelope(0, ["a", "b", "a"]), strict_answers=False)
    assert report.exceptions == {0: Verdict(FAILED), 2: Verdict(FAILED)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "OK",
        "[]",
        "{}",
        "{",
        '{"failed": []}',
        '{"failed": "all"}',
        '{"failed": [{"target": 5}]}',
        '{"failed": [{"target": ["a"]}, "a", 5, null]}',
        '{"failed": ' + "[" * 100_000,
        '{"id": ' + "[" * 100_000,
        '{"failed": [{"target": "\\ud800"}]}',
        '{"failed": [{"target": "z"}]}',
        "{" + "x" * (ANSWER_LIMIT + 10),
    ],
)
def test_unless_strict_an_answer_of_2xx_that_names_no_target_takes_nothing_back(text: str) -> None:
    assert post(answering(200, text), strict_answers=False) == [ALL_SENT]


@pytest.mark.parametrize("text", ["", " \n", "{}", '{"failed": []}', '{"failed": null}', '{"failed": [], "id": 5}'])
def test_an_answer_as_agreed_without_a_failure_is_sent(text: str) -> None:
    assert post(answering(200, text)) == [ALL_SENT]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("OK", "the answer is not JSON: OK"),
        ("<html><body>Log in\nto the hotel", "the answer is not JSON: <html><body>Log in to the hotel"),
        ("{not json", "the answer is not JSON: {not json"),
        ("[1,2]", "the answer is not a JSON object: [1,2]"),
        ("null", "the answer is not a JSON object: null"),
        ('{"ok": true, "id": 5}', "the answer has no field that is known, only ok, id"),
        ('{"failed": "all"}', '`failed` of the answer is not a list: {"failed": "all"}'),
        ('{"failed": [{"target": "a"}, {"target": "z"}]}', "the answer names failed targets that were not in the"),
        ('{"failed": [{"target": "a"}, {"token": "b"}]}', "an entry under `failed` cannot be read (Object missing"),
        ('{"failed": ' + "[" * 100_000, "the answer is not JSON"),
        ("{" + " " * ANSWER_LIMIT + "}", "the answer has 1,048,576 bytes or more"),
    ],
)
def test_an_answer_of_2xx_that_is_not_as_agreed_is_a_fault_and_nothing_is_sent(
    text: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    (report,) = post(answering(200, text))
    assert (report.verdict.code, report.exceptions) == (FAILED, None), "another attempt would send again"
    assert report.verdict.reason.startswith(f"HTTP 200, but {reason}")
    assert len(report.verdict.reason) < 300
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith("Channel http: an answer of 2xx is not what was agreed")
    assert "strict_answers" in line


def test_an_answer_that_is_not_text_takes_nothing_back_unless_strict() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b'{"failed": [\xff\xfe')

    assert post(answer, strict_answers=False) == [ALL_SENT]
    assert verdict(answer).code == FAILED


@pytest.mark.parametrize(
    "nonsense",
    [
        {"reason": None},
        {"reason": {"code": 7}, "retry": "maybe", "invalid": []},
        {"reason": "x" * 80_000},
        {"reason": "\x1b[31m", "retry": 0},
    ],
)
def test_a_named_target_has_failed_whatever_else_is_said_of_it(nonsense: dict[str, Any]) -> None:
    failures = ({"target": "b", **nonsense}, {"target": "c", "retry": "true"}, {"target": []})
    (report,) = post(failing(*failures), strict_answers=False)
    assert report.exceptions is not None
    assert {index: one.code for index, one in report.exceptions.items()} == {1: FAILED, 2: RETRY}
    assert len(report.exceptions[1].reason) <= REASON_LIMIT


def test_numbers_that_are_targets_are_read_as_such() -> None:
    (report,) = post(failing({"target": 4917}), envelope(0, ["4917", "a"]))
    assert report.exceptions == {0: Verdict(FAILED)}


def test_what_is_wrong_with_answers_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    post(answering(200, "{"), *(envelope(n) for n in range(5)), strict_answers=False)
    assert len([record for record in caplog.records if "cannot be read" in record.getMessage()]) == 1
    caplog.clear()
    post(answering(200, "{"), *(envelope(n) for n in range(5)))
    assert len(caplog.records) == 1


_texts = st.text() | st.sampled_from(["a", "b", "true"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=10,
)
_failures = st.fixed_dictionaries({}, optional=dict.fromkeys(("target", "reason", "retry", "invalid"), _json))


@given(
    st.sampled_from([200, 204, 302, 400, 404, 408, 429, 500, 999]),
    st.binary()
    | (_json | st.fixed_dictionaries({"failed": _json | st.lists(_failures, max_size=4)})).map(
        lambda answer: json.dumps(answer).encode()
    ),
    st.dictionaries(st.sampled_from(["Retry-After", "Date"]), st.text(max_size=40) | st.floats().map(str)),
    st.booleans(),
)
def test_any_answer_becomes_a_report_by_its_status(
    status: int, body: bytes, headers: dict[str, str], strict: bool
) -> None:
    report = AnswerReader("http", strict).report(THREE.targets, Answer(status, headers, body), 0.0)
    faults: list[str] = []
    assert read_reports([report], [THREE], faults.append) == [report]
    assert faults == []
    wanted = Outcome.SENT if status < 300 else FAILED if status in (400, 404) else RETRY
    assert report.verdict.code == wanted or (strict and status < 300 and report.verdict.code == FAILED)


# ---------------------------------------------------------------- answers that are none
async def _raw(reply: bytes, query: str, **settings: Any) -> Report:
    """What becomes of an envelope whose provider writes these bytes and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        (report,) = await _deliver(f"http://127.0.0.1:{port}/{query}", [THREE], settings)
    return report


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (b"", RETRY),
        (b"\x00\xff\xfe", RETRY),
        (b"HTTP/1.1 abc\r\n\r\n", RETRY),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", RETRY),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", Outcome.SENT),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", Outcome.SENT),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", RETRY),
        (b"HTTP/1.1 404 Gone\r\nContent-Length: 500\r\n\r\nno", FAILED),
    ],
)
def test_the_status_decides_where_the_rest_cannot_be_read_and_no_key_is_told(reply: bytes, code: int) -> None:
    report = asyncio.run(_raw(reply, "push?key=hush", strict_answers=False))
    assert report.verdict.code == code
    assert "hush" not in report.verdict.reason
    strict = asyncio.run(_raw(reply, "push?key=hush"))
    assert strict.verdict.code == (RETRY if code == Outcome.SENT else code)


# ---------------------------------------------------------------- settings
@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, "has no url"),
        ({"url": None}, "has no url"),
        ({"url": "ftp://x"}, "not an http"),
        ({"url": "http://"}, "not an http"),
        ({"url": "ftp://me:hush@x?key=hush"}, r"'ftp://me:\*{8}@x\?key=\*{8}"),
        ({"url": "http://x", "timeout_s": 0}, "above 0"),
        ({"url": "http://x", "timeout_s": "long"}, "timeout_s"),
        ({"url": "http://x", "retries": 3}, "retries"),
        *(
            ({"url": "http://x", "signing_secret": secret}, r"signing secret .* is not `whsec_` and the base64 of 24")
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
