"""A task that an operator closes ends, whatever holds its end up: claims that do not end, or an outcome topic that is
not read."""

import pytest

from backends.redis.registry.task_rows import IDLE_TASK
from dispatcher.wire.control import ControlChange, Finished, decode_control
from dispatcher.wire.lease import Closable, Status
from dispatcher.wire.outcome import CloseTask, Outcome, OutcomeRecord, decode_record
from lab.simulator.logs import position
from tests.contract.ledger_worlds import LawWorld, ask_own, in_process_worlds, outcomes, run
from tests.contract.registry_records import change, task_of
from tests.epoch_marks import read_marks

WHY = "envelopes were lost"


def claimed(world: LawWorld, *controls: ControlChange) -> None:
    """Ten targets, four of them claimed by a worker that has not recorded what became of them."""
    world.add("t")
    world.seal("t", 10)
    assert world.statuses(1, ask_own("t", 0, 4)) == [(Status.GRANTED, 4)]
    for control in controls:
        world.apply(control)


def close(world: LawWorld, reason: str = WHY) -> None:
    """Store the records of `fairlane task close`."""
    world.change("t", "stopped", reason)
    world.change("t", "close", reason)


def read_all(world: LawWorld) -> list[OutcomeRecord]:
    return [decode_record(body) for _, body in world.outcomes.read(world.topics.partition_of("t"), None)]


def keep_house(world: LawWorld, seconds: int) -> None:
    """Do the elected worker's jobs in that time, except for reading outcome topics."""
    for _ in range(seconds):
        world.closing.close_tasks()
        world.finisher.finish(["t"])
        world.advance(1_000)


def end_of(world: LawWorld) -> tuple[str, str, int, int]:
    view = task_of(world.registry, "t")
    assert view.ended
    return view.state, view.reason, view.targets.sent, view.targets.cancelled


def test_a_closed_task_waits_for_claims_that_end_by_themselves(world: LawWorld) -> None:
    claimed(world)
    close(world)
    assert world.statuses(2, ask_own("t", 4, 6)) == [(Status.PARKED, 6)]
    assert world.ledger.closable() == [Closable("t", Outcome.CANCELLED, WHY, closed=True, waits=True)]
    keep_house(world, 10)
    assert read_all(world) == []
    world.store(outcomes("t", run(0, 4)))
    world.fold_outcomes()
    keep_house(world, 1)
    world.fold_outcomes()
    keep_house(world, 1)
    assert end_of(world) == ("failed", WHY, 4, 6)


def test_a_claim_that_does_not_end_holds_no_closed_task_up_and_what_it_records_later_is_a_repeat(
    world: LawWorld,
) -> None:
    """A worker that beats and cannot record keeps its claims, and so a cancelled task alive."""
    claimed(world, change("t", "cancelled", "1"))
    assert world.ledger.closable() == []
    close(world)
    keep_house(world, 17)
    world.fold_outcomes()
    keep_house(world, 1)
    assert end_of(world) == ("failed", WHY, 0, 10)
    world.store(outcomes("t", run(0, 4)))
    world.fold_outcomes()
    assert end_of(world) == ("failed", WHY, 0, 10)
    assert (world.stats()["repeats"], world.claims("t")) == (4, 0)
    assert world.statuses(2, ask_own("t", 0, 10)) == [(Status.DROP, 10)]


def test_a_closed_task_ends_without_its_outcome_topic(world: LawWorld) -> None:
    """Outcomes recorded there and not read end as cancelled, even if they are read later: the tombstone counts."""
    claimed(world)
    close(world)
    world.store(outcomes("t", run(0, 4)))
    keep_house(world, 40)
    assert end_of(world) == ("failed", WHY, 0, 10)
    world.fold_outcomes()
    assert end_of(world) == ("failed", WHY, 0, 10)


def test_the_first_end_in_the_topic_counts_and_a_second_close_changes_nothing(world: LawWorld) -> None:
    claimed(world)
    close(world)
    close(world, "another reason")
    keep_house(world, 40)
    close(world, "another reason")
    keep_house(world, 40)
    assert end_of(world) == ("failed", WHY, 0, 10)
    assert [type(decode_control(body)) for body in world.control.records].count(Finished) == 1


def test_a_close_that_comes_with_the_last_outcome_changes_nothing(live: LawWorld) -> None:
    live.seal("t", 4)
    live.store(outcomes("t", run(0, 4)))
    live.fold_outcomes()
    close(live)
    keep_house(live, 40)
    assert end_of(live) == ("completed", "", 4, 0)


@pytest.mark.parametrize("ended", [False, True])
def test_a_view_made_again_has_the_same_end(world: LawWorld, ended: bool) -> None:
    """Also if it is made again between the close in the outcome topic and the tombstone."""
    claimed(world, change("t", "cancelled", "1"))
    close(world)
    keep_house(world, 17)
    world.store(outcomes("t", run(0, 4)))
    if ended:
        world.fold_outcomes()
        keep_house(world, 1)
    world.view.wipe()
    world.advance(0)
    world.restart_epoch(0)
    for index, body in enumerate(list(world.control.records)):
        world.read_control(position(index), decode_control(body))
    read_marks(world, "again")
    keep_house(world, 1)
    assert end_of(world) == ("failed", WHY, 0, 10)


def test_a_claim_that_was_deleted_ends_like_others(world: LawWorld) -> None:
    """An operator's DEL, or an eviction: the task was never closed, since it counted a claim for ever."""
    claimed(world, change("t", "cancelled", "1"))
    world.view.client.delete(world.view.keys.claim("w.1", "t"))
    world.closing.end_claims()
    world.advance(5_000)
    world.closing.end_claims()
    world.fold_outcomes()
    assert (world.claims("t"), world.view.client.zcard(world.view.keys.claims)) == (0, 0)
    assert world.ledger.closable() == [Closable("t", Outcome.CANCELLED)]


def test_the_outcome_topic_says_why_a_task_was_closed(world: LawWorld) -> None:
    claimed(world)
    close(world)
    keep_house(world, 17)
    closes = [record for record in read_all(world) if isinstance(record, CloseTask)]
    assert [(one.code, one.reason) for one in closes] == [(Outcome.CANCELLED, WHY)]


def test_how_long_nothing_has_happened_to_a_task_is_known() -> None:
    world = in_process_worlds()()  # a server's registry has its own clock
    world.add("t", created_ms=world.clock.wall_ms(), expires_ms=world.clock.wall_ms() + 100_000)
    world.seal("t", 10)
    world.advance(20_000)
    assert [(one.task.id, one.idle_ms) for one in world.registry.tasks.live(IDLE_TASK)] == [("t", 20_000)]
    world.lease(1, ask_own("t", 0, 4))
    world.advance(5_000)
    assert [one.idle_ms for one in world.registry.tasks.live(IDLE_TASK)] == [5_000]
    world.store(outcomes("t", run(0, 4)))
    world.fold_outcomes()
    world.advance(3_000)
    assert [one.idle_ms for one in world.registry.tasks.live(IDLE_TASK)] == [3_000]
    world.advance(91_000)
    assert [one.idle_ms for one in world.registry.tasks.live(IDLE_TASK)] == [19_000]
