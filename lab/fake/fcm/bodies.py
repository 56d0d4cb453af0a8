"""Answers of `messages:send` as FCM writes them; dispatcher/channels/fcm_answers.py reads them."""

from typing import Any

from dispatcher.channels.fcm_answers import DEVICE, PROJECT, TOKEN, TOPIC
from dispatcher.channels.verdict_table import Answer
from lab.fake.messages import Reply, json_reply, retry_after

_GOOGLE = "type.googleapis.com/google."
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_FCM_CODE = {400: "INVALID_ARGUMENT", 429: "QUOTA_EXCEEDED", 500: "INTERNAL", 503: "UNAVAILABLE"}
"""The FcmError of a status, unless the answer has another."""
_FCM_CODES = {*_FCM_CODE.values(), "UNREGISTERED", "SENDER_ID_MISMATCH", "THIRD_PARTY_AUTH_ERROR"}
_TEXTS = {
    400: "Request contains an invalid argument.",
    401: "Request had invalid authentication credentials. Expected OAuth 2 access token.",
    403: "Permission 'cloudmessaging.messages.create' denied on resource.",
    404: "Requested entity was not found.",
    429: "Resource has been exhausted (e.g. check quota).",
    500: "Internal error encountered.",
    503: "The service is currently unavailable.",
}
_BAD_TOKEN = "The registration token is not a valid FCM registration token"  # a message
_HTML = b"<html><head><title>502 Server Error</title></head><body><h1>Error: Server Error</h1>Please try again in 30 seconds.</body></html>"  # noqa: E501


def error_reply(answer: Answer) -> Reply:
    """Write any answer but one of success. For a 400, `detail` is the faulty field: `token` or a path."""
    if answer.status == 502:
        return Reply(502, _HTML, (("content-type", "text/html; charset=UTF-8"), *retry_after(answer)))
    error = {
        "code": answer.status,
        "message": _text(answer),
        "status": _STATUS.get(answer.status, answer.code or "UNKNOWN"),
        "details": _details(answer),
    }
    if answer.code and answer.code not in _FCM_CODES:
        error["status"] = answer.code
    return json_reply(answer.status, {"error": error}, *retry_after(answer))


def _text(answer: Answer) -> str:
    if answer.reason:
        return answer.reason
    if (answer.status, answer.detail) == (400, TOKEN):
        return _BAD_TOKEN
    return _TEXTS.get(answer.status, "Unknown error.")


def _details(answer: Answer) -> list[dict[str, Any]]:
    code = answer.code if answer.code in _FCM_CODES else "" if answer.code else _FCM_CODE.get(answer.status, "")
    details: list[dict[str, Any]] = []
    if code:
        details.append({"@type": f"{_GOOGLE}firebase.fcm.v1.FcmError", "errorCode": code})
    if answer.status == 400:
        field = "message.token" if answer.detail == TOKEN else answer.detail or "message"
        violation = {"field": field, "description": _text(answer)}
        details.append({"@type": f"{_GOOGLE}rpc.BadRequest", "fieldViolations": [violation]})
    elif answer.status == 429:
        details.append({"@type": f"{_GOOGLE}rpc.QuotaFailure", "violations": [_quota(answer.detail or PROJECT)]})
    elif answer.status == 403 and not code:
        details.append(
            {"@type": f"{_GOOGLE}rpc.ErrorInfo", "reason": "IAM_PERMISSION_DENIED", "domain": "googleapis.com"}
        )
    return details


def _quota(kind: str) -> dict[str, str]:
    texts = {DEVICE: "Device message rate exceeded", TOPIC: "Topic message rate exceeded"}
    return {"subject": f"{kind}:fake", "description": texts.get(kind, "Project message rate exceeded")}
