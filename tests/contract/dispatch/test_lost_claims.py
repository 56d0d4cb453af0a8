"""Claims that something deleted from Redis: what they held is granted again, once all that was recorded is read."""

import pytest

from dispatcher.wire.lease import Status
from dispatcher.wire.outcome import RETRY
from tests.contract.ledger_worlds import LawWorld, ask_own, ask_retry, mixed, outcomes, run, statuses, want

GRANTED, HELD, DROP = Status.GRANTED, Status.HELD, Status.DROP


def lose_claims(world: LawWorld, *names: str) -> None:
    """A sweep of an operator, or of a Redis that evicts keys."""
    world.view.client.delete(*(world.view.keys.claim(name, "t") for name in names))


def pass_time(world: LawWorld, ms: int) -> None:
    world.closing.end_claims()
    world.advance(ms)
    world.closing.end_claims()
    world.fold_outcomes()


def lost(world: LawWorld) -> LawWorld:
    """Ten of twenty envelopes were claimed. Four of these are recorded, one of them to be tried again."""
    world.add("t")
    world.seal("t", 20)
    assert world.statuses(1, ask_own("t", 2, 10)) == [(GRANTED, 10)]
    world.store(outcomes("t", run(3, 3), mixed(8, [RETRY])))
    world.fold_outcomes()
    lose_claims(world, "w.1")
    pass_time(world, 4_000)
    return world


def test_envelopes_whose_claim_was_deleted_are_granted_again_and_no_others(world: LawWorld) -> None:
    """They were held for ever."""
    lost(world)
    assert world.claims("t") == 0
    assert world.statuses(2, ask_own("t", 2, 1)) == [(HELD, 1)]
    assert world.ledger.claim_lost() == 6
    assert world.ledger.claim_lost() == 0
    assert world.statuses(3, ask_own("t", 2, 1)) == [(HELD, 1)]
    pass_time(world, 4_000)
    answer = world.lease(4, ask_own("t", 2, 10))
    assert statuses(answer) == [(GRANTED, 1), (DROP, 3), (GRANTED, 2), (Status.REPUBLISH, 1), (GRANTED, 3)]
    assert world.ledger.claim_lost() == 0


def test_what_its_worker_recorded_meanwhile_is_not_granted_again(world: LawWorld) -> None:
    lost(world)
    world.ledger.claim_lost()
    world.store(outcomes("t", run(2, 1), run(9, 3)))
    pass_time(world, 4_000)
    answer = world.lease(2, ask_own("t", 2, 10))
    assert statuses(answer) == [(DROP, 4), (GRANTED, 2), (Status.REPUBLISH, 1), (DROP, 3)]


def test_a_later_attempt_whose_claim_was_deleted_is_granted_again(world: LawWorld) -> None:
    lost(world)
    world.ledger.claim_lost()
    pass_time(world, 4_000)
    again = ask_retry(want("t", 8, 1, attempt=1))
    assert world.statuses(2, again) == [(GRANTED, 1)]
    lose_claims(world, "w.2")
    pass_time(world, 4_000)
    assert world.statuses(3, again) == [(HELD, 1)]
    assert world.ledger.claim_lost() == 1
    pass_time(world, 4_000)
    assert world.statuses(4, again) == [(GRANTED, 1)]


def test_nothing_is_swept_of_a_task_that_has_claims_in_force(world: LawWorld) -> None:
    lost(world)
    assert world.statuses(2, ask_own("t", 15, 2)) == [(GRANTED, 2)]
    assert world.ledger.claim_lost() == 0
    world.store(outcomes("t", run(15, 2), claim="w.2"))
    world.fold_outcomes()
    assert world.ledger.claim_lost() == 6


@pytest.mark.parametrize("writers", [("0",), ("a", "b")])
def test_a_large_task_is_swept_in_bounded_calls(world: LawWorld, writers: tuple[str, ...]) -> None:
    world.add("t", chunk=3)
    world.seal("t", 600_000, writers)
    client, keys = world.view.client, world.view.keys
    for writer in writers:
        client.setbit(keys.touched("t", writer), 7, 1)
        client.setbit(keys.touched("t", writer), 120_000, 1)
    assert world.ledger.claim_lost() == 2 * len(writers)
    assert world.claims("t") == 1
    world.view.command("HSET", keys.epoch, "claim_ms", 0)
    pass_time(world, 4_000)
    assert [client.bitcount(keys.touched("t", writer)) for writer in writers] == [0] * len(writers)
    assert world.claims("t") == 0
