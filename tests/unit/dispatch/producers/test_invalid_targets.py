"""The feed of invalid targets: those of the filter, each once with its latest time of death."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dispatcher.model.errors import InvalidInput
from dispatcher.model.flow_pause import FlowPause, PauseKind
from dispatcher.wire.outcome import Named, Outcome, Outcomes, Run
from producers.outcomes.record import TargetFilter
from producers.outcomes.recorded import invalid_targets, latest
from tests.records import invalid_target as target
from tests.records import outcomes as record


def report(*names: str, **fields: Any) -> Outcomes:
    """A record of an envelope with these invalid targets."""
    run = Run(writer="0", attempt=0, first=0, count=1, size=len(names), code=int(Outcome.INVALID))
    named = Named(writer="0", attempt=0, sequence=0, positions=None, targets=list(names))
    return record(run, named, **{"app": "shop", "channel": "fcm", **fields})


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
    reports = [
        report("old", at_ms=at_ms - 1),
        report("new", at_ms=at_ms),
        report("news", at_ms=at_ms, app="news"),
        report("apns", at_ms=at_ms, channel="apns"),
    ]

    def found(**fields: Any) -> list[str]:
        return [one.target for one in invalid_targets(reports, TargetFilter(**fields), {})]

    assert found() == ["old", "new", "news", "apns"]
    assert found(app="shop", channel="fcm") == ["old", "new"]
    assert (found(since=at), found(until=at)) == (["new", "news", "apns"], ["old"])
    assert TargetFilter(since=at).since_ms == at_ms
    with pytest.raises(InvalidInput, match="until"):
        TargetFilter(until=datetime(2026, 11, 25))  # noqa: DTZ001


def test_the_time_of_death_is_that_of_the_record_where_the_provider_says_none() -> None:
    run = Run(writer="0", attempt=0, first=0, count=1, size=2, code=int(Outcome.INVALID))
    named = Named(writer="0", attempt=0, sequence=0, positions=None, targets=["a", "b"], died_ms=[3, 0])
    found = invalid_targets([record(run, named, at_ms=7)], TargetFilter(), {})
    assert [(one.target, one.died_ms) for one in found] == [("a", 3), ("b", 7)]


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
    flows = {flow: FlowPause(kind=kind, since_ms=since_ms)}
    before, within, later = since_ms - 60_001, since_ms - 60_000, since_ms + 1
    reports = [report(str(at_ms), at_ms=at_ms) for at_ms in (before, within, later)]
    found = [one.at_ms for one in invalid_targets(reports, TargetFilter(), flows)]
    assert found == [before, *[within, later] * (not is_left_out)]


def test_what_was_doubted_stays_left_out_after_the_suspicion_unless_an_operator_confirms_it() -> None:
    since_ms = 10_000_000
    suspect = FlowPause(kind=PauseKind.SUSPECT, since_ms=since_ms)
    after = {kind: FlowPause(kind=kind, since_ms=since_ms + 10**6).after(suspect) for kind in PauseKind}
    reports = [report("a", at_ms=since_ms)]
    found = {
        kind: len(list(invalid_targets(reports, TargetFilter(), {"fcm/shop": entry}))) for kind, entry in after.items()
    }
    assert found == {kind: int(kind is PauseKind.CONFIRMED) for kind in PauseKind}
