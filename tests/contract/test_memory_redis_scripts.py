"""Every script leaves and answers in the Redis in memory what it does in a real one, whatever it is asked."""

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from tests.contract.law_service import check
from tests.contract.ledger_crowd import Backlog, add_tasks
from tests.contract.ledger_twins import Twins
from tests.contract.ledger_worlds import Worlds, in_process_worlds
from tests.contract.memory_twins import contents_of

CHOSEN_BY_THE_SERVER = (b":test-clock", b":feed")
"""Ends of keys that hold times of the server's own."""


class ServerTwins(Twins):
    """The same, over a real server and over one in memory."""

    @invariant()
    def hold_alike(self) -> None:
        memory, real = (contents(world) for world in self.pair)
        assert memory == real


def contents(world: Any) -> dict[bytes, Any]:
    found = contents_of(world.view.client, f"{world.view.keys.prefix}:*")
    epoch = found[world.view.keys.epoch.encode()][1]
    for of_the_server in (b"run_id", b"started_ms", b"waits_from_ms", b"address"):
        epoch.pop(of_the_server)
    return {key: value for key, value in found.items() if not key.endswith(CHOSEN_BY_THE_SERVER)}


def test_scripts_answer_and_leave_alike(real_worlds: Worlds, test_lua: Path) -> None:
    reference = {"reference": staticmethod(in_process_worlds(lua=test_lua))}
    check(type("ServerTwinsHere", (ServerTwins,), reference), real_worlds, examples=40, steps=40)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 1_000),
    envelope=st.sampled_from([1, 3, 40]),
    rate=st.sampled_from([60, 2_000, 2_001, 30_000]),
    weights=st.lists(st.sampled_from([1_000, 1_001, 333, 7_000, 1]), min_size=4, max_size=4),
)
def test_grants_are_the_same_one_by_one(
    real_worlds: Worlds, seed: int, envelope: int, rate: int, weights: list[int]
) -> None:
    """The same integers, grant by grant."""
    granted = []
    for world in (in_process_worlds()(), real_worlds()):
        tasks = [task for names in add_tasks(world, {"high": 3, "medium": 1, "low": 1}).values() for task in names]
        for task, weight in zip(tasks, weights, strict=False):
            world.change(task, "weight", str(weight))
        world.change("high1", "cap", str(rate // 10))
        world.set_capacity(rate)
        crowd = Backlog(world, {"a": tasks, "b": tasks[1:]}, {"a": 90, "b": 20}, envelope, rate // 4, seed)
        crowd.run_until(2_000)
        granted.append(crowd.grants)
    assert granted[0] == granted[1]
