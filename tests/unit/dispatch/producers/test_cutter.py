"""An audience is cut the same way whatever its slabs, and its digest is of its targets alone."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import Target
from dispatcher.wire.control import TaskRecord
from dispatcher.wire.envelope import MAX_SEQUENCE, Envelope, decode_envelope
from producers.submit.cutter import MAX_SLAB, Cutter, bodies, slabs_of_bursts
from producers.submit.validation import Refusal
from tests.contract.registry_records import task_record
from tests.unit.dispatch.producers.fake_service import Slabbed, cut
from tests.virtual_clock import VirtualClock

address = st.text("abcdef", min_size=1, max_size=4)
item = address | st.just("bad one") | st.builds(Target, address, st.none() | st.just({"name": "x"}))


def record(chunk: int) -> TaskRecord:
    return task_record("t", app="a", chunk=chunk, expires_ms=7, max_attempts=3)


def envelopes_of(audience: object, chunk: int, ends: Sequence[int] = ()) -> tuple[list[Envelope], str, list[Refusal]]:
    cutter, refusals, made = Cutter(chunk, ends), [], []  # type: ignore[var-annotated]
    for block in cut(audience, cutter, refusals.extend):
        assert block.first + block.envelopes == cutter.sequence
        made += [decode_envelope(body) for body in bodies(record(chunk), block, 99)]
    return made, cutter.digest(), refusals


@given(st.lists(item, max_size=60), st.integers(1, 9), st.lists(st.integers(1, 20)), st.lists(st.integers(0, 60)))
def test_the_cut_does_not_depend_on_slabs(items: list[object], chunk: int, sizes: list[int], ends: list[int]) -> None:
    assert envelopes_of(items, chunk, ends) == envelopes_of(Slabbed(items, sizes), chunk, ends)


@given(st.lists(item, max_size=60), st.integers(1, 9))
def test_every_good_target_is_in_one_envelope_in_order(items: list[object], chunk: int) -> None:
    made, _, refusals = envelopes_of(items, chunk)
    good = [item for item in items if item != "bad one"]
    assert [target for envelope in made for target in envelope.targets] == [
        item.address if isinstance(item, Target) else item for item in good
    ]
    own = [v for envelope in made for v in envelope.variables or [None] * len(envelope.targets)]
    assert own == [item.variables if isinstance(item, Target) else None for item in good]
    assert [envelope.sequence for envelope in made] == list(range(len(made)))
    assert all(envelope.size == len(envelope.targets) == chunk for envelope in made[:-1])
    assert len(refusals) == len(items) - len(good)


@given(
    st.lists(address, min_size=1, max_size=40),
    st.integers(1, 9),
    st.lists(st.integers(1, 40)),
    st.lists(st.integers(1, 20)),
)
def test_an_envelope_ends_at_each_end_with_the_digest_of_all_before_it(
    items: list[str], chunk: int, ends: list[int], sizes: list[int]
) -> None:
    cutter, digests = Cutter(chunk, ends), {}
    for _ in cut(Slabbed(list(items), sizes), cutter, lambda refusals: None):
        digests[cutter.targets] = cutter.digest()
    for end in ends:
        short = Cutter(chunk + 1)
        list(cut(items[:end], short, lambda refusals: None))
        assert end > len(items) or digests[end] == short.digest()


def test_there_is_a_last_sequence() -> None:
    cutter = Cutter(1)
    cutter.sequence = MAX_SEQUENCE
    list(cut(["a"], cutter, lambda refusals: None))
    with pytest.raises(InvalidInput, match="larger chunk"):
        list(cut(["b"], cutter, lambda refusals: None))


def test_an_envelope_carries_the_task_and_its_identity() -> None:
    made, _, _ = envelopes_of(["a", "b", "c"], 2)
    first = made[0]
    assert first.identity == ("t", "0", 0, 0)
    assert (first.app, first.channel, first.expires_ms) == ("a", "null", 7)
    assert (first.max_attempts, first.published_ms) == (3, 99)
    assert made[1].targets == ["c"]


def test_a_quick_audience_is_taken_in_large_slabs_and_a_slow_one_is_not_waited_for() -> None:
    clock = VirtualClock()

    def slow() -> Iterator[str]:
        for number in range(2_000):
            clock.advance(0.01)
            yield str(number)

    quick = [len(slab.items) for slab in slabs_of_bursts([map(str, range(20_000))], 1, lambda: 0.0)]
    assert max(quick) == MAX_SLAB
    assert [len(slab.items) for slab in slabs_of_bursts([slow()], 1, clock.monotonic_s)][-10:-1] == [8] * 9


def test_lines_are_counted_over_slabs() -> None:
    _, _, refusals = envelopes_of([*(["a"] * 5_000), "bad one", *(["a"] * 5_000), ""], 3)
    assert [refusal.line for refusal in refusals] == [5_001, 10_002]
