"""Answers of channels that are wrong in any way, for tests that draw them."""

import math
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from dispatcher.wire.outcome import ALL_SENT, RETRY, Outcome, Report, Verdict


class Sick:
    """Fails whatever is asked of it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __hash__(self) -> int:
        return 1

    def __index__(self) -> int:
        raise RuntimeError("no number")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no items")


class OddReport(Report, frozen=True):
    note: str = ""


_texts = st.text(st.characters(exclude_categories=()), max_size=5) | st.sampled_from(["\ud800", "x" * 5_000, "5"])
junk: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1.0, 0.5, 10**400])
    | _texts
    | st.binary(max_size=5)
    | st.builds(Sick)
    | st.builds(object)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2)
)
_codes = st.sampled_from([*Outcome, *map(int, Outcome), RETRY]) | junk
_verdicts = st.builds(Verdict, _codes, _texts | junk, st.none() | st.floats() | junk) | junk


def reports(targets: int, names: tuple[str, ...] = ("a", "b")) -> st.SearchStrategy[Any]:
    """Draw a channel's report of an envelope."""
    keys = st.integers(-1, targets + 1) | st.sampled_from(names) | junk.filter(_hashable)
    exceptions = st.none() | st.dictionaries(keys, _verdicts, max_size=4) | junk
    kinds = st.sampled_from([Report, OddReport])
    made = st.builds(lambda kind, verdict, found: kind(verdict, found), kinds, _verdicts, exceptions)
    return st.just(ALL_SENT) | made | _verdicts


def answers(targets: int) -> st.SearchStrategy[Any]:
    """Draw a channel's return value for two envelopes."""
    lists = st.lists(reports(targets), min_size=2, max_size=2) | st.lists(reports(targets), max_size=4)
    return lists | lists.map(tuple) | lists.map(iter) | reports(targets) | junk


def _hashable(value: Any) -> bool:
    return not isinstance(value, (list, dict, Sick))
