"""A view holds the tasks of which live workers have yet to record what they sent before it began."""

from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import ClaimsEnded
from tests.contract.ledger_worlds import LawWorld, ask_own, fold, statuses

GRANTED, HELD = Status.GRANTED, Status.HELD


def hold_unrecorded(world: LawWorld) -> None:
    """Let worker `a` report outcomes of task t that no topic has, of claims of the view before."""
    now_ms = world.clock.wall_ms()
    world.restart_epoch(now_ms)
    world.view.client.hset(world.view.keys.epoch, "started_ms", now_ms)
    world.beat("a", {"unrecorded": {"since_ms": 1, "targets": 1, "tasks": ["t"]}})
    world.view.client.hset(world.view.keys.unrecorded, "t", "|a|")


def make_ready(world: LawWorld) -> None:
    world.view.client.hset(world.view.keys.epoch, "ready", "1")


def test_a_new_view_holds_a_task_until_the_fold_has_read_what_live_workers_had_yet_to_record(world: LawWorld) -> None:
    """The record is stored, and the heartbeat no longer reports it, before the fold has read it."""
    for task in "tu":
        world.add(task)
    hold_unrecorded(world)
    make_ready(world)
    found = world.lease(1, ask_own("t", 0, 1), ask_own("u", 0, 1))
    assert [statuses(found, 0), statuses(found, 1)] == [[(HELD, 1)], [(GRANTED, 1)]]
    assert world.end_claims() == []
    world.beat("a")
    ((partition, due),) = world.ledger.due_claims().items()
    assert world.statuses(2, ask_own("t", 0, 1)) == [(HELD, 1)]
    fold(world, ClaimsEnded(1, due), partition=partition)
    assert world.statuses(3, ask_own("t", 0, 1)) == [(GRANTED, 1)]


def test_a_new_view_holds_a_task_no_longer_than_the_worker_lives(live: LawWorld) -> None:
    hold_unrecorded(live)
    make_ready(live)
    live.advance(5_000)
    assert live.end_claims() == []
    live.advance(1)
    assert len(live.end_claims()) == 1
    assert live.statuses(1, ask_own("t", 0, 1)) == [(GRANTED, 1)]


def test_what_ended_the_hold_of_an_older_view_does_not_end_that_of_this_one(live: LawWorld) -> None:
    """A view that is made again from the topics reads it again."""
    hold_unrecorded(live)
    live.beat("a")
    ((partition, older),) = live.ledger.due_claims().items()
    live.advance(1_000)
    hold_unrecorded(live)
    make_ready(live)
    fold(live, ClaimsEnded(1, older), partition=partition)
    assert live.statuses(1, ask_own("t", 0, 1)) == [(HELD, 1)]


def test_a_cancelled_task_is_not_closed_while_a_live_worker_has_yet_to_record_it(live: LawWorld) -> None:
    live.seal("t", 1)
    live.change("t", "cancelled", "1")
    hold_unrecorded(live)
    assert live.ledger.closable() == []
    live.beat("a")
    live.end_claims()
    assert [found.task for found in live.ledger.closable()] == ["t"]
