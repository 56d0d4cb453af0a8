"""Limits of a push task, and what follows from its size."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import MAX_MESSAGE_BYTES, PushTask, choose_chunk
from dispatcher.model.tier import Tier
from dispatcher.wire.envelope import MAX_CHUNK, decode_message, encode_message
from dispatcher.wire.topics import OWN_LANE_ABOVE

GOOD: dict[str, Any] = {"app": "shop", "tier": "high", "channel": "log", "message": "Hello"}


def task(**fields: Any) -> PushTask:
    return PushTask(**{**GOOD, **fields})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("id", "a" * 101),
        ("id", "with space"),
        ("id", "a/b"),
        ("id", ".hidden"),
        ("id", "line\n"),
        ("id", "news-partition-3"),
        ("app", ""),
        ("app", "a b"),
        ("app", "x" * 65),
        ("app", "shop-partition-0"),
        ("channel", "no spaces"),
        ("channel", "push-partition-1"),
        ("channel", "push__transaction_pending_ack"),
        ("message", 7),
        ("message", {"body": "x" * MAX_MESSAGE_BYTES}),
        ("message", {"body": {1, 2}}),
        ("message", {"number": 2**70}),
        ("message", {"number": float("nan")}),
        ("message", {"body": "\ud800"}),
        ("expected_targets", -1),
        ("chunk", 0),
        ("weight", 0.0009),
        ("weight", 1_000.1),
        ("weight", float("nan")),
        ("cap", 0),
        ("ttl_s", 0),
        ("ttl_s", timedelta(days=8)),
        ("ttl_s", "8d"),
        ("ttl_s", "soon"),
        ("start_at", datetime(2030, 1, 1)),  # noqa: DTZ001  # without a zone on purpose
        ("max_attempts", 0),
        ("colour", "red"),
    ],
)
def test_a_breach_of_a_limit_names_the_field(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        task(**{field: value})
    assert str(caught.value).startswith(f"task: {field}")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("id", "a b", "it must be 1 to 100 of A-Z a-z 0-9 . _ - and begin with a letter or digit (given: 'a b')"),
        ("app", "-x", "it must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit (given: '-x')"),
        ("channel", None, "is missing; name fcm, apns, http or a channel of your own"),
        ("tier", "urgent", "it must be 'high', 'medium' or 'low' (given: 'urgent')"),
        ("chunk", 501, "it must be at most 500 (given: 501)"),
        ("cap", 10**12, "it must be at most 1,000,000,000 (given: 1000000000000)"),
        ("weight", 0, "it must be 0.001 or more (given: 0)"),
        ("weight", "heavy", "it must be a number (given: 'heavy')"),
        ("expected_targets", 1.5, "it must be a whole number (given: 1.5)"),
        ("start_at", "2030-01-31T18:00", "it has no time zone; write one, as in 2030-01-31T18:00+01:00"),
        ("hold_until_sealed", "maybe", "it must be true or false (given: 'maybe')"),
    ],
)
def test_a_wrong_field_is_described_in_our_own_words(field: str, value: object, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task(**{field: value})
    assert str(caught.value).startswith(f"task: {field}: {words}")
    assert "should" not in str(caught.value)


def test_every_wrong_field_has_a_line_of_its_own() -> None:
    with pytest.raises(InvalidInput) as caught:
        PushTask.model_validate({"app": "a b", "chunk": 501, "message": "x"})
    assert [line.split(":")[1].strip() for line in str(caught.value).splitlines()] == [
        "app",
        "tier",
        "channel",
        "chunk",
    ]


@pytest.mark.parametrize(
    ("given_ttl", "seconds"),
    [
        (90, 90),
        (0.5, 0.5),
        (timedelta(hours=1), 3_600),
        ("90s", 90),
        ("10m", 600),
        ("1h", 3_600),
        ("7d", 604_800),
        ("1h30m", 5_400),
        ("5 m", 300),
        ("1e3", 1_000),
    ],
)
def test_a_ttl_is_seconds_a_timedelta_or_text(given_ttl: object, seconds: float) -> None:
    assert task(ttl_s=given_ttl).ttl_s == seconds


def test_a_text_message_is_its_body_and_survives_the_wire() -> None:
    assert decode_message(encode_message(task(message="Hi").message)) == {"body": "Hi"}


def test_the_longest_message_is_taken() -> None:
    overhead = len(encode_message({"body": "x" * 1_000})) - 1_000
    task(message="x" * (MAX_MESSAGE_BYTES - overhead))
    with pytest.raises(InvalidInput):
        task(message="x" * (MAX_MESSAGE_BYTES - overhead + 1))


def test_a_task_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        task().app = "other"


def test_start_is_milliseconds_and_zero_for_at_once() -> None:
    assert task().start_ms == 0
    assert task(start_at=datetime(2030, 1, 1, tzinfo=UTC)).start_ms == 1_893_456_000_000


@given(st.sampled_from(Tier), st.integers(0, 10**9), st.integers(0, 10**9))
def test_larger_tasks_are_cut_coarser_and_lower_tiers_finer(tier: Tier, one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert 1 <= choose_chunk(tier, small) <= choose_chunk(tier, large) <= MAX_CHUNK
    assert choose_chunk(Tier.LOW, large) <= choose_chunk(Tier.MEDIUM, large) <= choose_chunk(Tier.HIGH, large)


def test_the_caller_may_choose_the_chunk() -> None:
    assert task(chunk=7).chosen_chunk(10**6) == 7
    assert task().chosen_chunk(None) == 100


@pytest.mark.parametrize("tier", [Tier.HIGH, Tier.MEDIUM])
@pytest.mark.parametrize("expected", [0, 1, OWN_LANE_ABOVE, None])
def test_high_and_medium_tasks_always_own_a_lane(tier: Tier, expected: int | None) -> None:
    assert task(tier=tier).own_lane(expected)


def test_small_plain_low_tasks_share() -> None:
    low = task(tier="low")
    assert not low.own_lane(0)
    assert not low.own_lane(OWN_LANE_ABOVE)
    assert low.own_lane(OWN_LANE_ABOVE + 1)
    assert low.own_lane(None)


@pytest.mark.parametrize(
    "controls",
    [{"weight": 2}, {"cap": 10}, {"hold_until_sealed": True}, {"start_at": datetime(2030, 1, 1, tzinfo=UTC)}],
)
def test_what_must_wait_or_is_controlled_alone_never_shares(controls: dict[str, object]) -> None:
    assert task(tier="low", **controls).own_lane(1)
