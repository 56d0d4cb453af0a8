"""Which lanes a capture records, and what counts as an incident."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backends.pulsar.estate.lane_stats import LaneStats
from estate.capture.incidents import Incident, blocked_lanes, joined, stuck_lanes
from estate.capture.lanes import MAX_CANDIDATES, MAX_LANES, LaneFacts, candidates, chosen, facts_of, summary
from fairlane.estate.capture.archive import longest_that_fits
from tests.records import lane_stats
from tests.unit.tasks import task_view

BOOKIE = "127.0.0.2:3181"
QUIET: dict[str, Any] = {"backlog": 0, "rate_in": 0.0, "blocked": False}


def measured(topic: str, **fields: Any) -> LaneStats:
    """A lane in which nothing happens, but for these figures."""
    return lane_stats(topic, **{**QUIET, **fields})


def facts(topic: str, **fields: Any) -> LaneFacts:
    plain: dict[str, Any] = {"added": 0, "pending": 0, "backlog": 0, "blocked": False, "bookies": ()}
    return LaneFacts(topic=topic, **{**plain, **fields})


def internal(*ensembles: str, **fields: Any) -> dict[str, Any]:
    text = ", ".join(f"{number * 10}=[{ensemble}]" for number, ensemble in enumerate(ensembles))
    metadata = f"LedgerMetadata{{formatVersion=3, password=OMITTED, ensembles={{{text}}}, customMetadata={{a=b}}}}"
    return {"ledgers": [{"metadata": "ensembles={0=[old:1]}"}, {"metadata": metadata}], **fields}


def test_named_lanes_come_first_then_blocked_ones_then_by_rate_and_backlog_in_turn() -> None:
    lanes = [
        measured("quiet"),
        measured("large", backlog=9),
        measured("busy", rate_in=5.0, backlog=1),
        measured("stuck", blocked=True),
        measured("wide", partition=2, backlog=4),
    ]
    assert candidates(["mine"], lanes) == ["mine", "stuck", "busy", "large", "wide-partition-2"]


def test_there_are_at_most_so_many_candidates_and_lanes() -> None:
    lanes = [measured(f"lane-{number}", backlog=number) for number in range(1, 1_000)]
    assert len(candidates([], lanes)) == MAX_CANDIDATES
    assert candidates([], lanes)[0] == "lane-999"
    assert len(chosen([facts(f"lane-{number}") for number in range(100)], [], "")) == MAX_LANES


def test_lanes_whose_entries_wait_for_the_bookie_of_the_incident_come_before_larger_ones() -> None:
    looks = [
        facts("large", backlog=1_000),
        facts("elsewhere", pending=3, bookies=("b:1",)),
        facts("here", pending=1, bookies=(BOOKIE,)),
        facts("named"),
    ]
    assert chosen(looks, ["named"], BOOKIE) == ["named", "here", "elsewhere", "large"]


def test_the_bookies_are_those_of_the_newest_ledger_before_and_after_a_change_of_its_ensemble() -> None:
    stats = {"subscriptions": {"dispatch": {"msgBacklog": 7, "blockedSubscriptionOnUnackedMsgs": True}}}
    read = facts_of("t", stats, internal(f"{BOOKIE}, b:1", "b:1, b:2", pendingAddEntriesCount=4, entriesAddedCounter=9))
    assert read == facts("t", added=9, pending=4, backlog=7, blocked=True, bookies=(BOOKIE, "b:1", "b:2"))


def test_documents_of_another_form_say_nothing_and_stop_nothing() -> None:
    documents: list[Any] = [None, [], "text", 5, {"ledgers": 3}, {"ledgers": [5]}, {"subscriptions": []}]
    for nonsense in documents:
        assert facts_of("t", nonsense, nonsense) == facts("t")


def test_a_lane_is_stopped_if_entries_wait_and_none_was_stored_between_two_looks() -> None:
    waiting = facts("t", pending=5, added=10)
    assert summary(waiting, facts("t", pending=6, added=10))["stopped"]
    assert not summary(waiting, facts("t", pending=6, added=11))["stopped"]
    assert not summary(waiting, facts("t", pending=0, added=10))["stopped"]
    assert not summary(None, waiting)["stopped"]


def test_all_blocked_subscriptions_are_one_incident() -> None:
    assert not blocked_lanes([measured("a")])
    (one,) = blocked_lanes([measured("b", blocked=True), measured("a", blocked=True), measured("c")])
    assert one == Incident("subscription of a and 1 more is blocked by unacknowledged messages", topics=("a", "b"))


def test_a_task_without_progress_is_an_incident_if_its_lane_has_a_backlog_or_its_broker_is_silent() -> None:
    task = task_view("sale", lane="lane-of-sale", partitions=2)
    backlog = [measured("lane-of-sale", partition=0), measured("lane-of-sale", partition=1, backlog=3)]
    (one,) = stuck_lanes([task], backlog, all_answered=True)
    assert one.topics == ("lane-of-sale-partition-0", "lane-of-sale-partition-1")
    assert not stuck_lanes([task], [measured("lane-of-sale")], all_answered=False)
    assert not stuck_lanes([task], [], all_answered=True)
    assert stuck_lanes([task], [], all_answered=False)


def test_incidents_of_one_look_become_one() -> None:
    both = joined([Incident("first", node="n", topics=("a", "b")), Incident("second", topics=("b", "c"))])
    assert both == Incident("first (and 1 more)", node="n", topics=("a", "b", "c"))


@given(st.lists(st.integers(0, 1_000)), st.integers(0, 5_000))
def test_texts_cut_to_the_longest_that_fits_keep_to_the_budget_and_use_it(sizes: list[int], budget: int) -> None:
    longest = longest_that_fits(sizes, budget)
    assert sum(min(size, longest) for size in sizes) <= budget
    if sum(sizes) > budget:
        assert sum(min(size, longest + 1) for size in sizes) > budget
    else:
        assert longest == max(sizes, default=0)
