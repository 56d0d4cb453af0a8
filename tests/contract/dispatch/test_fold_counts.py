"""The fold: per target the first final outcome counts, whatever is doubled; the cursor keeps two folders apart."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.redis.registry.task_rows import TASK_VIEW
from dispatcher.ports import FoldResult
from dispatcher.wire.control import ControlRecord
from dispatcher.wire.lease import Closable, Status
from dispatcher.wire.outcome import (
    OUTCOME_NAMES,
    RETRY,
    CloseTask,
    EpochMark,
    Outcome,
    OutcomeRecord,
    Outcomes,
    encode_record,
)
from tests.contract.fold_records import SIZE, parts
from tests.contract.ledger_worlds import (
    TOPICS,
    LawWorld,
    Worlds,
    ask_own,
    fold,
    mixed,
    outcomes,
    run,
    statuses,
    task_record,
)
from tests.contract.registry_records import change, task_of
from tests.records import checkpoint


def truth(records: list[Outcomes]) -> dict[str, int]:
    """The first final outcome of each target."""
    first: dict[tuple[int, int], int] = {}
    for record in records:
        for part in record.runs:
            for sequence in range(part.first, part.first + part.count):
                for place in range(SIZE):
                    _note(first, (sequence, place), part.code)
        for one in record.mixed:
            for place, code in zip(one.positions or range(SIZE), one.codes, strict=False):
                _note(first, (one.sequence, place), code)
    counted = Counter(first.values())
    return {name: counted[code] for code, name in enumerate(OUTCOME_NAMES)}


def _note(first: dict[tuple[int, int], int], target: tuple[int, int], code: int) -> None:
    if code != RETRY:
        first.setdefault(target, code)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    records=st.lists(st.lists(parts(), min_size=1, max_size=4), min_size=1, max_size=8),
    doubled=st.lists(st.integers(0, 7), max_size=6),
    batch=st.integers(1, 5),
)
def test_the_first_final_outcome_counts_under_any_doubling(worlds: Worlds, records, doubled, batch: int) -> None:  # type: ignore[no-untyped-def]
    world = worlds()
    world.add("t")
    log = [outcomes("t", *some) for some in records]
    for index in doubled:
        log.insert(index, log[index % len(log)])
    for start in range(0, len(log), batch):
        fold(world, *log[start : start + batch])
    assert world.counts("t") == truth(log)


def test_the_rate_goes_on_when_the_clock_is_set_back(live: LawWorld) -> None:
    """Until the clock reached the time again, the rate stayed what it was."""
    for first in range(0, 4_000, 1_000):
        live.record("t", run(first, 1_000))
        live.advance(1_000)
    live.advance(-3_600_000)
    for first in range(4_000, 7_000, 100):
        live.record("t", run(first, 100))
        live.advance(1_000)
    assert 90 < float(live.view.command("HGET", live.view.keys.task("t"), "rate")) < 250


def test_a_final_envelope_is_dropped_and_others_not(live: LawWorld) -> None:
    live.record("t", run(0, 100), run(200, 1_000, Outcome.FAILED))
    answer = live.lease(1, ask_own("t", 0, 1_300))
    drop, granted = Status.DROP, Status.GRANTED
    assert statuses(answer) == [(drop, 100), (granted, 100), (drop, 1_000), (granted, 100)]


@pytest.mark.parametrize("first", [0, 1, 7, 8, 63])
@pytest.mark.parametrize("count", [1, 7, 8, 48, 49, 64, 200])
def test_ranges_are_exact_to_the_bit(live: LawWorld, first: int, count: int) -> None:
    live.record("t", run(first, count))
    answer = live.lease(1, ask_own("t", 0, first + count + 9))
    head = [(Status.GRANTED, first)] if first else []
    assert statuses(answer) == [*head, (Status.DROP, count), (Status.GRANTED, 9)]


def test_another_cursor_applies_nothing(live: LawWorld) -> None:
    body = encode_record(outcomes("t", run(0, 1)))
    assert live.fold.cursor(0) is None
    assert live.fold.apply(0, "elsewhere", "b", [body]) == FoldResult(applied=False, cursor="")
    assert live.fold.apply(0, None, "a", [body]) == FoldResult(applied=True, cursor="a")
    assert live.fold.apply(0, None, "b", [body]) == FoldResult(applied=False, cursor="a")
    assert live.fold.cursor(0) == "a"
    assert live.fold.cursor(1) is None
    assert live.counts("t")["sent"] == 1


def test_a_sealed_task_is_finished_with_its_last_target(live: LawWorld) -> None:
    assert live.record("t", run(0, 2, size=5)).finished == []
    live.seal("t", 15)
    assert live.record("t", mixed(2, [0, 0, RETRY, 0, 0])).finished == []
    last = outcomes("t", mixed(2, [Outcome.FAILED], attempt=1, size=5, positions=[2]))
    assert fold(live, last).finished == ["t"]
    assert live.counts("t") == {"sent": 14, "invalid": 0, "failed": 1, "expired": 0, "cancelled": 0}


def test_closing_an_unsealed_task_counts_what_is_published(live: LawWorld) -> None:
    live.record("t", run(0, 4))
    assert fold(live, CloseTask(1, "t", Outcome.CANCELLED, 5)).finished == ["t"]
    live.seal("t", 9)
    assert fold(live, CloseTask(1, "t", Outcome.CANCELLED, 5)).finished == ["t"]
    live.record("t", run(4, 3))
    assert live.counts("t") == {"sent": 4, "invalid": 0, "failed": 0, "expired": 0, "cancelled": 5}


@pytest.mark.parametrize("known", ["nothing", "the task", "a part of its audience"])
def test_a_close_that_a_rebuild_reads_before_the_control_topic_closes_all_that_is_published(
    world: LawWorld, known: str
) -> None:
    """A cancelled, unsealed task of which 100 of 5,000 had an outcome ends as cancelled, with all 5,000."""
    controls: list[ControlRecord] = [
        task_record("t"),
        checkpoint("t", 3, targets=300),
        change("t", "cancelled", "1"),
    ]
    world.restart_epoch(0)
    for record in controls[: ["nothing", "the task", "a part of its audience"].index(known)]:
        world.apply(record)
    assert fold(world, outcomes("t", run(0, 100)), CloseTask(1, "t", Outcome.CANCELLED, 5)).finished == []
    rest: list[ControlRecord] = [
        *controls,
        checkpoint("t", 50, targets=5_000),
        EpochMark(1, "again"),
    ]
    for record in rest:
        world.apply(record)
    for partition in range(TOPICS.outcome_partitions):
        fold(world, EpochMark(1, "again"), partition=partition)
    assert world.finisher.finish(["t"]) == []
    assert world.ledger.closable() == [Closable("t", Outcome.CANCELLED)]
    assert fold(world, CloseTask(1, "t", Outcome.CANCELLED, 5)).finished == ["t"]
    assert world.finisher.finish(["t"]) == ["t"]
    view = task_of(world.registry, "t")
    assert (view.state, view.targets.sent, view.targets.cancelled) == ("cancelled", 100, 4_900)


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "in two"])
def test_outcomes_before_a_close_count_and_those_behind_it_do_not(live: LawWorld, together: bool) -> None:
    live.seal("t", 10)
    log: list[OutcomeRecord] = [
        outcomes("t", run(0, 4)),
        CloseTask(1, "t", Outcome.CANCELLED, 5),
        outcomes("t", run(4, 3)),
    ]
    if together:
        fold(live, *log)
    else:
        for one in log:
            fold(live, one)
    assert {name: count for name, count in live.counts("t").items() if count} == {"sent": 4, "cancelled": 6}


def test_records_behind_a_close_end_the_claims_that_they_are_under(live: LawWorld) -> None:
    live.lease(1, ask_own("t", 0, 4))
    fold(live, CloseTask(1, "t", Outcome.CANCELLED, 5), outcomes("t", run(0, 2)))
    assert live.claims("t") == 1
    live.record("t", run(2, 1), mixed(3, [0]))
    assert live.claims("t") == 0


def test_a_task_shows_when_its_first_target_had_an_outcome(live: LawWorld) -> None:
    first = outcomes("t", mixed(0, [RETRY, 0]))
    fold(live, outcomes("t", mixed(1, [RETRY])), first)
    fold(live, outcomes("t", run(2, 3), at_ms=first.at_ms + 60_000))
    view = task_of(live.registry, "t")
    assert view.first_outcome_ms == first.at_ms


def test_a_task_closed_behind_its_last_checkpoint_has_no_fewer_targets_than_outcomes(live: LawWorld) -> None:
    live.apply(checkpoint("t", 1, targets=2))
    fold(live, outcomes("t", run(0, 5)), CloseTask(1, "t", Outcome.CANCELLED, 5))
    view = task_of(live.registry, "t")
    assert (view.targets.sent, view.targets.total, view.targets.pending) == (5, 5, 0)


def test_a_seal_that_comes_after_the_close_and_leaves_writers_out_holds_up_no_end(live: LawWorld) -> None:
    live.apply(checkpoint("t", 1, writer="s1", targets=10))
    assert fold(live, CloseTask(1, "t", Outcome.CANCELLED, 5)).finished == ["t"]
    live.seal("t", 4, ["s2"])
    assert live.ledger.closable() == []
    assert fold(live, CloseTask(1, "t", Outcome.CANCELLED, 5)).finished == ["t"]
    [view] = live.registry.tasks.named(["t"], TASK_VIEW)
    assert (view.targets.total, view.targets.cancelled, view.targets.pending) == (10, 10, 0)
    assert live.finisher.finish(["t"]) == ["t"]


def test_bytes_that_are_no_record_are_counted_and_passed_over(live: LawWorld) -> None:
    bodies = [b"\xc1", encode_record(outcomes("t", run(0, 1))), b""]
    result = live.fold.apply(0, None, "a", bodies, ["1", "2", "3"])
    assert result == FoldResult(applied=True, cursor="a")
    assert live.counts("t")["sent"] == 1
    assert live.stats()["malformed"] == 2


def test_large_envelopes_and_many_runs_in_one_record(live: LawWorld) -> None:
    runs = [run(first, 1, size=500) for first in range(0, 400, 2)]
    live.record("t", *runs, mixed(1, [0] * 250 + [RETRY] * 250))
    assert live.counts("t")["sent"] == 200 * 500 + 250
