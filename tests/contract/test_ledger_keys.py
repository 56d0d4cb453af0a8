"""Every key that leases make in Redis expires by itself when it is unused, or somebody takes it away."""

import pytest

from tests.contract.ledger_crowd import Backlog, add_tasks, assert_owned, assert_whole
from tests.contract.ledger_worlds import LawWorld, ask_shared, want


@pytest.fixture
def busy(world: LawWorld) -> LawWorld:
    tasks = [task for names in add_tasks(world, {"high": 2, "low": 2}).values() for task in names]
    world.add("small", "low", shared=True)
    for field, value in {"capacity": "1000", "cap:channel:null": "300", "sharing": "apps"}.items():
        world.set_global(field, value)
    Backlog(world=world, held={"a": tasks, "b": tasks}, period_ms={"a": 100, "b": 100}).run_until(1_000)
    world.lease(1, ask_shared(want("small", 0, 900)), worker="c")
    return world


def test_every_key_has_an_expiry_or_an_owner(busy: LawWorld) -> None:
    prefix, client = busy.view.keys.prefix, busy.view.client
    names = [key.decode().removeprefix(f"{prefix}:") for key in client.scan_iter(f"{prefix}:*")]
    assert {"pool:total", "pool:channel/null", "vt:total", "vt:channel/null", "demand_of", "parts"} <= set(names)
    assert_owned(busy)


def test_numbers_are_whole(busy: LawWorld) -> None:
    assert_whole(busy)
