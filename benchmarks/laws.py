"""The laws of sharing on real servers, from every single delivery: tiers by count and by time, and the cap."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from benchmarks import slow_log
from benchmarks.deliveries import Delivery, DeliveryLog
from benchmarks.shares import CAPACITY, WANTED, Load, fill, sent
from benchmarks.stage import SEE_LOGS, Stage, stage, wait_for
from dispatcher.model.errors import FairlaneError
from dispatcher.model.pools import Cap
from dispatcher.model.tier import TIERS, Tier
from fairlane.settings import Settings
from lab.laws import SECOND_US, CapSince, TimedTargets, overshoot
from producers.handle import TaskHandle

MEASURED_S = 30.0
WINDOW_TARGETS, WINDOW_US = 10_000, 10 * SECOND_US
UNCAPPED_CHUNK = 20
"""Targets per envelope where the workers are the limit."""


def windows_of_targets(deliveries: Sequence[Delivery], targets: int) -> Iterator[Counter[str]]:
    """Yield the targets by tier of every run of this many consecutive targets, to whole envelopes."""
    inside: Counter[str] = Counter()
    total = first = 0
    for delivery in deliveries:
        inside[delivery.tier] += delivery.targets
        total += delivery.targets
        while total - deliveries[first].targets >= targets:
            inside[deliveries[first].tier] -= deliveries[first].targets
            total -= deliveries[first].targets
            first += 1
        if total >= targets:
            yield inside


def windows_of_time(deliveries: Sequence[Delivery], length_us: int) -> Iterator[Counter[str]]:
    """Yield the targets by tier in the time before each delivery, once that much time has passed."""
    inside: Counter[str] = Counter()
    first = 0
    for delivery in deliveries:
        inside[delivery.tier] += delivery.targets
        while deliveries[first].at_us <= delivery.at_us - length_us:
            inside[deliveries[first].tier] -= deliveries[first].targets
            first += 1
        if delivery.at_us - deliveries[0].at_us >= length_us:
            yield inside


def deviation(inside: Counter[str]) -> float:
    """Return the deviation of the tier that is furthest from its wanted share, in points."""
    total = inside.total()
    return max(abs(100 * inside[tier] / total - 100 * WANTED[tier]) for tier in TIERS)


def deviations(deliveries: Sequence[Delivery]) -> dict[str, float]:
    """Return the worst deviations of the shares, in points, from the first delivery on."""
    if (
        not any(windows_of_time(deliveries, WINDOW_US))
        or sum(delivery.targets for delivery in deliveries) < WINDOW_TARGETS
    ):
        raise FairlaneError(f"{len(deliveries)} deliveries are too few, or took too little time, to judge.", SEE_LOGS)
    return {
        "worst_of_10000_points": max(map(deviation, windows_of_targets(deliveries, WINDOW_TARGETS))),
        "worst_of_10_s_points": max(map(deviation, windows_of_time(deliveries, WINDOW_US))),
    }


def judged(deliveries: Sequence[Delivery]) -> dict[str, float]:
    """Return the worst deviations of the shares, in points, and the most targets in any second.

    Both from the first delivery on. Also returns the maximum that capacity, burst and an envelope of each tier allow.
    """
    shares = deviations(deliveries)
    doses: list[TimedTargets] = [(delivery.at_us, delivery.targets) for delivery in deliveries]
    highest, limit = overshoot(doses, [CapSince(0, Cap(CAPACITY))], envelope_of_each_tier(deliveries)) or (0, 0.0)
    return {**shares, "most_in_a_second": highest, "limit_in_a_second": limit}


def judged_uncapped(deliveries: Sequence[Delivery]) -> dict[str, float]:
    """Return the worst deviations of the shares, in points, and targets/s.

    Also returns the part of 10,000 targets that an envelope of each tier makes up, in points.
    """
    shares = deviations(deliveries)
    seconds = (deliveries[-1].at_us - deliveries[0].at_us) / SECOND_US
    return {
        **shares,
        "envelope_of_each_tier_points": 100 * envelope_of_each_tier(deliveries) / WINDOW_TARGETS,
        "targets_per_s": sum(delivery.targets for delivery in deliveries) / seconds,
    }


def envelope_of_each_tier(deliveries: Sequence[Delivery]) -> int:
    """Return the sum of the largest envelopes of each tier, in targets."""
    return sum(max((d.targets for d in deliveries if d.tier == tier), default=0) for tier in TIERS)


def run(settings: Settings, seed: int, workers: int, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: all tiers have a backlog before the workers start, all at once."""
    with stage(settings, say) as scene:
        scene.client.set_capacity(CAPACITY)
        handles = fill(scene, MEASURED_S + 15, seed, Load("log"))
        return judged(_delivered(scene, handles, workers))


def run_uncapped(settings: Settings, seed: int, workers: int, say: Callable[[str], None]) -> dict[str, float]:
    """Do the same with no capacity set, and a channel whose calls take time: the workers are the limit."""
    with stage(settings, say) as scene:
        scene.crew.environment |= slow_log.environment(scene.log)
        rate = workers * slow_log.CALLS / slow_log.CALL_S * UNCAPPED_CHUNK
        handles = fill(scene, MEASURED_S + 15, seed, Load(slow_log.NAME, rate, UNCAPPED_CHUNK))
        return judged_uncapped(_delivered(scene, handles, workers))


def _delivered(scene: Stage, handles: dict[Tier, list[TaskHandle]], workers: int) -> list[Delivery]:
    """Start the workers; return all deliveries in the order of time.

    Deliveries of the same millisecond keep the order in which they were written.
    """
    for number in range(workers):
        scene.crew.join(f"worker-{number}")
    wait_for("the first targets", lambda: sum(sent(handles).values()) > 0, 120)
    time.sleep(MEASURED_S)
    return sorted(DeliveryLog(scene.log).new(), key=lambda delivery: delivery.at_us)
