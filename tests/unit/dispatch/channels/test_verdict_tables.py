"""Verdict tables of providers: every row is reached by an answer of its kind, and no answer stops a channel."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.channels import apns_answers, fcm_answers
from dispatcher.channels.verdict_table import UNKNOWN_ANSWER, Answer, Effect, Row, VerdictTable, wait_of

Read = Callable[[int, bytes], Answer]
PROVIDERS: list[tuple[VerdictTable, Read]] = [
    (fcm_answers.TABLE, fcm_answers.read_answer),
    (apns_answers.TABLE, apns_answers.read_answer),
]
ROWS = [(table, row) for table, _ in PROVIDERS for row in table.rows]


def example(row: Row) -> Answer:
    status = row.status if row.status >= 100 else row.status * 100 + 99
    return Answer(status=status, code=row.code, detail=row.detail)


def name(value: object) -> str:
    return f"{value.status} {value.code} {value.detail}" if isinstance(value, Row) else ""


@pytest.mark.parametrize(("table", "row"), ROWS, ids=name)
def test_no_row_is_hidden_behind_another(table: VerdictTable, row: Row) -> None:
    assert table.row_of(example(row)) is row
    assert row.note.endswith(".")


@given(st.sampled_from(PROVIDERS), st.integers(100, 599), st.binary(max_size=50) | st.text().map(str.encode))
def test_any_body_is_read(provider: tuple[VerdictTable, Read], status: int, body: bytes) -> None:
    """None of them has the form of a message that was taken: consumers/push/test_answer_form.py has some."""
    table, read = provider
    assert table.row_of(read(status, body)).effect is not Effect.SENT


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "details", "@type", "fieldViolations", "field", "reason", "timestamp", "name"]),
            inner,
            max_size=5,
        )
    ),
)


@given(st.sampled_from(PROVIDERS), st.sampled_from([200, 400, 410, 429, 503]), JSON)
def test_any_json_is_read(provider: tuple[VerdictTable, Read], status: int, value: object) -> None:
    table, read = provider
    answer = read(status, json.dumps(value).encode())
    assert isinstance(table.row_of(answer).effect, Effect)
    assert answer.died_ms >= 0


def fcm_body(code: str, **detail: object) -> bytes:
    details = [{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}]
    return json.dumps({"error": {"status": "X", "message": "m", "details": [*details, detail]}}).encode()


APNS_ID = "00000000-0000-0000-0000-000000000000"
BAD_FIELD = "type.googleapis.com/google.rpc.BadRequest"
QUOTA = "type.googleapis.com/google.rpc.QuotaFailure"


@pytest.mark.parametrize(
    ("status", "body", "effect"),
    [
        (404, fcm_body("UNREGISTERED"), Effect.DEAD),
        (
            400,
            fcm_body("INVALID_ARGUMENT", **{"@type": BAD_FIELD, "fieldViolations": [{"field": "message.token"}]}),
            Effect.DEAD,
        ),
        (
            400,
            fcm_body("INVALID_ARGUMENT", **{"@type": BAD_FIELD, "fieldViolations": [{"field": "message.data[0]"}]}),
            Effect.PAYLOAD,
        ),
        (
            400,
            b'{"error": {"message": "The registration token is not a valid FCM registration token"}}',
            Effect.DEAD,
        ),
        (400, b'{"error": {"message": "Request too large"}}', Effect.PAYLOAD),
        (403, fcm_body("SENDER_ID_MISMATCH"), Effect.WRONG),
        (403, b'{"error": {"status": "PERMISSION_DENIED"}}', Effect.CREDENTIALS),
        (404, b"not found", Effect.CREDENTIALS),
        (
            429,
            fcm_body("QUOTA_EXCEEDED", **{"@type": QUOTA, "violations": [{"subject": "device:1"}]}),
            Effect.LATER,
        ),
        (
            429,
            fcm_body("QUOTA_EXCEEDED", **{"@type": QUOTA, "violations": [{"description": "Project quota"}]}),
            Effect.LIMIT,
        ),
        (502, b"<html>", Effect.DOWN),
    ],
)
def test_fcm_says_in_its_body_what_an_error_is_about(status: int, body: bytes, effect: Effect) -> None:
    assert fcm_answers.TABLE.row_of(fcm_answers.read_answer(status, body)).effect is effect


@pytest.mark.parametrize("body", [b"<html>It works!</html>", b"{}", b'{"error": null}', b"ok", b"null"])
@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
@pytest.mark.parametrize(("table", "read"), PROVIDERS)
def test_a_success_that_is_not_of_the_provider_may_be_one_and_stops_the_flow(
    table: VerdictTable, read: Read, status: int, body: bytes
) -> None:
    """A proxy or a wrong url that answers 200 to everything: no target may count as sent."""
    row = table.row_of(read(status, body))
    assert (row.effect, row.may_be_taken) == (Effect.DOWN, True)


@pytest.mark.parametrize("body", [b"<html>Bad Request</html>", b"{}", b'{"error": null}', b"", b'{"reason": 7}'])
@pytest.mark.parametrize("status", [400, 405, 407, 408, 421, 431])
@pytest.mark.parametrize(("table", "read"), PROVIDERS)
def test_an_error_that_is_not_of_the_provider_fails_no_target_and_stops_the_flow(
    table: VerdictTable, read: Read, status: int, body: bytes
) -> None:
    row = table.row_of(read(status, body))
    assert (row.effect, row.may_be_taken) == (Effect.DOWN, False)
    assert "check url and proxy" in row.note


def test_a_page_of_a_wrong_url_is_not_of_apns_and_a_device_may_be_gone_for_a_new_reason() -> None:
    def effect(status: int, body: bytes) -> Effect:
        return apns_answers.TABLE.row_of(apns_answers.read_answer(status, body)).effect

    assert effect(404, b"<html>Not Found</html>") is Effect.DOWN
    assert effect(404, b'{"reason": "BadPath"}') is Effect.PAYLOAD
    assert effect(400, b'{"reason": "BadSomething"}') is Effect.PAYLOAD
    assert effect(410, b'{"reason": "Erased"}') is Effect.DEAD
    assert effect(410, b"<html>Gone</html>") is Effect.DOWN


def test_apns_names_the_time_of_death_and_its_id() -> None:
    dead = apns_answers.read_answer(410, b'{"reason": "Unregistered", "timestamp": 1700000000000}')
    assert (dead.code, dead.died_ms) == ("Unregistered", 1_700_000_000_000)
    assert apns_answers.read_answer(200, b"", APNS_ID).reference == APNS_ID
    assert apns_answers.read_answer(410, b'{"reason": "Unregistered", "timestamp": true}').died_ms == 0


def test_a_wait_of_any_length_is_kept() -> None:
    limit = fcm_answers.TABLE.row_of(fcm_answers.read_answer(429, b""))
    assert wait_of(limit, Answer(status=429, retry_after_s=7_200.0)) == 7_200.0
    assert wait_of(limit, Answer(status=429, retry_after_s=1.0)) == limit.wait_s == 60.0
    assert wait_of(limit, Answer(status=429)) == 60.0


def test_an_answer_that_nobody_documents_is_tried_again() -> None:
    assert fcm_answers.TABLE.row_of(Answer(status=302)) is UNKNOWN_ANSWER
    assert UNKNOWN_ANSWER.effect is Effect.LATER
