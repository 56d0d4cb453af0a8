"""A fold takes a bounded part of a topic in each call, and may be cut off between any two: all is counted once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import pytest
import redis

from backends.redis.client import Scripts
from backends.redis.view import RedisView
from dispatcher.fold_cost import CALL_COMMANDS
from dispatcher.model.errors import Unreachable
from dispatcher.wire.outcome import MAX_ENVELOPES, RETRY, ClaimsEnded, OutcomeRecord, encode_record
from quotas.fold import RedisFold
from tests.contract.ledger_worlds import LawWorld, ask_own, fold, mixed, outcomes, run

RETRIES = outcomes("t", *[mixed(i, [0, 1, RETRY], size=3) for i in range(MAX_ENVELOPES // 4)])
"""A record larger than workers write."""
SIZE = len(RETRIES.mixed)


def positions(records: Sequence[OutcomeRecord]) -> list[str]:
    return [f"{number:06d}" for number in range(1, len(records) + 1)]


@contextmanager
def cut_off(passing: int) -> Iterator[list[str]]:
    """Let some calls of the fold pass, and then none. Yields those that passed."""
    passed: list[str] = []
    call = Scripts.call

    def passing_call(scripts: Scripts, name: str, *args: Any) -> Any:
        if name == "fold":
            if len(passed) == passing:
                raise Unreachable("The cable was cut.", "Splice it.")
            passed.append(name)
        return call(scripts, name, *args)

    with patch.object(Scripts, "call", passing_call):
        yield passed


def fold_on(world: LawWorld, records: Sequence[OutcomeRecord]) -> None:
    """Fold what is behind the cursor, as the next worker would."""
    places = positions(records)
    cursor = world.fold.cursor(0)
    at = 0 if cursor is None else places.index(cursor) + 1
    bodies = [encode_record(record) for record in records[at:]]
    assert world.fold.apply(0, cursor, places[-1], bodies, places[at:]).applied


@pytest.mark.parametrize("passing", range(1, 8))
def test_a_worker_that_dies_between_two_calls_leaves_nothing_uncounted_or_counted_twice(
    live: LawWorld, passing: int
) -> None:
    records = [outcomes("t", run(SIZE, 10, size=3)), RETRIES, outcomes("t", run(SIZE + 10, 10, 1, size=3))]
    dying = RedisFold(live.view, live.place.lua)
    bodies = [encode_record(record) for record in records]
    with cut_off(passing) as passed, suppress(Unreachable):
        dying.apply(0, None, positions(records)[-1], bodies, positions(records))
    if len(passed) < 6:
        assert live.fold.cursor(0) in (None, *positions(records)[:2])
    assert len(passed) == min(passing, 6)
    if live.fold.cursor(0) != positions(records)[-1]:
        fold_on(live, records)
    assert live.counts("t") == {"sent": SIZE + 30, "invalid": SIZE + 30, "failed": 0, "expired": 0, "cancelled": 0}


def test_the_cursor_stays_before_a_record_until_its_last_part_is_folded(live: LawWorld) -> None:
    dying = RedisFold(live.view, live.place.lua)
    with cut_off(3) as passed, pytest.raises(Unreachable):
        dying.apply(0, None, "000001", [encode_record(RETRIES)], ["000001"])
    assert (len(passed), live.fold.cursor(0)) == (3, None)
    assert 0 < live.counts("t")["sent"] < SIZE


def test_tasks_that_end_in_an_early_call_are_named(world: LawWorld) -> None:
    for task in ("t", "u"):
        world.add(task)
    world.seal("t", 6)
    many = outcomes("u", *[mixed(i, [0, 1], size=2) for i in range(1_000)])
    assert fold(world, outcomes("t", run(0, 2, size=3)), many).finished == ["t"]


def test_a_copy_of_an_earlier_attempt_counts_only_what_is_open(live: LawWorld) -> None:
    first = mixed(0, [RETRY, RETRY, 0, RETRY, RETRY, RETRY], size=6)
    second = mixed(0, [0, RETRY, 1, RETRY, RETRY], size=6, attempt=1, positions=[0, 1, 3, 4, 5])
    other = mixed(0, [2, 2, 2, 2, RETRY, 2], size=6)
    fold(live, outcomes("t", first), outcomes("t", second), outcomes("t", other))
    assert live.counts("t") == {"sent": 2, "invalid": 1, "failed": 2, "expired": 0, "cancelled": 0}
    live.record("t", run(0, 1, 3, size=6))
    assert live.counts("t") == {"sent": 2, "invalid": 1, "failed": 2, "expired": 1, "cancelled": 0}


def test_a_record_of_scattered_envelopes_is_cut_out_of_a_claim_of_scattered_envelopes(live: LawWorld) -> None:
    live.lease(1, *[ask_own("t", 2 * i, 1, size=3) for i in range(40)])
    assert live.claims("t") == 1
    live.record("t", *[mixed(2 * i, [0, 1, 2], size=3) for i in reversed(range(39))])
    assert live.claims("t") == 1
    live.record("t", mixed(78, [0, 1, 2], size=3))
    assert live.claims("t") == 0


WORST = {
    "a mixed envelope each": [outcomes("t", *[mixed(2 * i, [0, RETRY], size=2) for i in range(4_000)])],
    "a writer each": [outcomes("t", *[mixed(1, [0, RETRY], writer=f"w{i}") for i in range(1_000)])],
    "a run each": [outcomes("t", *[run(2 * i, 1, size=2) for i in range(4_000)])],
    "a task each": [outcomes(f"t{i}", run(0, 1, size=2)) for i in range(1_000)],
    "second attempts": [
        outcomes("t", *[mixed(i, [RETRY, RETRY], size=2) for i in range(2_000)]),
        outcomes("t", *[mixed(i, [0, RETRY], size=2, attempt=1) for i in range(2_000)]),
        outcomes("t", run(0, 2_000, size=2)),
    ],
    "ends of claims": [ClaimsEnded(1, [f"w.{i}|t" for i in range(1_000)])],
}


@pytest.mark.parametrize("records", WORST.values(), ids=WORST)
def test_no_call_does_more_than_the_stated_number_of_commands(
    server_view: RedisView, records: list[OutcomeRecord]
) -> None:
    commands: list[int] = []
    call = Scripts.call

    def counted(*args: Any) -> Any:
        before = processed(server_view.client)
        answer = call(*args)
        commands.append(processed(server_view.client) - before)
        return answer

    with patch.object(Scripts, "call", counted):
        bodies = [encode_record(record) for record in records]
        RedisFold(server_view).apply(0, None, "9", bodies, positions(records))
    assert len(commands) > 1
    assert max(commands) <= CALL_COMMANDS


def processed(client: redis.Redis) -> int:
    """Commands that Redis has carried out, those of scripts included."""
    return sum(found["calls"] for found in client.info("commandstats").values())
