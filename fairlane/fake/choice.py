"""The choice of an answer by rules, with a seeded generator."""

from collections.abc import Sequence
from hashlib import blake2b
from random import Random

from dispatcher.channels.verdict_table import Effect, VerdictTable
from fairlane.fake.rules import AnswerRule, FakeRules, row_of

_LASTING = (Effect.DEAD, Effect.WRONG)
"""Answers about a target that stay the same on every request."""


class Choice:
    """Chooses answers. A target that is dead or wrong stays so; other answers are drawn for each request."""

    def __init__(self, rules: FakeRules, table: VerdictTable, rng: Random, seed: int) -> None:
        self._rng = rng
        self._salt = seed.to_bytes(8, "big", signed=True)
        self._left = {index: rule.times for index, rule in enumerate(rules.answers) if rule.times is not None}
        indexed = list(enumerate(rules.answers))
        self._lasting = [one for one in indexed if row_of(one[1], table).effect in _LASTING]
        self._passing = [one for one in indexed if row_of(one[1], table).effect not in _LASTING]

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
