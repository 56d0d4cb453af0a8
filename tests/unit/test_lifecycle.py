import pytest

from dispatcher.model.errors import Refused
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


def test_events_lead_where_the_table_says() -> None:
    assert TASK.next("running", "pause") == "paused"
    assert TASK.next("paused", "resume") == "running"
    assert TASK.allows("paused", "cancel")
    with pytest.raises(Refused, match="A task that is completed cannot take 'pause'"):
        TASK.next("completed", "pause")


def test_states_follow_each_other_by_the_table_only() -> None:
    WORKER.check("starting", "serving")
    WORKER.check("serving", "serving")
    with pytest.raises(Refused, match="from stopped to serving"):
        WORKER.check("stopped", "serving")


def test_the_picture_shows_every_transition() -> None:
    picture = TASK.to_mermaid()
    assert picture.startswith("stateDiagram-v2\n")
    for state, events in TASK.transitions.items():
        for event, following in events.items():
            assert f"    {state} --> {following}: {event}\n" in picture
    assert "    [*] --> running\n" in picture
    assert "    completed --> [*]\n" in picture
