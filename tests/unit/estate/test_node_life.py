"""The states of brokers and bookies: a closed table, and records that survive a restart."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from estate.rules.node_life import NODE_LIFE, Intent, NodeKind, NodeRecord, decode_nodes, encode_nodes

EVENTS = sorted({event for events in NODE_LIFE.transitions.values() for event in events})
records = st.builds(
    NodeRecord,
    kind=st.sampled_from(NodeKind),
    name=st.text(max_size=20),
    state=st.sampled_from(NODE_LIFE.states),
    intent=st.sampled_from(Intent),
    slow_looks=st.integers(0, 9),
    well_looks=st.integers(0, 9),
    well_ms=st.floats(0, 1e9),
    hold_ms=st.floats(0, 1e9),
    probation_ms=st.floats(0, 1e9),
)


def test_the_events_of_a_state_lead_to_states_of_the_table() -> None:
    assert {state for events in NODE_LIFE.transitions.values() for state in events.values()} <= set(NODE_LIFE.states)


@given(records, st.lists(st.sampled_from(EVENTS)))
def test_no_sequence_of_events_leaves_the_table(record: NodeRecord, events: list[str]) -> None:
    for event in events:
        record = record.after(event)
        assert record.state in NODE_LIFE.states


@given(st.lists(records, unique_by=lambda record: record.key))
def test_records_are_read_as_they_were_stored(nodes: list[NodeRecord]) -> None:
    by_key = {node.key: node for node in nodes}
    assert decode_nodes(encode_nodes(by_key)) == by_key


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"format":2,"nodes":[]}',
        b'{"format":1,"nodes":[{"kind":"broker"}]}',
        b'{"format":1,"nodes":[{"kind":"printer","name":"a"}]}',
        b'{"format":1,"nodes":[{"kind":"broker","name":"a","state":"lost"}]}',
    ],
)
def test_what_is_no_stored_state_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput, match="stored state"):
        decode_nodes(content)


def test_a_change_of_state_starts_the_counts_again() -> None:
    record = NodeRecord(kind=NodeKind.BOOKIE, name="b:1", state="serving", slow_looks=3)
    assert record.after("slow") == msgspec.structs.replace(record, state="suspect", slow_looks=0)
