"""The rules that find incidents in lanes and tasks."""

from typing import Any

from backends.pulsar.lane_stats import LaneStats
from estate.rules.incidents import Incident, blocked_lanes, joined, stuck_lanes
from tests.records import lane_stats
from tests.unit.tasks import task_view


def measured(topic: str, **fields: Any) -> LaneStats:
    """A lane in which nothing happens, but for these figures."""
    return lane_stats(topic, **{"backlog": 0, "rate_in": 0.0, "blocked": False, **fields})


def test_each_blocked_subscription_is_an_incident() -> None:
    assert not list(blocked_lanes([measured("a")]))
    lanes = [measured("b", partition=1, blocked=True), measured("a", blocked=True), measured("c")]
    assert [one.topics for one in blocked_lanes(lanes)] == [("a",), ("b-partition-1",)]


def test_a_task_without_progress_is_an_incident_if_its_lane_has_a_backlog_or_its_broker_is_silent() -> None:
    task = task_view("sale", lane="lane-of-sale", partitions=2)
    backlog = [measured("lane-of-sale", partition=0), measured("lane-of-sale", partition=1, backlog=3)]
    (one,) = stuck_lanes([task], backlog, all_answered=True)
    assert one.topics == ("lane-of-sale-partition-0", "lane-of-sale-partition-1")
    assert not list(stuck_lanes([task], [measured("lane-of-sale")], all_answered=False))
    assert not list(stuck_lanes([task], [], all_answered=True))
    assert list(stuck_lanes([task], [], all_answered=False))


def test_incidents_of_one_look_become_one() -> None:
    both = joined([Incident("first", node="n", topics=("a", "b")), Incident("second", topics=("b", "c"))])
    assert both == Incident("first (and 1 more)", node="n", topics=("a", "b", "c"))


def test_a_task_is_the_same_subject_however_much_it_has_left() -> None:
    assert Incident("5 left", task="sale").subject == Incident("4 left", task="sale").subject
    assert Incident("slow", node="a").subject != Incident("slow", node="b").subject
