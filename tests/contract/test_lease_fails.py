"""A lease script that fails half-way takes back what it has done: a script is not rolled back."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dispatcher.model.errors import FairlaneError
from dispatcher.wire.lease import GivenBack, LaneAsk, Status
from dispatcher.wire.outcome import RETRY
from tests.contract.ledger_crowd import assert_tallied
from tests.contract.ledger_worlds import LawWorld, ask, ask_own, ask_retry, mixed, own_lane, statuses, want

GRANTED = Status.GRANTED


@contextmanager
def foreign(world: LawWorld, key: str) -> Iterator[None]:
    """A key of another type makes a command fail, early or late in the script."""
    client, name, kept = world.view.client, f"{world.view.keys.prefix}:{key}", "law-kept"
    was_there = bool(client.exists(name)) and bool(client.rename(name, kept))
    client.set(name, "foreign")
    yield
    client.delete(name)
    if was_there:
        client.rename(kept, name)


def a_world(world: LawWorld) -> LawWorld:
    """Its pool has some credit: the first call opens it."""
    world.set_capacity(1_000)
    for task in ("t", "other"):
        world.add(task)
    world.lease(1, ask_own("t", 100, 3))
    world.advance(1_000)
    return world


@pytest.mark.parametrize("key", ["open:t", "demand", "demand_of", "pool:total", "vt:total", "claims"])
def test_nothing_of_a_call_that_failed_is_claimed_or_counted(world: LawWorld, key: str) -> None:
    world = a_world(world)
    assert world.statuses(2, ask_own("t", 100, 3)) == [(GRANTED, 3)]
    world.record("t", mixed(50, [0, RETRY], size=2))
    lanes = [
        ask_own("other", 0, 4),
        ask(own_lane("t"), want("t", 0, 5), want("t", 3, 4)),
        ask_retry(want("t", 50, 1, attempt=1)),
        ask(own_lane("t"), want("t", 100, 1)),
    ]
    with foreign(world, key), pytest.raises(FairlaneError, match="WRONGTYPE"):
        world.lease(3, *lanes)
    assert world.claims("other") == 0
    assert world.claims("t") == 1
    assert_tallied(world)
    assert granted_to_another(world, *lanes[:3]) == [4, 7, 1]
    assert_tallied(world)


@pytest.mark.parametrize("key", ["open:t", "demand", "pool:total", "vt:total"])
def test_credit_returned_in_a_call_that_failed_is_free_or_still_claimed(world: LawWorld, key: str) -> None:
    world = a_world(world)
    assert world.statuses(2, ask_own("t", 0, 5)) == [(GRANTED, 5)]
    back = GivenBack(claim="w.2", lane=own_lane("t"), task="t", writer="0", attempt=0, first=0, count=5, size=1)
    with foreign(world, key), pytest.raises(FairlaneError, match="WRONGTYPE"):
        world.lease(3, ask_own("t", 5, 1), given_back=[back])
    assert_tallied(world)
    world.lease(4, given_back=[back])
    assert_tallied(world)
    assert granted_to_another(world, ask_own("t", 0, 6)) == [6]
    assert world.claims("t") == 1


def granted_to_another(world: LawWorld, *lanes: LaneAsk) -> list[int]:
    """Envelopes of each lane granted to another worker within a second."""
    granted = [0] * len(lanes)
    for number in range(1, 5):
        answer = world.lease(number, *lanes, worker="other")
        for place, lane in enumerate(lanes):
            pieces = [piece for wanted in range(len(lane.wants)) for piece in statuses(answer, place, wanted)]
            granted[place] += sum(count for status, count in pieces if status == GRANTED)
        world.advance(250)
    return granted
