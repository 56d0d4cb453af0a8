"""Law 1 with no capacity set and a channel that takes no time: what limits the workers is receiving, and their own
order of sending is all that shares."""

from collections import Counter
from collections.abc import Callable, Sequence

from dispatcher.tier import TIERS, Tier
from fairlane.bench import tally_channel
from fairlane.bench.deliveries import Delivery
from fairlane.bench.laws import WINDOW_TARGETS, deviation, envelope_of_each_tier, windows_of_targets, windows_of_time
from fairlane.bench.shares import Load, fill, sent
from fairlane.bench.stage import stage, wait_for
from fairlane.settings import Settings
from fairlane.simulate.laws import SECOND_US

SECONDS = 3
ENVELOPES_PER_S, TARGETS_PER_S = 150_000, 3_000_000
"""More than two cores handle: so much is queued for each of the seconds."""
JUDGED = 0.8
"""Of a tier's targets: what comes later may be the last of one of its two tasks."""


def standing(found: Sequence[Delivery], queued: Counter[str]) -> list[Delivery]:
    """Those made while every tier had something: from the last tier's first delivery until a tier has sent most of what
    was queued of it."""
    first = max(next((n for n, delivery in enumerate(found) if delivery.tier == tier), len(found)) for tier in TIERS)
    made: Counter[str] = Counter()
    for end, delivery in enumerate(found):
        made[delivery.tier] += delivery.targets
        if made[delivery.tier] > JUDGED * queued[delivery.tier]:
            return list(found[first:end])
    return list(found[first:])


def judged(found: Sequence[Delivery]) -> dict[str, float]:
    """How far shares are off, in points: of any 10,000 targets, of any second, of all. Beside it what an envelope of
    each tier is of 10,000 targets, and targets/s."""
    by_count = sorted(map(deviation, windows_of_targets(found, WINDOW_TARGETS)))
    total = Counter[str]()
    for delivery in found:
        total[delivery.tier] += delivery.targets
    envelopes = 100 * envelope_of_each_tier(found) / WINDOW_TARGETS
    kept = sum(points <= 1 + envelopes for points in by_count)
    return {
        "median_of_10000_points": by_count[len(by_count) // 2],
        "worst_of_10000_points": by_count[-1],
        "envelope_of_each_tier_points": envelopes,
        "of_10000_within_law_percent": 100 * kept / len(by_count),
        "worst_of_a_second_points": max(map(deviation, windows_of_time(found, SECOND_US)), default=0.0),
        "shares_off_points": deviation(total),
        "targets_per_s": total.total() / (found[-1].at_us - found[0].at_us) * SECOND_US,
    }


def run(settings: Settings, seed: int, workers: int, chunk: int, say: Callable[[str], None]) -> dict[str, float]:
    """One run: all tiers backlogged before the workers start, all at once."""
    with stage(settings, say) as scene:
        scene.crew.environment |= tally_channel.environment(scene.log)
        rate = min(TARGETS_PER_S, ENVELOPES_PER_S * chunk)
        handles = fill(scene, SECONDS, seed, Load(tally_channel.NAME, rate, chunk))
        queued = Counter({str(tier): sum(one.progress().targets.total for one in handles[tier]) for tier in handles})
        for number in range(workers):
            scene.crew.join(f"worker-{number}")
        most = JUDGED * queued[str(Tier.HIGH)]
        wait_for("most of the high tier", lambda: max(sent(handles).values()) >= most, 300)
        return judged(standing(list(tally_channel.tallied(scene.log)), queued))
