"""Laws of the local pick between the fresh work of a tier and its retries."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.model.tier import TIERS, Tier
from dispatcher.scheduling.scheduler import Scheduler
from dispatcher.scheduling.sharing import Work
from tests.unit.lanes_to_pick import (
    HIGH,
    LOW,
    MEDIUM,
    backlogged,
    chunks,
    lane_weights,
    retrying,
    send,
    send_targets,
    sizes,
)


@given(weights=st.lists(lane_weights, min_size=1, max_size=5), size=chunks, retry_size=chunks, lanes=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_retry_lanes_together_are_sent_a_ninth_of_fresh_work(
    weights: list[int], size: int, retry_size: int, lanes: int
) -> None:
    """However many there are of either, and whatever their weights."""
    scheduler: Scheduler[str] = Scheduler()
    backlogged(scheduler, {f"fresh{i}": (LOW, weight) for i, weight in enumerate(weights)})
    retrying(scheduler, lanes, LOW)
    sizes = {f"fresh{i}": size for i in range(len(weights))} | {f"retry{i}": retry_size for i in range(lanes)}
    sent = send_targets(scheduler, 40_000, sizes)
    retries = [name.startswith("retry") for name, targets in sent for _ in range(targets)]
    for start in range(0, 30_000, 1_000):
        window = sum(retries[start : start + 10_000])
        assert abs(window - 1_000) <= size + retry_size


@given(size=chunks, retry_size=chunks)
@settings(max_examples=40, deadline=None)
def test_retries_are_not_starved(size: int, retry_size: int) -> None:
    """Law 3 within a tier: between two sends of the retries, fresh work sends at most nine times the last, plus one."""
    scheduler: Scheduler[str] = Scheduler()
    backlogged(scheduler, {"fresh0": (HIGH, 50_000), "fresh1": (HIGH, 1)})
    retrying(scheduler, 2)
    sizes = {"fresh0": size, "fresh1": size, "retry0": retry_size, "retry1": retry_size}
    between = 0
    for name, targets in send_targets(scheduler, 50_000, sizes):
        between = between + targets if name.startswith("fresh") else 0
        assert between <= 9 * retry_size + size


@given(before=st.integers(1, 500), lanes=st.integers(1, 5), size=sizes, tier=st.sampled_from(TIERS))
@settings(max_examples=25, deadline=None)
def test_fresh_work_that_comes_late_neither_waits_for_retries_nor_owes(
    before: int, lanes: int, size: int, tier: Tier
) -> None:
    """Retries have the tier to themselves while there is no fresh work."""
    scheduler: Scheduler[str] = Scheduler()
    retrying(scheduler, lanes, tier)
    assert all(send(scheduler, size).startswith("retry") for _ in range(before))
    backlogged(scheduler, {"late": (tier, 1_000)})
    assert send(scheduler, size) == "late"
    sent = Counter(send(scheduler, size) for _ in range(400))
    assert abs(sent["late"] - 360) <= 2


def test_fresh_work_that_leaves_lets_retries_have_the_tier_at_once() -> None:
    scheduler: Scheduler[str] = Scheduler()
    entries = backlogged(scheduler, {"fresh": (HIGH, 1_000), "low": (LOW, 1_000)})
    retrying(scheduler, 1)
    for _ in range(5_000):
        send(scheduler, 10)
    scheduler.leave(entries["fresh"])
    sent = Counter(send(scheduler, 10) for _ in range(700))
    assert abs(sent["retry0"] - 600) <= 2, "the share of high"
    scheduler.enter(entries["fresh"])
    sent = Counter(send(scheduler, 10) for _ in range(700))
    assert abs(sent["fresh"] - 540) <= 2
    assert abs(sent["retry0"] - 60) <= 2


def test_retries_that_leave_and_come_back_gain_nothing() -> None:
    """Their credit is often no more than an envelope."""
    scheduler: Scheduler[str] = Scheduler()
    backlogged(scheduler, {"fresh": (HIGH, 1_000)})
    (retry,) = retrying(scheduler, 1)
    sent: Counter[str] = Counter()
    for _ in range(5_000):
        sent[send(scheduler, 10)] += 1
        scheduler.leave(retry)
        scheduler.enter(retry)
    assert abs(sent["retry0"] - 500) <= 2


def test_fresh_work_that_leaves_and_comes_back_does_not_wait_for_retries() -> None:
    scheduler: Scheduler[str] = Scheduler()
    entries = backlogged(scheduler, {"fresh": (HIGH, 1_000)})
    retrying(scheduler, 5)
    for _ in range(1_000):
        scheduler.leave(entries["fresh"])
        assert send(scheduler, 500).startswith("retry")
        scheduler.enter(entries["fresh"])
        assert send(scheduler, 1) == "fresh"


def test_retries_keep_their_part_when_many_lanes_come_or_weights_change() -> None:
    """Earlier targets count as targets, not by the weights of the lanes that there were."""
    scheduler: Scheduler[str] = Scheduler()
    backlogged(scheduler, {"fresh": (HIGH, 1)})
    retrying(scheduler, 1)
    for _ in range(100):
        send(scheduler, 50)
    backlogged(scheduler, {f"more{number}": (HIGH, 1_000_000) for number in range(200)})
    scheduler.set_tier_weights({HIGH: 1, MEDIUM: 1, LOW: 1})
    sent = Counter(send(scheduler, 50)[:5] for _ in range(1_000))
    assert abs(sent["retry"] - 100) <= 2


def test_retries_in_a_closed_group_leave_the_tier_to_fresh_work_and_the_reverse() -> None:
    scheduler: Scheduler[str] = Scheduler()
    scheduler.enter(scheduler.entry("fresh", HIGH, 1_000, "http"))
    scheduler.enter(scheduler.entry("retry", HIGH, 1_000, "null", Work.RETRIES))
    for closed, sole in (("null", "fresh"), ("http", "retry")):
        scheduler.close(closed)
        assert {send(scheduler, 1) for _ in range(1_000)} == {sole}
        scheduler.open(closed)
        sent = Counter(send(scheduler, 1) for _ in range(1_000))
        assert abs(sent["retry"] - 100) <= 9
