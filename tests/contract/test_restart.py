"""After a restart of Redis, which may have lost the claims of its last second."""

from dispatcher.lease import Status
from dispatcher.outcome import EpochMark
from tests.contract.ledger_worlds import LawWorld, ask_own, fold, request, statuses, task_record

OWN_CLAIMS_MS = 13_000


def restart(world: LawWorld) -> str:
    """As if Redis had been started now, with its data. Return the id that the view has from then on."""
    args = [world.clock.wall_ms(), "another run", OWN_CLAIMS_MS]
    assert world.view.scripts.call("note_restart", [world.view.keys.prefix], args) == 1
    epoch: bytes | None = world.view.client.hget(world.view.keys.epoch, "id")
    assert epoch is not None
    return epoch.decode()


def read_to_the_mark(world: LawWorld, epoch: str) -> None:
    """All topics, as they are now."""
    world.apply(EpochMark(1, epoch))
    for partition in (0, 1):
        assert not world.ready()
        fold(world, EpochMark(1, epoch), partition=partition)
    assert world.ready()


def test_nothing_is_granted_until_the_longest_claim_that_any_worker_made_has_ended(world: LawWorld) -> None:
    """Workers have channels of their own: a claim is as long as the slowest takes."""
    world.apply(task_record("t"))
    for number, claim_ms in enumerate((5_000, 63_000, 13_000), 1):
        world.ledger.lease(request(number, ask_own("t", number, 1), claim_ms=claim_ms))
    read_to_the_mark(world, restart(world))
    world.advance(62_999)
    assert not world.ledger.lease(request(4, ask_own("t", 10, 1))).ready
    world.advance(1)
    assert statuses(world.ledger.lease(request(5, ask_own("t", 10, 1)))) == [(Status.GRANTED, 1)]


def test_nothing_is_granted_until_the_topics_are_read_as_far_as_they_went(world: LawWorld) -> None:
    world.apply(task_record("t"))
    epoch = restart(world)
    world.advance(OWN_CLAIMS_MS)
    assert not world.ledger.lease(request(1, ask_own("t", 0, 1))).ready
    read_to_the_mark(world, epoch)
    assert world.ledger.lease(request(2, ask_own("t", 0, 1))).ready


def test_a_restart_is_noted_once(world: LawWorld) -> None:
    """By each worker, whenever it notices: the later ones must not make the view wait again."""
    epoch = restart(world)
    args = [world.clock.wall_ms(), "another run", OWN_CLAIMS_MS]
    assert world.view.scripts.call("note_restart", [world.view.keys.prefix], args) == 0
    read_to_the_mark(world, epoch)
