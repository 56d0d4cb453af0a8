"""The tables of what a task, a worker and a node go through."""

import pytest

from dispatcher.model.lifecycle import TASK, WORKER, Lifecycle
from dispatcher.model.view import ENDED_STATES, STATES
from estate.rules.node_life import NODE_LIFE

ENDS = [
    (TASK, set(ENDED_STATES)),
    (WORKER, {"stopped"}),
    (NODE_LIFE, set()),
]


@pytest.mark.parametrize(("table", "ends"), ENDS, ids=lambda value: getattr(value, "name", ""))
def test_every_state_can_be_reached_and_only_these_are_ends(table: Lifecycle, ends: set[str]) -> None:
    reached, new = set(table.start), set(table.start)
    while new:
        new = {following for state in new for following in table.transitions[state].values()} - reached
        reached |= new
    assert reached == set(table.states)
    assert {state for state in table.states if table.ends(state)} == ends


def test_the_tables_speak_of_the_states_the_registry_shows() -> None:
    assert set(TASK.states) == set(STATES)


def test_events_lead_where_the_table_says_and_nowhere_else() -> None:
    assert TASK.after("running", "pause") == "paused"
    assert TASK.after("paused", "resume") == "running"
    assert TASK.after("paused", "cancel") == "cancelled"
    assert [TASK.after(state, "pause") for state in ENDED_STATES] == list(ENDED_STATES)
    assert TASK.after("running", "resume") == "running"
    assert WORKER.after("stopped", "serve") == "stopped"
