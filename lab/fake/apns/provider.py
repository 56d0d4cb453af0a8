"""The fake of APNs: which notifications it takes, and its answers."""

import uuid

import msgspec

from dispatcher.channels import apns_answers
from dispatcher.channels.verdict_table import STRANGE_BODY, Answer
from lab.fake.apns.checks import header_problem, payload_problem, token_problem, topic_problem
from lab.fake.apns.provider_tokens import ProviderTokens
from lab.fake.messages import ClientFacts, FakeProvider, Push, Reply, Request, retry_after, strange_reply
from lab.fake.rules import FakeRules

_PREFIX = "/3/device/"
_STATUS = {
    "ExpiredProviderToken": 403,
    "InvalidProviderToken": 403,
    "MissingProviderToken": 403,
    "BadPath": 404,
    "MethodNotAllowed": 405,
    "PayloadTooLarge": 413,
    "TooManyProviderTokenUpdates": 429,
}
"""Statuses of reasons; 400 of all others."""

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


class FakeApnsProvider(FakeProvider):
    """Takes what APNs takes."""

    name = "apns"
    table = apns_answers.TABLE
    first_streams = 1

    def __init__(self, topic: str, tokens: ProviderTokens) -> None:
        self._topic, self._tokens = topic, tokens

    def side_reply(self, request: Request, _rules: FakeRules, /) -> Reply:
        """All requests are pushes."""
        return self.reply(Answer(status=404), request)

    def check(self, request: Request, peer: ClientFacts, rules: FakeRules) -> Push | Answer:
        headers, token = request.headers, request.path.removeprefix(_PREFIX)
        reason = (
            _line_problem(request, peer)
            or self._credential_problem(headers.get("authorization", ""), peer, rules)
            or topic_problem(headers, self._topic, has_certificate=peer.has_certificate)
            or header_problem(headers)
            or token_problem(token)
            or payload_problem(request.body, headers.get("apns-push-type", ""))
        )
        if reason:
            return Answer(status=_STATUS.get(reason, 400), code=reason, reason=reason)
        return Push(token, headers.get("apns-id", ""))

    def _credential_problem(self, authorization: str, peer: ClientFacts, rules: FakeRules) -> str:
        if not authorization and peer.has_certificate:
            peer.trusted = True
            return ""
        reason = self._tokens.problem(authorization, peer, rules)
        peer.trusted = peer.trusted or not reason
        return reason

    def over_quota(self, _retry_after_s: int, /) -> Answer:
        """Apple names no delay."""
        return Answer(status=429, code="TooManyRequests")

    def reply(self, answer: Answer, request: Request, /) -> Reply:
        return _reply_of(answer, request.headers.get("apns-id", ""))

    def expire_tokens(self) -> int:
        return self._tokens.expire()


def _line_problem(request: Request, peer: ClientFacts) -> str:
    if request.has_repeated:
        return "DuplicateHeaders"
    if not peer.is_http2 or not request.path.startswith(_PREFIX):
        return "BadPath"
    return "" if request.method == "POST" else "MethodNotAllowed"


def _reply_of(answer: Answer, apns_id: str) -> Reply:
    """Write an answer as APNs does. Without an id of the client, APNs makes one."""
    if answer.detail == STRANGE_BODY:
        return strange_reply(answer)
    identity = ("apns-id", apns_id or str(uuid.uuid4()).upper())
    if answer.status == 200:
        return Reply(200, b"", (identity,))
    body: dict[str, object] = {"reason": answer.code or _REASON.get(answer.status, "InternalServerError")}
    if answer.status == 410:
        body["timestamp"] = answer.died_ms
    return Reply(answer.status, msgspec.json.encode(body), (identity, *retry_after(answer)))
