"""Every script leaves and answers in the Redis in memory what it does in a real one, whatever it is asked."""

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from tests.contract.ledger_worlds import RedisWorld, Worlds, in_process_worlds
from tests.contract.memory_twins import contents_of
from tests.contract.test_ledger_twins import Twins

CHOSEN_BY_THE_SERVER = (b":test-clock", b":feed")
"""Ends of keys that hold times of the server's own."""


class ServerTwins(Twins):
    """The same, over a real server and over one in memory."""

    @invariant()
    def hold_alike(self) -> None:
        memory, real = (contents(world) for world in self.pair)
        assert memory == real


def contents(world: Any) -> dict[bytes, Any]:
    assert isinstance(world, RedisWorld)
    found = contents_of(world.view.client, f"{world.view.keys.prefix}:*")
    epoch = found[world.view.keys.epoch.encode()][1]
    epoch.pop(b"run_id")
    return {key: value for key, value in found.items() if not key.endswith(CHOSEN_BY_THE_SERVER)}


def test_scripts_answer_and_leave_alike(real_worlds: Worlds, test_lua: Path) -> None:
    here = {"worlds": staticmethod(real_worlds), "reference": staticmethod(in_process_worlds(lua=test_lua))}
    machine = type("ServerTwinsHere", (ServerTwins,), here)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
