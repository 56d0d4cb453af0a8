"""Targets that a cancel cannot stop, as the registry counts them from the claims."""

from dispatcher.wire.outcome import RETRY
from tests.contract.ledger_worlds import LawWorld, ask_own, ask_retry, mixed, run, want


def test_targets_under_claims_are_counted_until_they_are_recorded(world: LawWorld) -> None:
    world.add("t", chunk=10)
    world.add("other", chunk=10)
    world.seal("t", 45)
    in_flight = world.registry.tasks.in_flight
    assert in_flight(["t", "nobody"]) == {"t": (0, 0, 0)}
    world.lease(1, ask_own("t", 0, 3, size=10), ask_own("other", 0, 1, size=10))
    world.lease(1, ask_own("t", 3, 1, size=10), ask_own("t", 4, 1, size=5), worker="v")
    assert in_flight(["t", "other"]) == {"t": (45, 2, 0), "other": (10, 1, 0)}
    world.change("t", "cancelled", "1")
    world.lease(2, ask_own("t", 3, 2, size=10))
    world.record("t", run(0, 3, size=10))
    assert in_flight(["t"]) == {"t": (15, 1, 30)}
    world.record("t", run(3, 1, size=10), run(4, 1, size=5), claim="v.1")
    assert in_flight(["t"]) == {"t": (0, 0, 45)}


def test_of_further_attempts_the_open_targets_are_counted(world: LawWorld) -> None:
    world.add("t", chunk=10)
    world.record("t", mixed(0, [RETRY, 0, RETRY]))
    world.lease(1, ask_retry(want("t", 0, 1, attempt=1, size=2)))
    assert world.registry.tasks.in_flight(["t"]) == {"t": (2, 1, 1)}


def test_what_is_claimed_without_a_lease_is_not_sent(world: LawWorld) -> None:
    world.add("t", "low", shared=True, chunk=10)
    world.change("t", "cancelled", "1")
    world.record("t", mixed(0, [RETRY]))
    world.lease(1, ask_retry(want("t", 0, 1, attempt=1), tier="low"))
    assert world.registry.tasks.in_flight(["t"]) == {"t": (0, 1, 0)}
