"""Contents and size of a worker's outcome records."""

from dispatcher.fold_cost import CALL_COST, cost_of
from dispatcher.wire.outcome import Outcome, Report, Verdict, encode_record
from producers.outcomes.recorded import invalid_in
from tests.epoch_marks import read_marks
from tests.unit.engine_world import BUSY, EngineWorld


def test_one_record_covers_many_envelopes(world: EngineWorld) -> None:
    world.add_task("t", 1_000)
    world.worker()
    world.run_out("t")
    assert len(world.records()) <= 5
    assert sum(run.count for record in world.records() for run in record.runs) == 1_000
    assert all(record.mixed == [] for record in world.records())


def test_a_view_that_is_not_ready_is_not_sent_for(world: EngineWorld) -> None:
    world.add_task("t", 10)
    world.begin_view("new")
    worker = world.worker()
    world.run(within_s=10.0)
    assert world.provider_calls == []
    assert len(worker.leases.requests) < 12, "asks less and less often"
    read_marks(world, "new")
    world.sent_once("t", 10)


def test_no_record_is_more_than_one_call_of_the_fold_takes() -> None:
    world = EngineWorld(lambda _: BUSY)
    world.add_task("t", 3_000)
    world.worker(settle_linger_s=1.0, held_envelopes=5_000, quantum_targets=30)
    world.run_out("t")
    found = world.records()
    assert {mixed.attempt for record in found for mixed in record.mixed} == {0, 1, 2}
    assert max(map(cost_of, found)) <= CALL_COST
    assert 480 <= max(len(record.mixed) for record in found) <= 500


def test_nor_is_one_of_targets_closed_in_great_number(world: EngineWorld) -> None:
    world.add_task("t", 3_000, shared=True)
    world.worker(settle_linger_s=1.0)
    world.change("t", "cancelled", "1")
    world.run_out("t")
    assert max(sum(run.count for run in record.runs) for record in world.records()) == 500


# ------------------------------------------------------------------ what the journal is told
def test_records_that_name_every_target_are_cut_before_they_grow_too_large(world: EngineWorld) -> None:
    world.add_task("t", 400, chunk=4)
    world.worker(named_targets="all", settle_named_characters=100, settle_linger_s=1.0)
    world.run_out("t")
    found = world.records()
    named = [target for record in found for one in record.named for target in one.targets]
    assert len(named) == len(set(named)) == 400
    assert {record.app for record in found} == {"app"}
    assert all(sum(len(target) for one in record.named for target in one.targets) < 1_000 for record in found)


def test_no_invalid_target_is_left_out_however_many_there_are() -> None:
    """They were sent in one call, and are too long for one record."""
    task = "t" * 100
    world = EngineWorld(lambda _: Report(Verdict(int(Outcome.INVALID), "gone" * 50)))
    world.add_task(task, 10_000, chunk=500)
    world.worker(named_targets="none", settle_linger_s=1.0, quantum_targets=10_000)
    world.run_out(task)
    invalid = [one.target for record in world.records() for one in invalid_in(record)]
    assert len(invalid) == len(set(invalid)) == 10_000
    assert max(len(encode_record(record)) for record in world.records()) < 1_000_000


def test_targets_closed_in_great_number_are_not_named_in_one_record(world: EngineWorld) -> None:
    world.add_task("t", 3_000, chunk=10, shared=True)
    world.worker(named_targets="all", settle_named_characters=100)
    world.change("t", "cancelled", "1")
    world.run_out("t")
    found = world.records()
    named = [sum(len(one.targets) for one in record.named) for record in found]
    assert named == [sum(run.count * run.size for run in record.runs) for record in found]
    assert 0 < max(named) <= 500
