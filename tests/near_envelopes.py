"""Envelopes with fields replaced, for tests that draw possible contents of a lane."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from dispatcher.wire.envelope import FORMAT, MAX_SEQUENCE, ROUNDS_FORMAT, Envelope, encode_message
from dispatcher.wire.groups import TargetGroup, pack_positions

FIELDS = Envelope.__struct_fields__
GOOD: tuple[Any, ...] = (
    ROUNDS_FORMAT, "task-1", "0", 7, 1, "shop", "http", 1_700_000_000_000, 1_700_000_001_000, 0, 3, 5,
    encode_message({"title": "Hi"}), ["a", "b"], [0, 2], [None, {"name": "Ada"}],
    [TargetGroup(positions="5", tries=1, due_ms=0)], False, 0,
)  # fmt: skip
encode = msgspec.msgpack.encode

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
numbers = st.sampled_from([0, -1, 1, 19, 20, 500, 501, 2**23, MAX_SEQUENCE, 2**27, 2**31, 2**33, 2**53, 2**64 - 1])
odd_values = st.one_of(
    anything,
    numbers,
    st.lists(st.integers(-1, 501), max_size=4),
    st.lists(st.text(), max_size=4),
    st.sampled_from(["", "0", "..", "-partition-1", "a|b", "\ud7ff", "x" * 200]),
)


def wire(**changes: Any) -> bytes:
    """A good envelope with some fields replaced. attempt=0: without groups."""
    fields = dict(zip(FIELDS, GOOD, strict=True))
    if changes.get("attempt") == 0:
        fields |= {"format": FORMAT, "groups": None}
    fields |= changes
    return encode(list(fields.values()))


@st.composite
def groups_of(draw: st.DrawFn, places: list[int], size: int, times: st.SearchStrategy[int]) -> list[TargetGroup]:
    """Groups of these positions, in two parts at most."""
    cut = draw(st.integers(1, len(places)))
    return [
        TargetGroup(
            positions=pack_positions(part, size),
            tries=draw(st.sampled_from([0, 1, 19])),
            due_ms=draw(times),
            first_ms=draw(times),
        )
        for part in (places[:cut], places[cut:])
        if part
    ]


@st.composite
def readable(draw: st.DrawFn, *tasks: str) -> bytes:
    """One that passes decoding, with every number near or at its limits."""
    size = draw(st.sampled_from([1, 2, 3, 500]))
    places = sorted(draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=4)))
    attempt = draw(st.sampled_from([0, 1, 2, 19]))
    if attempt == 0:
        places = list(range(size))
    times = st.sampled_from([0, 1, 1_700_000_000_000, 253_402_300_799_999])
    return wire(
        groups=draw(groups_of(places, size, times)) if attempt else None,
        task=draw(st.sampled_from(tasks)),
        writer=draw(st.sampled_from(["0", "-", "A_b-9.", "w" * 64])),
        sequence=draw(st.sampled_from([0, 1, 2, 7, 1_000, MAX_SEQUENCE - 1, MAX_SEQUENCE])),
        attempt=attempt,
        app=draw(st.sampled_from(["app", "shop", "other"])),
        channel=draw(st.sampled_from(["null", "nobody"])),
        published_ms=draw(times),
        not_before_ms=draw(times),
        expires_ms=draw(times),
        size=size,
        max_attempts=draw(st.sampled_from([1, 2, 20])),
        message=draw(anything),
        targets=[f"odd-{place}" for place in places],
        positions=None if attempt == 0 else places,
        variables=draw(st.none() | st.just([None] * len(places))),
    )
