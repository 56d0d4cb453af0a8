"""Law 1 with no capacity set and a channel that takes no time.

Receiving limits the workers, and only their own order of sending divides the rate among tiers.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import tally_channel
from benchmarks.deliveries import Delivery
from benchmarks.laws import (
    WINDOW_TARGETS,
    WINDOW_US,
    deviation,
    envelope_of_each_tier,
    windows_of_targets,
    windows_of_time,
)
from benchmarks.shares import TASKS_A_TIER, Load, fill, sent
from benchmarks.stage import SEE_LOGS, stage, wait_for
from dispatcher.model.errors import FairlaneError
from dispatcher.model.tier import Tier
from fairlane.settings import Settings
from lab.laws import SECOND_US

ENVELOPES_PER_S, TARGETS_PER_S = 150_000, 3_000_000
"""Approximately what two cores handle; this amount is queued for each second."""
JUDGED = 0.8
"""Part of a task's targets that is judged: later ones may be the last of the task."""


@dataclass(frozen=True)
class Backlog:
    """Size of the backlog."""

    chunk: int
    """Targets per envelope."""
    seconds: int
    """Approximate time that two cores need for it."""


def standing(deliveries: Sequence[Delivery], queued: Mapping[str, int]) -> list[Delivery]:
    """Return the deliveries made while every task had a backlog.

    They begin with the last task's first delivery and end when one task has sent most of its queued targets. `queued`:
    targets by task.
    """
    made = dict.fromkeys(queued, 0)
    idle, first = set(queued), 0
    for index, delivery in enumerate(deliveries):
        if delivery.task in idle:
            idle.remove(delivery.task)
            first = index
        made[delivery.task] += delivery.targets
        if made[delivery.task] > JUDGED * queued[delivery.task]:
            return [] if idle else list(deliveries[first:index])
    return [] if idle else list(deliveries[first:])


def judged(deliveries: Sequence[Delivery]) -> dict[str, float]:
    """Return the deviations of the shares, in points, for any 10,000 targets, any second, any 10 s, and all.

    The 10 s only where the run took so long. Also returns the part of 10,000 targets that an envelope of each tier
    makes up, and targets/s.
    """
    if sum(delivery.targets for delivery in deliveries) < WINDOW_TARGETS:
        raise FairlaneError(f"{len(deliveries)} deliveries of all tiers at once are too few to judge.", SEE_LOGS)
    by_count = sorted(map(deviation, windows_of_targets(deliveries, WINDOW_TARGETS)))
    total = Counter[str]()
    for delivery in deliveries:
        total[delivery.tier] += delivery.targets
    envelopes = 100 * envelope_of_each_tier(deliveries) / WINDOW_TARGETS
    kept = sum(points <= 1 + envelopes for points in by_count)
    return {
        "median_of_10000_points": by_count[len(by_count) // 2],
        "worst_of_10000_points": by_count[-1],
        "envelope_of_each_tier_points": envelopes,
        "of_10000_within_law_percent": 100 * kept / len(by_count),
        **_by_time(deliveries),
        "shares_off_points": deviation(total),
        "targets_per_s": total.total() / (deliveries[-1].at_us - deliveries[0].at_us) * SECOND_US,
    }


def _by_time(deliveries: Sequence[Delivery]) -> dict[str, float]:
    """Return the worst deviation of any second and of any 10 s. Workers that share a file write nearly in order."""
    in_time = sorted(deliveries, key=lambda delivery: delivery.at_us)
    lengths = {"worst_of_a_second_points": SECOND_US, "worst_of_10_s_points": WINDOW_US}
    worst = {name: max(map(deviation, windows_of_time(in_time, us)), default=None) for name, us in lengths.items()}
    return {name: points for name, points in worst.items() if points is not None}


def run(settings: Settings, seed: int, workers: int, backlog: Backlog, say: Callable[[str], None]) -> dict[str, float]:
    """Do one run: all tiers have a backlog before the workers start, all at once."""
    with stage(settings, say) as scene:
        scene.crew.environment |= tally_channel.environment(scene.log)
        rate = min(TARGETS_PER_S, ENVELOPES_PER_S * backlog.chunk) / TASKS_A_TIER
        handles = fill(scene, backlog.seconds, seed, Load(tally_channel.NAME, rate, backlog.chunk))
        queued = {handle.id: handle.progress().targets.total for of_tier in handles.values() for handle in of_tier}
        for number in range(workers):
            scene.crew.join(f"worker-{number}")
        limit = JUDGED * sum(queued[handle.id] for handle in handles[Tier.HIGH])
        wait_for("most of the high tier", lambda: sent(handles)[Tier.HIGH] >= limit, 50 * backlog.seconds)
        return judged(standing(list(tally_channel.tallied(scene.log)), queued))
