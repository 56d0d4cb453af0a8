"""A fake without its connections: requests in, replies with their delay out."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from random import Random
from typing import Any, NamedTuple, Protocol

import msgspec

from dispatcher.channels.verdict_table import STRANGE_BODY, Answer, Effect, VerdictTable
from dispatcher.model.errors import DECODING_ERRORS
from lab.fake.accounts import Accounts
from lab.fake.messages import ClientFacts, FakeProvider, Push, Reply, Request
from lab.fake.rules import AnswerRule, FakeRules, row_of

ADMIN_PREFIX = "/_fake/"
KEPT_PAYLOADS, KEPT_BYTES = 1_000, 8_192
"""The number of requests that are kept to be looked at, and the bytes of each body."""
_MINUTE_S = 60.0
_LASTING = (Effect.DEAD, Effect.WRONG)
"""Answers about a target that stay the same on every request."""


class TimedReply(NamedTuple):
    """A reply, and when to send it."""

    reply: Reply
    delay_s: float = 0.0


class KeptPayload(NamedTuple):
    """A push that was received."""

    request: Request
    answer: str

    def is_for(self, target: str) -> bool:
        """Return whether it names the target: in its path (APNs), or as a text of its body (FCM)."""
        return self.request.path.endswith(f"/{target}") or f'"{target}"'.encode() in self.request.body

    def shown(self) -> dict[str, Any]:
        """Return it without its credentials."""
        headers, body = dict(self.request.headers), self.request.body
        headers.pop("authorization", None)
        try:
            payload = msgspec.json.decode(body)
        except DECODING_ERRORS:
            payload = body.decode("utf-8", "replace")
        return {"answer": self.answer, "path": self.request.path, "headers": headers, "payload": payload}


class OpenConnection(Protocol):
    """An open connection, told of new rules."""

    def follow_rules(self) -> None:
        """Apply the rules that hold from now on."""

    def shut(self) -> None:
        """Break the connection."""


class Choice:
    """Chooses answers. A target that is dead or wrong stays so; other answers are drawn for each request."""

    def __init__(self, rules: FakeRules, table: VerdictTable, rng: Random, seed: int) -> None:
        self._rng = rng
        self._salt = seed.to_bytes(8, "big", signed=True)
        self._left = {index: rule.times for index, rule in enumerate(rules.answers) if rule.times is not None}
        indexed = list(enumerate(rules.answers))
        self._lasting = [each for each in indexed if row_of(each[1], table).effect in _LASTING]
        self._passing = [each for each in indexed if row_of(each[1], table).effect not in _LASTING]

    def answer_for(self, target: str) -> AnswerRule | None:
        """Return the rule for a request; None: it is taken."""
        found = self._drawn(self._lasting, target, self._position(target)) if self._lasting else None
        if found is None and self._passing:
            found = self._drawn(self._passing, target, self._rng.random())
        return found

    def _drawn(self, rules: Sequence[tuple[int, AnswerRule]], target: str, position: float) -> AnswerRule | None:
        """Return the rule whose part of [0, 1) holds the position, among those for the target."""
        end = 0.0
        for index, rule in rules:
            if rule.targets and not target.startswith(rule.targets):
                continue
            end += rule.share
            if position < end and self._left.get(index, 1) > 0:
                if index in self._left:
                    self._left[index] -= 1
                return rule
        return None

    def _position(self, target: str) -> float:
        digest = blake2b(target.encode(), digest_size=8, key=self._salt).digest()
        return int.from_bytes(digest, "big") / 2**64


class FakeSite:
    """One fake: its provider, its rules and its accounts."""

    def __init__(
        self,
        provider: FakeProvider,
        rules: FakeRules,
        *,
        seed: int = 0,
        streams: int = 100,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.provider = provider
        self.open: set[OpenConnection] = set()
        self._seed, self._rng = seed, Random(seed)
        self._usual_streams = streams
        self._now_s = monotonic_s
        self.accounts = Accounts(monotonic_s())
        self.payloads = deque[KeptPayload](maxlen=KEPT_PAYLOADS)
        self._minute_began_s, self._minute_count = float("-inf"), 0
        self.set_rules(rules)

    def set_rules(self, rules: FakeRules) -> None:
        """Replace the rules, also on open connections."""
        self.rules = rules
        self._choice = Choice(rules, self.provider.table, self._rng, self._seed)
        for connection in self.open:
            connection.follow_rules()

    def forget(self) -> None:
        """Begin the accounts again."""
        self.accounts = Accounts(self._now_s())
        self.payloads.clear()

    def is_push(self, path: str) -> bool:
        """Return whether requests to a path are pushes; others are no part of a connection's course."""
        return not path.startswith(ADMIN_PREFIX) and path not in self.provider.side_paths

    def streams_for(self, peer: ClientFacts) -> int:
        """Return the number of streams that a connection may have now."""
        usual = self.rules.streams or self._usual_streams
        first = self.provider.first_streams
        return usual if peer.trusted or first is None else min(first, usual)

    def receive(self, request: Request, peer: ClientFacts) -> TimedReply:
        """Take a push: count it and return the reply."""
        self.accounts.rates.count(self._now_s())
        answer = self._answer(request, peer)
        self.accounts.answers[_name(answer)] += 1
        kept = request._replace(body=request.body[:KEPT_BYTES])
        self.payloads.append(KeptPayload(kept, _name(answer)))
        return TimedReply(self.provider.reply(answer, request), self._delay_s())

    def _answer(self, request: Request, peer: ClientFacts) -> Answer:
        wait_s = self._over_quota()
        if wait_s:
            return self.provider.over_quota(wait_s)
        found = self.provider.check(request, peer, self.rules)
        if isinstance(found, Answer):
            self.accounts.reasons[found.reason or _name(found)] += 1
            return found
        return _DRY if found.dry_run else self._decided(found)

    def _decided(self, push: Push) -> Answer:
        now_s = self._now_s()
        self.accounts.ask(push.target, now_s)
        rule = self._choice.answer_for(push.target)
        if rule is None or rule.taken or (rule.status == _SENT.status and rule.detail != STRANGE_BODY):
            self.accounts.accept(push.target, push.message_id)
        if rule is None:
            return _SENT
        if rule.retry_after_s is not None:
            self.accounts.put_off(push.target, now_s + rule.retry_after_s)
        return rule.answer(died_ms=int(time.time() * 1000))

    def _over_quota(self) -> int:
        """Return the seconds until the next minute if this one's quota is used up, else 0."""
        quota, now_s = self.rules.quota_per_minute, self._now_s()
        if quota is None:
            return 0
        if now_s >= self._minute_began_s + _MINUTE_S:
            self._minute_began_s, self._minute_count = now_s, 0
        if self._minute_count >= quota:
            return int(self._minute_began_s + _MINUTE_S - now_s) + 1
        self._minute_count += 1
        return 0

    def _delay_s(self) -> float:
        low, high = self.rules.latency_ms
        return (low if low == high else self._rng.uniform(low, high)) / 1_000


_SENT = Answer(status=200)
_DRY = Answer(status=200, detail="dry run")


def _name(answer: Answer) -> str:
    if answer.code or answer.detail:
        return " ".join(str(part) for part in (answer.status, answer.code, answer.detail) if part)
    return str(answer.status)
