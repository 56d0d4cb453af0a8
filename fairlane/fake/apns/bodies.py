"""Answers of APNs as it writes them; dispatcher/channels/apns_answers.py reads them."""

import uuid

import msgspec

from dispatcher.channels.verdict_table import STRANGE_BODY, Answer
from fairlane.fake.messages import Reply, retry_after, strange_reply

_REASON = {
    400: "BadMessageId",
    403: "InvalidProviderToken",
    404: "BadPath",
    405: "MethodNotAllowed",
    410: "Unregistered",
    413: "PayloadTooLarge",
    429: "TooManyRequests",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}
"""The reason of a status, unless the answer has another."""


def reply_of(answer: Answer, apns_id: str) -> Reply:
    """Write an answer. Without an id of the client, APNs makes one."""
    if answer.detail == STRANGE_BODY:
        return strange_reply(answer)
    identity = ("apns-id", apns_id or str(uuid.uuid4()).upper())
    if answer.status == 200:
        return Reply(200, b"", (identity,))
    body: dict[str, object] = {"reason": answer.code or _REASON.get(answer.status, "InternalServerError")}
    if answer.status == 410:
        body["timestamp"] = answer.died_ms
    return Reply(answer.status, msgspec.json.encode(body), (identity, *retry_after(answer)))
