"""One call of the fold takes in a bounded part of an outcome topic."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.fold_cost import CALL_COST, cost_of, cut
from dispatcher.wire.outcome import FORMAT, ClaimsEnded, CloseTask, EpochMark, Mixed, Outcomes, Run, reads_back
from tests.records import outcomes


def envelopes(found: Outcomes) -> list[tuple[str, int, int, bytes]]:
    """Writer, attempt, sequence and codes of every envelope."""
    each = [(r.writer, r.attempt, r.first + i, bytes((r.code,)) * r.size) for r in found.runs for i in range(r.count)]
    return sorted([*each, *((m.writer, m.attempt, m.sequence, m.codes) for m in found.mixed)])


runs = st.builds(
    Run,
    writer=st.sampled_from("ab"),
    attempt=st.integers(0, 2),
    first=st.integers(0, 10_000),
    count=st.integers(1, 3_500),
    size=st.integers(0, 3),
    code=st.sampled_from([0, 1, 2]),
)
mixed = st.builds(
    Mixed,
    writer=st.sampled_from("ab"),
    attempt=st.integers(0, 2),
    sequence=st.integers(0, 10_000),
    size=st.just(2),
    positions=st.none(),
    codes=st.just(b"\x01\x09"),
)


@given(st.lists(runs, max_size=2), st.lists(mixed, max_size=10), st.integers(1, 300))
def test_no_part_costs_more_than_a_call_and_nothing_is_left_out(
    some_runs: list[Run], some_mixed: list[Mixed], times: int
) -> None:
    parts = list(cut(outcomes(*some_runs, *some_mixed * times)))
    assert all(cost_of(part) <= CALL_COST for part in parts)
    found = [one for part in parts for one in envelopes(cast("Outcomes", part))]
    assert sorted(found) == envelopes(outcomes(*some_runs, *some_mixed * times))
    assert all(reads_back(part) for part in parts)


def test_many_claims_end_in_several_calls() -> None:
    claims = [f"w.{number}|t" for number in range(23)]
    parts = list(cut(ClaimsEnded(FORMAT, claims)))
    assert [claim for part in parts for claim in cast("ClaimsEnded", part).claims] == claims
    assert all(cost_of(part) <= CALL_COST for part in parts)


@pytest.mark.parametrize("small", [CloseTask(FORMAT, "t", 4, 1), EpochMark(FORMAT, "e"), ClaimsEnded(FORMAT, [])])
def test_records_of_one_step_are_never_cut(small: CloseTask | EpochMark | ClaimsEnded) -> None:
    assert list(cut(small)) == [small]


def test_what_a_worker_writes_at_most_is_one_call() -> None:
    mixed_ones = [
        Mixed(writer="0", attempt=0, sequence=i, size=500, positions=None, codes=bytes(500)) for i in range(500)
    ]
    assert cost_of(outcomes(*mixed_ones)) <= CALL_COST
    many = [Run(writer="0", attempt=0, first=2 * i, count=1, size=500, code=0) for i in range(500)]
    assert cost_of(outcomes(*many)) <= CALL_COST
