"""The stored form of a flow's entry, and what it means."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput, Malformed
from dispatcher.model.flow_pause import (
    CONFIRMED_MS,
    KEPT_MS,
    MAX_REASON,
    FlowPause,
    PauseKind,
    confirmed,
    ended,
    flow_name,
    flow_parts,
)
from dispatcher.model.service_settings import Setting, globals_of

NOW_MS = 1_700_000_000_000
times = st.integers(0, 10**14)


@given(
    st.builds(
        FlowPause,
        kind=st.sampled_from(PauseKind),
        since_ms=times,
        until_ms=times,
        reason=st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=MAX_REASON),
        credential=st.text("abc019._:=+-", max_size=128),
        doubted_from_ms=times,
        doubted_to_ms=st.integers(1, 10**14),
    )
)
@example(FlowPause(kind=PauseKind.HAND, since_ms=1, reason="12-13|noon"))
def test_an_entry_is_read_as_it_was_written(entry: FlowPause) -> None:
    assert FlowPause.parse(entry.text) == entry
    assert Setting.parse("flow_paused:fcm:shop", entry.text).value == entry


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "0|hand|1|", "x|hand|1||", "0|asleep|1||", "0|hand|1|a b|"),
        *("0|hand|1||two\nlines", f"0|hand|1||{'x' * 501}"),
    ],
)
def test_what_is_no_entry_is_refused(text: str) -> None:
    """An entry of a kind that a later version knows is one of these: it is skipped, and kept for that version."""
    with pytest.raises(Malformed):
        Setting.parse("flow_paused:fcm:shop", text)


@pytest.mark.parametrize("field", ["flow_paused", "flow_paused:fcm", "flow_paused:fcm:", "flow_paused::shop"])
def test_an_entry_names_a_channel_and_an_app(field: str) -> None:
    with pytest.raises(Malformed):
        Setting.parse(field, "0|hand|1||")


@pytest.mark.parametrize("until_ms", [NOW_MS, NOW_MS - 1, NOW_MS + KEPT_MS + 1])
def test_a_pause_that_lasts_no_time_or_too_long_cannot_be_made(until_ms: int) -> None:
    with pytest.raises(InvalidInput, match="30 days"):
        FlowPause(kind=PauseKind.HAND, since_ms=NOW_MS, until_ms=until_ms).checked()


def test_a_pause_is_open_until_its_end_and_one_without_until_it_is_ended() -> None:
    timed = FlowPause(kind=PauseKind.DOWN, since_ms=NOW_MS, until_ms=NOW_MS + 10)
    endless = FlowPause(kind=PauseKind.HAND, since_ms=NOW_MS)
    assert [timed.is_open(NOW_MS + ms) for ms in (0, 9, 10)] == [True, True, False]
    assert endless.is_open(NOW_MS + 10 * KEPT_MS)
    assert not ended(NOW_MS, "by hand").is_open(NOW_MS)
    assert not confirmed(NOW_MS, "by hand").is_open(NOW_MS)


def test_the_end_of_a_pause_is_remembered_for_longer_than_any_copy_of_the_pause_lives() -> None:
    for entry in (ended(NOW_MS, "by hand"), confirmed(NOW_MS, "by hand")):
        assert [entry.is_needed(NOW_MS + ms) for ms in (KEPT_MS - 1, KEPT_MS)] == [True, False]
    timed = FlowPause(kind=PauseKind.DOWN, since_ms=NOW_MS, until_ms=NOW_MS + 10)
    assert [timed.is_needed(NOW_MS + ms) for ms in (9, 10)] == [True, False]


def test_an_operators_word_holds_for_a_day() -> None:
    entry = confirmed(NOW_MS, "by hand")
    assert [entry.confirms(NOW_MS + ms) for ms in (CONFIRMED_MS - 1, CONFIRMED_MS)] == [True, False]
    assert not ended(NOW_MS, "by hand").confirms(NOW_MS)


MINUTE_MS = 60_000


def suspected(at_ms: int) -> FlowPause:
    return FlowPause(kind=PauseKind.SUSPECT, since_ms=at_ms, credential="one")


def test_dead_targets_of_the_suspected_minute_stay_doubted_whatever_ends_the_suspicion() -> None:
    """New credentials show that they were not dead; the next dead one under these is recorded later."""
    suspect = suspected(NOW_MS).after(None)
    entries = [suspect]
    for kind in (PauseKind.ENDED, PauseKind.LIMIT, PauseKind.HAND, PauseKind.ENDED):
        entries.append(FlowPause(kind=kind, since_ms=NOW_MS + 10 * MINUTE_MS).after(entries[-1]))
    for entry in entries:
        assert [entry.doubts(NOW_MS + ms) for ms in (-MINUTE_MS - 1, -MINUTE_MS, 0)] == [False, True, True]
    later_ms = NOW_MS + 2 * MINUTE_MS
    assert [entry.doubts(later_ms) for entry in entries] == [True, *[False] * 4]
    assert entries[-1].is_needed(NOW_MS + KEPT_MS)


def test_a_second_suspicion_keeps_the_doubts_of_the_first() -> None:
    ended_once = ended(NOW_MS + 1, "new credentials").after(suspected(NOW_MS))
    again = suspected(NOW_MS + 60 * MINUTE_MS).after(ended_once)
    ended_twice = ended(NOW_MS + 61 * MINUTE_MS, "new credentials").after(again)
    assert all(entry.doubts(NOW_MS - MINUTE_MS) for entry in (again, ended_twice))
    assert ended_twice.doubts(NOW_MS + 60 * MINUTE_MS)


def test_an_operators_confirmation_ends_the_doubts() -> None:
    entry = confirmed(NOW_MS + 1, "by hand").after(suspected(NOW_MS))
    assert not entry.doubts(NOW_MS)
    assert not ended(NOW_MS + 2, "by hand").after(entry).doubts(NOW_MS)


def test_the_settings_have_the_open_pauses() -> None:
    fields = {"flow_paused:fcm:shop": f"{NOW_MS}|down|1||", "flow_paused:apns:shop": "0|ended|1||"}
    assert set(globals_of(fields, NOW_MS - 1).flow_pauses) == {"fcm/shop"}
    assert globals_of(fields, NOW_MS).flow_pauses == {}
    assert globals_of(fields, NOW_MS - 1).stops("fcm", "shop")
    assert not globals_of(fields, NOW_MS - 1).stops("fcm", "bank")


def test_a_flow_is_named_by_its_channel_and_app() -> None:
    assert flow_parts(flow_name("fcm", "shop")) == ("fcm", "shop")
