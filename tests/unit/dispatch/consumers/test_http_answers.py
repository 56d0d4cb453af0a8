"""Answers that the http channel reads: single targets, answers not as agreed, and none at all."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from consumers.delivery.channels.http_answer import ANSWER_LIMIT, REASON_LIMIT, AnswerReader, HttpAnswer
from dispatcher.verdicts import read_reports
from dispatcher.wire.outcome import ALL_SENT, RETRY, UNKNOWN, Outcome, Report, Verdict
from tests.unit.dispatch.consumers.envelopes import envelope
from tests.unit.dispatch.consumers.http_posts import FAILED, THREE, Answering, answering, deliver_raw, post, verdict

pytestmark = pytest.mark.usefixtures("client")


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


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "{}",
        '{"failed": []}',
        '{"failed": null}',
        '{"failed": [], "id": {"a": 1, "a": 2}}',
        f'{{"failed": [], "id": {"9" * 100_000}}}',
    ],
)
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
        ('{"failed": [{"target": "a"}], "failed": []}', "an object of the answer has a name twice"),
        ('{"failed": [], "failed": [{"target": "a"}]}', "an object of the answer has a name twice"),
        ('{"failed": null, "\\u0066ailed": [{"target": "a"}]}', "an object of the answer has a name twice"),
        ('{"failed": [{"target": "a", "target": "b"}]}', "an object of the answer has a name twice"),
        ('{"failed": [{"target": "a", "retry": true, "retry": false}]}', "an object of the answer has a name twice"),
        (
            f'{{"failed": [{{"target": "a"}}], "id": {"9" * 5_000}, "failed": []}}',
            "an object of the answer has a name twice",
        ),
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
    assert line.startswith("Channel http: a 2xx answer does not have the agreed form")
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
    failures: tuple[dict[str, Any], ...] = (
        {"target": "b", **nonsense},
        {"target": "c", "retry": "true"},
        {"target": []},
    )
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
    report = AnswerReader("http", strict=strict).report(THREE.targets, HttpAnswer(status, headers, body), 0.0)
    faults: list[str] = []
    assert read_reports([report], [THREE], faults.append) == [report]
    assert faults == []
    wanted = Outcome.SENT if status < 300 else FAILED if status in (400, 404) else RETRY
    assert report.verdict.code == wanted or (strict and status < 300 and report.verdict.code == FAILED)


# ---------------------------------------------------------------- answers that are none
def replied(reply: bytes, **settings: Any) -> Report:
    """Return the result of an envelope whose provider writes these bytes and closes the connection."""

    def act(_number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        writer.close()

    _, [report] = deliver_raw(act, query="?key=hush", **settings)
    return report


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (b"", UNKNOWN),
        (b"\x00\xff\xfe", UNKNOWN),
        (b"HTTP/1.1 abc\r\n\r\n", UNKNOWN),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500_000 + b"\r\n\r\n", UNKNOWN),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", Outcome.SENT),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", Outcome.SENT),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", UNKNOWN),
        (b"HTTP/1.1 404 Gone\r\nContent-Length: 500\r\n\r\nno", FAILED),
    ],
)
def test_the_status_decides_where_the_rest_cannot_be_read_and_no_key_is_told(
    reply: bytes, code: int, client: str
) -> None:
    if client == "pycurl" and b"zz" in reply:  # it has the headers of an answer whose chunks are wrong
        code = Outcome.SENT
    report = replied(reply, strict_answers=False)
    assert report.verdict.code == code
    assert "hush" not in report.verdict.reason
    strict = replied(reply)
    assert strict.verdict.code == (UNKNOWN if code == Outcome.SENT else code)
