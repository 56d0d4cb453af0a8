"""A view holds the tasks of which live workers have yet to record what they sent before it began."""

from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import ClaimsEnded
from tests.contract.ledger_worlds import LawWorld, ask_own, change, fold, request, sealed, statuses, task_record

GRANTED, HELD = Status.GRANTED, Status.HELD


def hold_unrecorded(world: LawWorld, task: str) -> None:
    """Let worker `a` report outcomes of the task that no topic has, of claims of the view before."""
    now_ms = world.clock.wall_ms()
    world.restart_epoch(now_ms)
    world.view.client.hset(world.view.keys.epoch, "started_ms", now_ms)
    world.beat("a", {"unrecorded": {"since_ms": 1, "targets": 1, "tasks": [task]}})
    world.view.client.hset(world.view.keys.unrecorded, task, "|a|")


def end_due_claims(world: LawWorld) -> list[str]:
    """Fold the ends of all claims that are due."""
    ended = [(partition, member) for partition, due in world.ledger.due_claims().items() for member in due]
    for partition, member in ended:
        fold(world, ClaimsEnded(1, [member]), partition=partition)
    return [member for _, member in ended]


def make_ready(world: LawWorld) -> None:
    world.view.client.hset(world.view.keys.epoch, "ready", "1")


def test_a_new_view_holds_a_task_until_the_fold_has_read_what_live_workers_had_yet_to_record(world: LawWorld) -> None:
    """The record is stored, and the heartbeat no longer reports it, before the fold has read it."""
    for task in "tu":
        world.apply(task_record(task))
    hold_unrecorded(world, "t")
    make_ready(world)
    found = world.ledger.lease(request(1, ask_own("t", 0, 1), ask_own("u", 0, 1)))
    assert [statuses(found, 0), statuses(found, 1)] == [[(HELD, 1)], [(GRANTED, 1)]]
    assert end_due_claims(world) == []
    world.beat("a")
    ((partition, due),) = world.ledger.due_claims().items()
    assert statuses(world.ledger.lease(request(2, ask_own("t", 0, 1)))) == [(HELD, 1)]
    fold(world, ClaimsEnded(1, due), partition=partition)
    assert statuses(world.ledger.lease(request(3, ask_own("t", 0, 1)))) == [(GRANTED, 1)]


def test_a_new_view_holds_a_task_no_longer_than_the_worker_lives(world: LawWorld) -> None:
    world.apply(task_record("t"))
    hold_unrecorded(world, "t")
    make_ready(world)
    world.advance(5_000)
    assert end_due_claims(world) == []
    world.advance(1)
    assert len(end_due_claims(world)) == 1
    assert statuses(world.ledger.lease(request(1, ask_own("t", 0, 1)))) == [(GRANTED, 1)]


def test_what_ended_the_hold_of_an_older_view_does_not_end_that_of_this_one(world: LawWorld) -> None:
    """A view that is made again from the topics reads it again."""
    world.apply(task_record("t"))
    hold_unrecorded(world, "t")
    world.beat("a")
    ((partition, older),) = world.ledger.due_claims().items()
    world.advance(1_000)
    hold_unrecorded(world, "t")
    make_ready(world)
    fold(world, ClaimsEnded(1, older), partition=partition)
    assert statuses(world.ledger.lease(request(1, ask_own("t", 0, 1)))) == [(HELD, 1)]


def test_a_cancelled_task_is_not_closed_while_a_live_worker_has_yet_to_record_it(world: LawWorld) -> None:
    world.apply(task_record("t"))
    world.apply(sealed("t", 1))
    world.apply(change("t", "cancelled", "1"))
    hold_unrecorded(world, "t")
    assert world.ledger.closable() == []
    world.beat("a")
    end_due_claims(world)
    assert [found.task for found in world.ledger.closable()] == ["t"]
