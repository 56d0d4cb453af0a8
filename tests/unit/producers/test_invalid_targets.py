"""The feed of invalid targets: those of the filter, each once with its latest time of death."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dispatcher.model.errors import InvalidInput
from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.wire.invalid import Reported, TargetKey
from producers.letters.invalid import InvalidFilter, chosen_targets, doubted_by, latest
from tests.records import invalid_target as target


def test_each_target_of_an_app_and_a_channel_comes_once_with_its_latest_death() -> None:
    given = [
        target("a", 5),
        target("a", 9, task="later"),
        target("a", 7),
        target("a", 1, app="news"),
        target("a", 2, channel="apns"),
        target("b"),
    ]
    found = sorted(latest(given), key=lambda one: (one.target, one.app, one.channel))
    assert [(one.target, one.app, one.channel, one.died_ms) for one in found] == [
        ("a", "news", "fcm", 1),
        ("a", "shop", "apns", 2),
        ("a", "shop", "fcm", 9),
        ("b", "shop", "fcm", 5),
    ]
    assert found[2] == given[1]


def test_targets_are_chosen_by_app_channel_and_the_time_of_the_record() -> None:
    at = datetime(2026, 11, 25, tzinfo=UTC)
    at_ms = int(at.timestamp() * 1000)
    reported = [
        Reported(TargetKey("0", 0, 0), 0, one)
        for one in (
            target("old", seen_ms=at_ms - 1),
            target("new", seen_ms=at_ms),
            target("news", seen_ms=at_ms, app="news"),
            target("apns", seen_ms=at_ms, channel="apns"),
        )
    ]

    def found(**fields: Any) -> list[str]:
        return [one.target for one in chosen_targets(reported, InvalidFilter(**fields))]

    assert found() == ["old", "new", "news", "apns"]
    assert found(app="shop", channel="fcm") == ["old", "new"]
    assert (found(since=at), found(until=at)) == (["new", "news", "apns"], ["old"])
    withheld = chosen_targets(reported, InvalidFilter(), lambda one: one.app == "shop")
    assert [one.target for one in withheld] == ["news"]
    assert InvalidFilter(since=at).since_ms == at_ms
    with pytest.raises(InvalidInput, match="until"):
        InvalidFilter(until=datetime(2026, 11, 25))  # noqa: DTZ001


def test_the_feed_has_each_target_in_its_canonical_form() -> None:
    token = "ab" * 32
    given = [target(token.upper(), 5, channel="apns"), target(token, 9, channel="apns"), target("Ab", 7)]
    found = list(chosen_targets([Reported(TargetKey("0", 0, 0), 0, one) for one in given], InvalidFilter()))
    assert [one.target for one in found] == [token, token, "Ab"]
    assert sorted((one.target, one.died_ms) for one in latest(found)) == [("Ab", 7), (token, 9)]


@pytest.mark.parametrize(
    ("flow", "kind", "is_left_out"),
    [
        ("fcm/shop", PauseKind.SUSPECT, True),
        ("fcm/shop", PauseKind.DOWN, False),
        ("fcm/news", PauseKind.SUSPECT, False),
        ("apns/shop", PauseKind.SUSPECT, False),
    ],
)
def test_what_a_suspected_flow_reported_in_that_minute_is_left_out(
    flow: str, kind: PauseKind, is_left_out: bool
) -> None:
    since_ms = 10_000_000
    doubted = doubted_by({flow: FlowPause(kind=kind, since_ms=since_ms)})
    before, within, later = since_ms - 60_001, since_ms - 60_000, since_ms + 1
    assert [doubted(target("a", seen_ms=at_ms)) for at_ms in (before, within, later)] == [False, *[is_left_out] * 2]


def test_what_was_doubted_stays_left_out_after_the_suspicion_unless_an_operator_confirms_it() -> None:
    since_ms = 10_000_000
    suspect = FlowPause(kind=PauseKind.SUSPECT, since_ms=since_ms)
    after = {kind: FlowPause(kind=kind, since_ms=since_ms + 10**6).after(suspect) for kind in PauseKind}
    is_left_out = {
        kind: doubted_by({"fcm/shop": entry})(target("a", seen_ms=since_ms)) for kind, entry in after.items()
    }
    assert is_left_out == {kind: kind is not PauseKind.CONFIRMED for kind in PauseKind}
