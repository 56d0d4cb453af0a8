"""The formula of the producers: every bound, for any need."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from dispatcher.wire.envelope import MAX_ENVELOPE_BYTES
from producers.publish.tuning import ProducerNeeds, tune

MIB = 1024 * 1024
shapes = st.tuples(st.integers(1, 512), st.integers(1, MAX_ENVELOPE_BYTES))


@st.composite
def needs(draw: st.DrawFn) -> ProducerNeeds:
    partitions, message_bytes = draw(shapes)
    least = 2 * partitions * message_bytes
    return ProducerNeeds(
        partitions=partitions,
        message_bytes=message_bytes,
        rate=draw(st.floats(0.01, 1e8)),
        memory_bytes=draw(st.integers(least, max(least, 64 * 1024 * MIB))),
        receiver_queue=draw(st.integers(1, 100_000)),
    )


def test_the_need_of_the_example() -> None:
    settings = tune(ProducerNeeds(partitions=12, rate=50_000, message_bytes=33_000, memory_bytes=512 * MIB)).settings
    assert settings.pending_messages == 1_250
    assert settings.pending_messages_all == 15_000
    assert settings.memory_bytes == 1_250 * 12 * 33_000
    assert (settings.batch_messages, settings.batch_bytes, settings.batch_delay_ms) == (250, MIB, 2)


@given(needs())
def test_pending_is_between_one_and_two_thousand_unless_the_memory_does_not_hold_them(need: ProducerNeeds) -> None:
    tuning = tune(need)
    pending = tuning.settings.pending_messages
    holds = need.memory_bytes // (need.partitions * need.message_bytes)
    assert pending == holds if holds < 1_000 else 1_000 <= pending <= min(2_000, holds)
    assert bool(tuning.remarks) == (pending < 1_000)


@given(needs())
def test_memory_is_pending_by_partitions_by_message_and_within_what_is_allowed(need: ProducerNeeds) -> None:
    settings = tune(need).settings
    assert settings.pending_messages_all == settings.pending_messages * need.partitions
    assert settings.memory_bytes == settings.pending_messages_all * need.message_bytes
    assert settings.memory_bytes <= need.memory_bytes
    assert settings.partition_bytes * need.partitions <= settings.memory_bytes


@given(needs())
def test_a_batch_stays_within_its_bounds(need: ProducerNeeds) -> None:
    settings = tune(need).settings
    assert 1 <= settings.batch_messages <= settings.pending_messages / 2
    assert settings.batch_messages <= max(1, need.receiver_queue / 4)
    assert need.message_bytes <= settings.batch_bytes or settings.batch_bytes == MIB
    assert settings.batch_bytes <= min(settings.memory_bytes / need.partitions / 2, MIB)
    assert 1 <= settings.batch_delay_ms <= 100


@given(needs())
def test_each_setting_has_its_reason(need: ProducerNeeds) -> None:
    tuning = tune(need)
    assert all(tuning.reasons.values())
    assert {*tuning.reasons, "partitions"} == set(type(tuning.settings).__slots__)


@given(needs(), st.integers(1, 10**9))
def test_more_memory_never_allows_less(need: ProducerNeeds, more: int) -> None:
    richer = replace(need, memory_bytes=need.memory_bytes + more)
    assert tune(richer).settings.pending_messages >= tune(need).settings.pending_messages
    assert tune(richer).settings.batch_bytes >= tune(need).settings.batch_bytes


def test_a_slow_rate_waits_longer_for_a_batch_but_not_for_ever() -> None:
    delays = [tune(ProducerNeeds(rate=rate)).settings.batch_delay_ms for rate in (1e7, 50_000, 5_000, 10)]
    assert delays == [1, 10, 100, 100]


@pytest.mark.parametrize(
    ("need", "named"),
    [
        ({"partitions": 0}, "partitions"),
        ({"rate": 0.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"message_bytes": MAX_ENVELOPE_BYTES + 1}, "message_bytes"),
        ({"partitions": 12, "message_bytes": 33_000, "memory_bytes": 700_000}, "Give 792,000 or more"),
    ],
)
def test_what_cannot_be_is_refused(need: dict[str, float], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        ProducerNeeds(**need)  # type: ignore[arg-type]  # of any kind
