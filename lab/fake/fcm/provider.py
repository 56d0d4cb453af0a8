"""The fake of FCM: which requests it takes, and its answers."""

import itertools
import re
import time

from dispatcher.channels import fcm_answers
from dispatcher.channels.verdict_table import STRANGE_BODY, Answer
from lab.fake.fcm.access_tokens import AccessTokens
from lab.fake.fcm.bodies import error_reply
from lab.fake.fcm.checks import parse, problem_of
from lab.fake.messages import JSON_TYPE, ClientFacts, FakeProvider, Push, Reply, Request, json_reply, strange_reply
from lab.fake.rules import FakeRules

TOKEN_PATH = "/token"  # a path
_PATH = re.compile(r"/v1/projects/([^/?]+)/messages:send(?:\?.*)?")
_UNAUTHENTICATED = Answer(status=401, reason="Request had invalid authentication credentials.")
_NO_PATH = Answer(status=404, reason="The requested URL was not found on this server.")
_NO_PROJECT = Answer(status=404, reason="Project not found.")


class FakeFcmProvider(FakeProvider):
    """Takes what FCM takes."""

    name = "fcm"
    table = fcm_answers.TABLE
    side_paths = (TOKEN_PATH,)

    def __init__(self, project_id: str, tokens: AccessTokens) -> None:
        self._project_id, self._tokens = project_id, tokens
        self._prefix = f'{{"name": "projects/{project_id}/messages/0:{int(time.time() * 1e6)}%'
        self._numbers = itertools.count(1)

    def side_reply(self, request: Request, rules: FakeRules, /) -> Reply:
        """Grant access tokens."""
        if request.method != "POST":
            return json_reply(405, {"error": "invalid_request"}, ("allow", "POST"))
        return self._tokens.grant(request, rules.token_lifetime_s)

    def check(self, request: Request, peer: ClientFacts, rules: FakeRules) -> Push | Answer:
        path = _PATH.fullmatch(request.path)
        if path is None or request.method != "POST":
            return _NO_PATH
        if not self._tokens.accepts(request.headers.get("authorization", "")):
            return _UNAUTHENTICATED
        peer.trusted = True
        if path[1] != self._project_id:
            return _NO_PROJECT
        document = parse(request.body)
        if isinstance(document, Answer):
            return document
        message = document["message"]
        problem = problem_of(message)
        if problem is not None:
            return problem
        message_id = message.get("data", {}).get(rules.message_id, "") if rules.message_id else ""
        return Push(message["token"], message_id, document.get("validate_only", False))

    def over_quota(self, retry_after_s: int, /) -> Answer:
        return Answer(status=429, code="QUOTA_EXCEEDED", detail=fcm_answers.PROJECT, retry_after_s=float(retry_after_s))

    def reply(self, answer: Answer, _request: Request, /) -> Reply:
        """A dry run has the name that Google gives to it."""
        if answer.detail == STRANGE_BODY:
            return strange_reply(answer)
        if answer.status != 200:
            return error_reply(answer)
        if answer.detail:
            return json_reply(200, {"name": f"projects/{self._project_id}/messages/fake_message_id"})
        return Reply(200, f'{self._prefix}{next(self._numbers):016x}"}}'.encode(), (JSON_TYPE,))

    def expire_tokens(self) -> int:
        return self._tokens.expire()
