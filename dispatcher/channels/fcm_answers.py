"""Answers of Firebase Cloud Messaging's HTTP v1 API.

Sources: Firebase's reference of `ErrorCode` and its pages "error codes" and "throttling and quotas"; bodies seen by
others for tokens that are malformed, unregistered or missing.

503 is a refusal: FCM is overloaded. A 500 is a fault of which FCM says nothing, also the end of its time limit of 5 s,
and 502 and 504 are of a gateway that may have passed the request on: FCM may have taken these messages.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from dispatcher.channels.answer_body import json_object, objects, text
from dispatcher.channels.verdict_table import STRANGE_BODY, Answer, Effect, Row, VerdictTable, strange_rows
from dispatcher.model.errors import DECODING_ERRORS

TOKEN, DEVICE, TOPIC, PROJECT = "token", "device", "topic", "project"
"""Values of `detail`: the faulty field is the target, or the quota that is used up."""

TABLE = VerdictTable(
    (
        *strange_rows(
            "The answer names no message, so it is not one of FCM: check url and proxy of the app.",
            "The answer is not one of FCM: check url and proxy of the app.",
        ),
        Row(status=200, effect=Effect.SENT, note="Taken by FCM."),
        Row(status=400, detail=TOKEN, effect=Effect.DEAD, note="The target is not a registration token."),
        Row(
            status=400,
            effect=Effect.PAYLOAD,
            note="FCM refuses the message: it is too large, or a field, key or value is not allowed.",
        ),
        Row(
            status=401,
            code="THIRD_PARTY_AUTH_ERROR",
            effect=Effect.CREDENTIALS,
            wait_s=300.0,
            in_part=True,
            note="The APNs key or web-push key inside the Firebase project is missing or wrong.",
        ),
        Row(
            status=401,
            effect=Effect.CREDENTIALS,
            renew=True,
            note="FCM does not accept the access token: check the service account.",
        ),
        Row(
            status=403,
            code="SENDER_ID_MISMATCH",
            effect=Effect.WRONG,
            note="The target belongs to another Firebase project.",
        ),
        Row(
            status=403,
            effect=Effect.CREDENTIALS,
            note="The service account may not send: enable the FCM API and give it the role to send.",
        ),
        Row(
            status=404,
            code="UNREGISTERED",
            effect=Effect.DEAD,
            note="The app was uninstalled, or its token was replaced.",
        ),
        Row(status=404, effect=Effect.CREDENTIALS, note="The project does not exist: check project_id."),
        Row(status=429, detail=DEVICE, effect=Effect.LATER, wait_s=60.0, note="This device gets too many messages."),
        Row(status=429, effect=Effect.LIMIT, wait_s=60.0, note="The project's quota is used up."),
        Row(
            status=502,
            effect=Effect.DOWN,
            wait_s=30.0,
            may_be_taken=True,
            note="Google's gateway got no answer from FCM.",
        ),
        Row(status=503, effect=Effect.DOWN, wait_s=10.0, note="FCM is overloaded or down."),
        Row(status=5, effect=Effect.DOWN, wait_s=10.0, may_be_taken=True, note="FCM failed."),
    )
)

_TYPE = "@type"
_TELLING = frozenset({401, 403, 404, 429})
"""Statuses that mean the same without FCM's body."""


class _Taken(msgspec.Struct, gc=False):
    name: str = ""
    error: msgspec.Raw = msgspec.Raw()


_is_name = re.compile(r"projects/[^/]+/messages/[^/]+").fullmatch
_decode_taken = msgspec.json.Decoder(_Taken).decode


def read_answer(status: int, body: bytes, retry_after_s: float | None = None) -> Answer:
    """Read an answer of `messages:send`. Any body can be read; one that is not FCM's has no code."""
    name = message_name(body)
    if status == 200 and name:
        return Answer(status=status, reference=text(name))
    if 200 <= status < 300:
        return Answer(status=200, detail=STRANGE_BODY, reason=f"HTTP {status}", retry_after_s=retry_after_s)
    error = json_object(body).get("error")
    if not isinstance(error, Mapping):
        is_strange = 300 <= status < 500 and status not in _TELLING
        detail = STRANGE_BODY if is_strange else ""
        return Answer(status=status, detail=detail, reason=f"HTTP {status}", retry_after_s=retry_after_s)
    details = objects(error.get("details"))
    code = next((text(each.get("errorCode")) for each in details if _is(each, "FcmError")), "")
    reason = text(error.get("message")) or f"HTTP {status}"
    return Answer(
        status=status,
        code=code or text(error.get("status")),
        detail=_detail(details, reason),
        reason=reason,
        retry_after_s=retry_after_s,
    )


def message_name(body: bytes) -> str:
    """Return the name of the message in an answer that FCM took it, such as projects/shop/messages/0:1500; empty if
    the body does not have this form. Quick: every target that is sent comes by here."""
    try:
        taken = _decode_taken(body)
    except DECODING_ERRORS:
        return ""
    return taken.name if _is_name(taken.name) and not taken.error else ""


def _detail(details: list[Mapping[str, Any]], reason: str) -> str:
    fields = [text(violation.get("field")) for violation in _violations(details, "BadRequest", "fieldViolations")]
    if "message.token" in fields or (not fields and "not a valid FCM registration token" in reason):
        return TOKEN
    quotas = " ".join(
        f"{text(violation.get('subject'))} {text(violation.get('description'))}".lower()
        for violation in _violations(details, "QuotaFailure", "violations")
    )
    return next((quota for quota in (DEVICE, TOPIC, PROJECT) if quota in quotas), "")


def _violations(details: list[Mapping[str, Any]], kind: str, field: str) -> list[Mapping[str, Any]]:
    return [violation for detail in details if _is(detail, kind) for violation in objects(detail.get(field))]


def _is(detail: Mapping[str, Any], kind: str) -> bool:
    return text(detail.get(_TYPE)).endswith(f".{kind}")
