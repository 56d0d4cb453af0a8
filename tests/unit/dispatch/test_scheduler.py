"""Laws of the local pick."""

import random
from collections import Counter
from itertools import pairwise
from operator import attrgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.model.tier import TIERS, Tier
from dispatcher.scheduling.scheduler import Scheduler
from dispatcher.scheduling.sharing import Work, share_out
from tests.unit.lanes_to_pick import (
    HIGH,
    LOW,
    MEDIUM,
    backlogged,
    chunks,
    lane_weights,
    send,
    send_targets,
    sizes,
    tier_weights,
)


@given(weights=tier_weights, size=st.fixed_dictionaries(dict.fromkeys(TIERS, chunks)), lanes=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_any_ten_thousand_targets_are_shared_by_tier(
    weights: dict[Tier, int], size: dict[Tier, int], lanes: int
) -> None:
    scheduler: Scheduler[str] = Scheduler(weights)
    names = {f"{tier}/{i}": tier for tier in TIERS for i in range(lanes)}
    backlogged(scheduler, {name: (tier, 1000) for name, tier in names.items()})
    sent = send_targets(scheduler, 15_000, {name: size[tier] for name, tier in names.items()})
    tiers = [names[name] for name, targets in sent for _ in range(targets)]
    for start in range(0, 5_000, 500):
        window = Counter(tiers[start : start + 10_000])
        for tier in TIERS:
            fair = 10_000 * weights[tier] / sum(weights.values())
            # Each tier may be one of its envelopes ahead of its share; what they are ahead, another is behind.
            assert abs(window[tier] - fair) <= 100 + sum(size.values())


@given(weights=st.lists(lane_weights, min_size=2, max_size=6), size=sizes)
@settings(max_examples=25, deadline=None)
def test_lanes_of_a_tier_share_by_weight(weights: list[int], size: int) -> None:
    scheduler: Scheduler[str] = Scheduler()
    backlogged(scheduler, {str(i): (LOW, weight) for i, weight in enumerate(weights)})
    sent: Counter[str] = Counter()
    for name, targets in send_targets(
        scheduler, 200 * size * len(weights), {str(i): size for i in range(len(weights))}
    ):
        sent[name] += targets
    for (i, one), (j, two) in pairwise(enumerate(weights)):
        ahead = abs(sent[str(i)] / one - sent[str(j)] / two)
        assert ahead <= size / one + size / two, "start-time fair: never further apart than an envelope each"


# ------------------------------------------------------------------ law 3: no starvation
@given(weights=tier_weights, size=st.fixed_dictionaries(dict.fromkeys(TIERS, chunks)))
@settings(max_examples=40, deadline=None)
def test_the_gap_between_two_sends_of_a_tier_is_bounded(weights: dict[Tier, int], size: dict[Tier, int]) -> None:
    scheduler: Scheduler[str] = Scheduler(weights)
    backlogged(scheduler, {str(tier): (tier, 1000) for tier in TIERS})
    total = sum(weights.values())
    sent = send_targets(scheduler, 30_000, {str(tier): size[tier] for tier in TIERS})
    for tier in TIERS:
        largest_of_others = sum(size[other] for other in TIERS if other is not tier)
        bound = (total - weights[tier]) / weights[tier] * size[tier] + largest_of_others
        gap = 0
        seen = False
        for name, targets in sent:
            if name == tier:
                assert not seen or gap <= bound
                gap, seen = 0, True
            else:
                gap += targets


# ------------------------------------------------------------------ law 4: coming late, being idle
@given(before=st.integers(1, 1_000), weight=lane_weights, size=sizes)
@settings(max_examples=25, deadline=None)
def test_a_late_lane_neither_waits_nor_owes(before: int, weight: int, size: int) -> None:
    scheduler: Scheduler[str] = Scheduler()
    backlogged(scheduler, {"early": (HIGH, 1000)})
    for _ in range(before):
        send(scheduler, size)
    late = scheduler.entry("late", HIGH, weight)
    scheduler.enter(late)
    sent = Counter(send(scheduler, size) for _ in range(400))
    fair = 400 * weight / (weight + 1000)
    assert abs(sent["late"] - fair) <= 2


def test_an_idle_tier_saves_nothing_up() -> None:
    scheduler: Scheduler[str] = Scheduler()
    entries = backlogged(scheduler, {"high": (HIGH, 1000), "low": (LOW, 1000)})
    scheduler.leave(entries["high"])
    for _ in range(5_000):
        assert send(scheduler, 10) == "low"
    scheduler.enter(entries["high"])
    sent = Counter(send(scheduler, 10) for _ in range(700))
    assert abs(sent["high"] - 600) <= 2


def test_a_lane_that_leaves_and_comes_back_gains_nothing() -> None:
    scheduler: Scheduler[str] = Scheduler()
    entries = backlogged(scheduler, {"steady": (HIGH, 1000), "flighty": (HIGH, 1000)})
    sent: Counter[str] = Counter()
    for _ in range(2_000):
        sent[send(scheduler, 1)] += 1
        scheduler.leave(entries["flighty"])
        scheduler.enter(entries["flighty"])
    assert abs(sent["steady"] - sent["flighty"]) <= 2


# ------------------------------------------------------------------ law 5: live changes
def test_changes_of_weight_and_tier_count_at_once() -> None:
    scheduler: Scheduler[str] = Scheduler()
    entries = backlogged(scheduler, {"a": (HIGH, 1000), "b": (HIGH, 1000), "c": (LOW, 1000)})
    for _ in range(1_000):
        send(scheduler, 1)
    scheduler.change(entries["a"], HIGH, 3_000)
    sent = Counter(send(scheduler, 1) for _ in range(700))
    assert abs(sent["a"] - 450) <= 3
    scheduler.change(entries["a"], LOW, 1_000)
    sent = Counter(send(scheduler, 1) for _ in range(700))
    assert abs(sent["b"] - 600) <= 3
    assert abs(sent["a"] - 50) <= 3
    scheduler.set_tier_weights({HIGH: 1_000, MEDIUM: 1_000, LOW: 1_000})
    sent = Counter(send(scheduler, 1) for _ in range(700))
    assert abs(sent["b"] - 350) <= 3


# ------------------------------------------------------------------ groups
def test_a_closed_group_is_passed_over_and_not_owed() -> None:
    scheduler: Scheduler[str] = Scheduler()
    one = scheduler.entry("one", HIGH, 1000, "http")
    two = scheduler.entry("two", HIGH, 1000, "null")
    for entry in (one, two):
        scheduler.enter(entry)
    scheduler.close("http")
    assert {send(scheduler, 1) for _ in range(1_000)} == {"two"}
    scheduler.close("null")
    assert scheduler.pick() is None
    scheduler.open("http")
    scheduler.open("null")
    sent = Counter(send(scheduler, 1) for _ in range(100))
    assert abs(sent["one"] - 50) <= 1


def test_an_entry_of_a_closed_group_may_come_and_go() -> None:
    scheduler: Scheduler[str] = Scheduler()
    scheduler.close("http")
    entry = scheduler.entry("one", HIGH, 1000, "http")
    scheduler.enter(entry)
    assert scheduler.pick() is None
    scheduler.leave(entry)
    scheduler.open("http")
    assert scheduler.pick() is None
    scheduler.enter(entry)
    assert scheduler.pick() is entry


def test_groups_go_with_their_last_entry() -> None:
    """Whatever names there were: a pick looks at those that have something to send."""
    scheduler: Scheduler[str] = Scheduler()
    steady = scheduler.entry("steady", HIGH, 1000, "http")
    scheduler.enter(steady)
    for number in range(1_000):
        entry = scheduler.entry("passing", HIGH, 1000, f"channel{number}")
        scheduler.close(entry.group)
        scheduler.enter(entry)
        scheduler.open(entry.group)
        scheduler.charge(entry, 1)
        scheduler.change(entry, LOW, 1000)
        scheduler.leave(entry)
    assert [len(queue.groups) for queue in (steady.queue, entry.queue)] == [1, 0]
    assert scheduler.pick() is steady


# ------------------------------------------------------------------ any course of events
@st.composite
def course(draw: st.DrawFn) -> list[tuple[str, int]]:
    events = st.tuples(st.sampled_from(["enter", "leave", "send", "tier", "close", "open"]), st.integers(0, 5))
    return draw(st.lists(events, max_size=120))


@given(events=course())
@settings(max_examples=80, deadline=None)
def test_a_pick_is_always_one_that_can_be_sent_and_is_found_if_there_is_one(events: list[tuple[str, int]]) -> None:
    def play() -> list[str]:
        scheduler: Scheduler[str] = Scheduler()
        entries = [scheduler.entry(str(i), TIERS[i % 3], 1000, f"g{i % 2}", Work(i // 3)) for i in range(6)]
        entered: set[int] = set()
        closed: set[str] = set()
        order = []
        for event, i in events:
            if event == "enter":
                scheduler.enter(entries[i])
                entered.add(i)
            elif event == "leave":
                scheduler.leave(entries[i])
                entered.discard(i)
            elif event == "tier":
                scheduler.change(entries[i], TIERS[(i + 1) % 3], 2000)
            elif event == "close":
                closed.add(f"g{i % 2}")
                scheduler.close(f"g{i % 2}")
            elif event == "open":
                closed.discard(f"g{i % 2}")
                scheduler.open(f"g{i % 2}")
            possible = {str(i) for i in entered if f"g{i % 2}" not in closed}
            entry = scheduler.pick()
            assert (entry is None) == (not possible)
            if entry is not None:
                assert entry.item in possible
                scheduler.charge(entry, 3)
                order.append(entry.item)
        return order

    assert play() == play(), "the same events, the same picks"


@given(
    weights=st.lists(st.integers(1, 5_000), min_size=1, max_size=12),
    steps=st.lists(st.tuples(st.integers(0, 11), st.sampled_from(("send", "leave", "enter")), st.integers(1, 500))),
)
def test_the_entry_picked_is_the_one_furthest_behind(weights: list[int], steps: list[tuple[int, str, int]]) -> None:
    scheduler: Scheduler[str] = Scheduler()
    entries = [scheduler.entry(str(number), HIGH, weight) for number, weight in enumerate(weights)]
    for entry in entries:
        scheduler.enter(entry)
    for number, act, targets in steps:
        other = entries[number % len(entries)]
        if act != "send":
            (scheduler.leave if act == "leave" else scheduler.enter)(other)
        active = [entry for entry in entries if entry.active]
        picked = scheduler.pick()
        assert picked is min(active, key=lambda entry: (entry.time, entry.order), default=None)
        if picked is not None:
            scheduler.charge(picked, targets)


@pytest.mark.parametrize("heaviest", [1, 30, 5_000])
def test_the_same_among_so_many_that_they_are_laid_out_on_rungs(heaviest: int) -> None:
    chance = random.Random(heaviest)
    scheduler: Scheduler[str] = Scheduler()
    entries = [scheduler.entry(str(number), HIGH, chance.randint(1, heaviest)) for number in range(1_200)]
    for entry in entries:
        scheduler.enter(entry)
    for _ in range(6_000):
        for other in chance.sample(entries, chance.choice((0, 0, 0, 2))):
            (scheduler.leave if other.active else scheduler.enter)(other)
        picked = scheduler.pick()
        assert picked is min((entry for entry in entries if entry.active), key=attrgetter("time", "order"))
        scheduler.charge(picked, chance.choice((1, 10, 37, 50)))


@pytest.mark.parametrize("lanes", [10, 1_000])
def test_many_lanes_coming_and_going_leave_nothing_behind(lanes: int) -> None:
    scheduler: Scheduler[str] = Scheduler()
    entries = backlogged(scheduler, {str(i): (HIGH, 1000 + i) for i in range(lanes)})
    for _ in range(3 * lanes):
        send(scheduler, 50)
    (group,) = entries["0"].queue.groups.values()
    assert bool(group.rungs) == (lanes == 1_000)
    for _ in range(50_000 // lanes):
        for entry in entries.values():
            scheduler.leave(entry)
            scheduler.enter(entry)
    assert sum(map(len, (group.run, group.early, *group.rungs, group.later))) <= 2 * lanes + 64


# ------------------------------------------------------------------ sharing out
@given(
    total=st.integers(0, 10_000),
    needs=st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 9_000)), min_size=1, max_size=12),
)
def test_sharing_out_gives_no_more_than_needed_and_wastes_nothing(total: int, needs: list[tuple[int, int]]) -> None:
    shares = share_out(total, needs)
    assert all(share <= need for share, (need, _) in zip(shares, needs, strict=True))
    assert sum(shares) >= min(total, sum(need for need, _ in needs))
    assert sum(shares) <= total + len(needs)
    unmet = [share / weight for share, (need, weight) in zip(shares, needs, strict=True) if share < need]
    met = [share / weight for share, (need, weight) in zip(shares, needs, strict=True) if share == need]
    if unmet and met:
        assert min(met) <= max(unmet) + 1
