"""A worker is stopped between each two of its steps, and another one finishes: one outcome each, no needless call."""

import pytest

from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import RETRY, Outcome, Outcomes, Report, Verdict, decode_record
from producers.outcomes.recorded import invalid_in
from tests.unit.engine_world import EngineWorld, Worker
from tests.unit.tripwire import Crash

TRY_AGAIN = Verdict(RETRY, "busy")
BAD = Verdict(int(Outcome.FAILED), "a sensitive word")
GONE = Verdict(int(Outcome.INVALID), "no such device")

Call = tuple[str, int, int]
"""Task, sequence, attempt."""


def provider(envelope: Envelope) -> Report:
    """The second target is accepted at the second attempt only, the third fails, and the fourth is invalid."""
    exceptions = {}
    for index, target in enumerate(envelope.targets):
        if target.endswith(":1") and envelope.attempt == 0:
            exceptions[index] = TRY_AGAIN
        if target.endswith(":2"):
            exceptions[index] = BAD
        if target.endswith(":3"):
            exceptions[index] = GONE
    return Report(exceptions=exceptions)


def recorded(world: EngineWorld) -> set[Call]:
    found: set[Call] = set()
    for partition in world.outcomes.partitions.values():
        for record in map(decode_record, partition):
            if isinstance(record, Outcomes):
                found |= {(record.task, mixed.sequence, mixed.attempt) for mixed in record.mixed}
                for run in record.runs:
                    found |= {(record.task, run.first + i, run.attempt) for i in range(run.count)}
    return found


def called(world: EngineWorld) -> list[Call]:
    return [(envelope.task, envelope.sequence, envelope.attempt) for envelope in world.provider_calls]


def crash_at(step: int, *, lose_receipts: int) -> tuple[EngineWorld, Worker]:
    """Runs a world whose first worker dies at the given step; the second comes then."""
    world = EngineWorld(provider)
    world.add_task("own", 5, chunk=3)
    world.add_task("shared", 2, chunk=1, shared=True)
    world.outcomes.receipts.lose = lose_receipts
    first = world.worker()
    first.wire.dies_at = step
    world.run(lambda: not first.alive or (world.finished("own", "shared") and world.settled()), within_s=60)
    excused = set(called(world)) - recorded(world)
    world.worker()
    world.run_out("own", "shared", within_s=120)
    repeats = {call for call in called(world) if called(world).count(call) > 1}
    assert repeats <= excused, f"called twice without excuse after a stop at step {step}"
    return world, first


def steps_of_a_run(lose_receipts: int = 0) -> int:
    _, first = crash_at(-1, lose_receipts=lose_receipts)
    return first.wire.steps


def check(world: EngineWorld) -> None:
    assert world.counts("own") == {"sent": 3, "failed": 1, "invalid": 1}
    assert world.counts("shared") == {"sent": 2}


@pytest.mark.parametrize("lose_receipts", [0, 1])
def test_a_worker_stopped_at_any_step_changes_nothing(lose_receipts: int) -> None:
    steps = steps_of_a_run(lose_receipts)
    assert steps > 20
    for step in range(1, steps + 1):
        world, first = crash_at(step, lose_receipts=lose_receipts)
        assert not first.alive, f"no step {step}"
        check(world)
        letters = {(letter.task, position) for letter in world.dead_letters.letters for position in letter.positions}
        assert letters == {("own", 2)}
        assert {one.target for record in world.records() for one in invalid_in(record)} == {"own:3"}


def two_crashes_at(step: int) -> EngineWorld:
    world = EngineWorld(provider)
    world.add_task("own", 5, chunk=3, max_attempts=5)  # a claim of a dead worker costs a try
    world.add_task("shared", 2, chunk=1, shared=True)
    for _ in range(2):
        worker = world.worker()
        worker.wire.dies_at = step
        world.run(lambda: not worker.alive or world.settled(), within_s=120)  # noqa: B023
    world.worker()
    world.run_out("own", "shared", within_s=120)
    return world


def test_two_workers_stopped_one_after_the_other() -> None:
    for step in range(1, steps_of_a_run() + 1, 2):
        check(two_crashes_at(step))


def kills(_: Envelope) -> Report:
    """A provider whose call ends the worker."""
    raise Crash


@pytest.mark.parametrize("max_attempts", [1, 3])
def test_an_envelope_that_kills_its_worker_ends(max_attempts: int) -> None:
    world = EngineWorld(kills)
    world.add_task("fatal", 2, chunk=2, max_attempts=max_attempts)
    for _ in range(max_attempts + 1):
        worker = world.worker()
        world.run(lambda: not worker.alive or world.finished("fatal"), within_s=60)  # noqa: B023
    world.run_out("fatal")
    assert [worker.alive for worker in world.workers] == [False] * max_attempts + [True]
    assert world.counts("fatal") == {"failed": 2}
    assert world.stats()["repeats_possible"] == 2 * max_attempts, "counted in targets"
    (letter,) = world.dead_letters.letters
    assert letter.reasons == ["unknown: its worker ended or stalled before it recorded an outcome"] * 2


def test_what_may_have_been_sent_is_given_up_if_the_task_wishes_so() -> None:
    world = EngineWorld(kills)
    world.add_task("t", 2, chunk=2, gives_up_unknown=True)
    worker = world.worker()
    world.run(lambda: not worker.alive)
    world.worker()
    world.run_out("t")
    assert world.counts("t") == {"failed": 2}
    assert len(world.provider_calls) == 1


def test_a_worker_that_stood_still_past_its_claim_adds_no_second_outcome(world: EngineWorld) -> None:
    world.add_task("t", 20, seal=False)
    sleeper = world.worker()
    sleeper.courier.paused.add("null")
    sleeper.work()
    sleeper.courier.answer()  # The provider is called; then the process is stopped, its connection lost.
    world.broker.take_away(world.topics.own_lane("t"))
    world.workers.remove(sleeper)
    world.worker()
    world.run(lambda: world.counts("t") == {"sent": 20} and world.settled())
    assert set(world.calls.values()) == {2}
    world.workers.append(sleeper)
    world.run(within_s=30.0)
    assert world.counts("t") == {"sent": 20}
    assert world.stats().get("repeats", 0) == 20
    assert world.settled()
