import pytest

from dispatcher.model.lifecycle import TASK, WORKER, Lifecycle
from dispatcher.model.view import ENDED_STATES, STATES


@pytest.mark.parametrize("table", [TASK, WORKER], ids=lambda table: table.name)
def test_every_state_can_be_reached_and_leads_to_an_end(table: Lifecycle) -> None:
    reached, new = set(table.start), set(table.start)
    while new:
        new = {following for state in new for following in table.transitions[state].values()} - reached
        reached |= new
    assert reached == set(table.states)
    ends = {state for state in table.states if table.ends(state)}
    assert ends
    if table is WORKER:
        assert ends == {"stopped"}


def test_the_tables_speak_of_the_states_the_registry_shows() -> None:
    assert set(TASK.states) == set(STATES)
    assert {state for state in TASK.states if TASK.ends(state)} == set(ENDED_STATES)


def test_events_lead_where_the_table_says_and_nowhere_else() -> None:
    assert TASK.after("running", "pause") == "paused"
    assert TASK.after("paused", "resume") == "running"
    assert TASK.after("paused", "cancel") == "cancelled"
    assert [TASK.after(state, "pause") for state in ENDED_STATES] == list(ENDED_STATES)
    assert TASK.after("running", "resume") == "running"
    assert WORKER.after("stopped", "serve") == "stopped"


def test_the_picture_shows_every_transition() -> None:
    picture = TASK.to_mermaid()
    assert picture.startswith("stateDiagram-v2\n")
    for state, events in TASK.transitions.items():
        for event, following in events.items():
            assert f"    {state} --> {following}: {event}\n" in picture
    assert "    [*] --> running\n" in picture
    assert "    completed --> [*]\n" in picture
