"""The fold's scripts and the journal's rule count the same outcomes of the same records."""

from collections import Counter
from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.wire.outcome import OUTCOME_NAMES, RETRY, CloseTask, Named, Outcomes, Run
from spark_jobs.journal.first_outcomes import FirstOutcomes
from tests.contract.fold_records import SIZE, parts
from tests.contract.ledger_worlds import LawWorld, Worlds, fold, mixed, outcomes, run

TASKS = ("t", "u")
TARGETS = 12 * SIZE
AT_MS = 1_700_000_000_500
"""As all records here: a task that was not heard of for days is another one."""

FOR_THE_JOURNAL = {
    "app": "shop",
    "latency_ms": 1_234_567_890,
    "named": [
        Named(writer="0", attempt=0, sequence=4, positions=[1], targets=["tok\u00e9n"], reasons=["unregistered"]),
        Named(writer="0", attempt=0, sequence=5, positions=None, targets=["a", "b", "c"]),
    ],
}
"""Fields of which the fold takes no notice."""

parts_of_record = st.lists(parts(), min_size=1, max_size=4)
records = st.builds(
    lambda task, found, more: outcomes(task, *found, **more),
    st.sampled_from(TASKS),
    parts_of_record,
    st.sampled_from([{}, FOR_THE_JOURNAL]),
)
closes = st.builds(CloseTask, st.just(1), st.sampled_from(TASKS), st.sampled_from([3, 4]), st.just(AT_MS))


def journaled(log: list[Outcomes | CloseTask]) -> dict[str, Counter[str]]:
    """Targets by outcome as the journal has them: what is open at a close gets its outcome."""
    first, counts = FirstOutcomes(), {task: Counter[str]() for task in TASKS}
    for record in log:
        if isinstance(record, Outcomes):
            counts[record.task].update(OUTCOME_NAMES[code] for code in codes_of(first, record))
        elif first.close(record):
            counts[record.task][OUTCOME_NAMES[record.code]] += TARGETS - counts[record.task].total()
    return counts


def codes_of(first: FirstOutcomes, record: Outcomes) -> Iterator[int]:
    for piece in first.of(record):
        yield from [piece.code] * (piece.count * piece.size) if isinstance(piece, Run) else piece.codes


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=st.lists(records | closes, min_size=1, max_size=10), at_once=st.integers(1, 10))
def test_of_each_target_the_same_outcome_counts(worlds: Worlds, log: list[Outcomes | CloseTask], at_once: int) -> None:
    world = worlds()
    for task in TASKS:
        world.add(task)
        world.seal(task, TARGETS)
    for start in range(0, len(log), at_once):
        fold(world, *log[start : start + at_once])
    assert {task: Counter(world.counts(task)) for task in TASKS} == journaled(log)


def test_an_attempt_that_is_tried_again_has_no_outcome_yet(live: LawWorld) -> None:
    log: list[Outcomes | CloseTask] = [
        outcomes("t", mixed(3, [0, RETRY, 1, RETRY])),
        outcomes("t", run(3, 1, 2, size=4)),
        outcomes("t", mixed(3, [1, 0], attempt=1, size=4, positions=[1, 3])),
    ]
    fold(live, *log)
    assert Counter(live.counts("t")) == journaled(log)["t"] == Counter(sent=1, invalid=1, failed=2)
