"""The quantities in the laws, as pure functions. Times are whole microseconds, amounts are targets."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from dispatcher.model.pools import Cap

TimedTargets = tuple[int, int]
"""(moment, targets)."""
SECOND_US = 1_000_000


class SendTurn(NamedTuple):
    """One send of a tier."""

    at_us: int
    tier: str
    targets: int


class Gap(NamedTuple):
    """The targets that others sent between two sends of a tier with a constant backlog, and law 3's bound for them."""

    targets: int
    bound: float
    at_us: int

    @property
    def ratio(self) -> float:
        """The gap as a multiple of the bound."""
        return self.targets / self.bound


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 if all are equal, 1/n if one has everything. 1 if all are zero."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def sums_by_window(amounts: Iterable[TimedTargets], window_us: int, count: int) -> list[int]:
    """Return the targets in each of `count` windows, starting at 0; later ones are left out."""
    sums = [0] * count
    for at_us, targets in amounts:
        index = at_us // window_us
        if index < count:
            sums[index] += targets
    return sums


def shares(sums: Mapping[str, float]) -> dict[str, float]:
    """Return percentages of the total by name; all zero if the total is."""
    total = sum(sums.values())
    return {name: 100 * part / total if total else 0.0 for name, part in sums.items()}


def longest_gap(
    turns: Sequence[SendTurn], arrivals: Mapping[str, Sequence[TimedTargets]], tier: str, weights: Mapping[str, float]
) -> Gap | None:
    """Return the gap of a tier that is largest relative to its bound; None if there is no gap.

    A gap is the number of targets that other tiers sent between two sends of this tier while it had a backlog. Its
    bound is (W - w) / w times the targets of the tier's last send, plus one largest send of each other tier; w is the
    tier's weight, W the sum of all. `turns`: all sends, in order. `arrivals`: targets that became ready, by tier, in
    order.
    """
    largest = {name: max((turn.targets for turn in turns if turn.tier == name), default=0) for name in weights}
    others = sum(size for name, size in largest.items() if name != tier)
    ratio = (sum(weights.values()) - weights[tier]) / weights[tier]
    arrived_us = [at_us for at_us, _ in arrivals.get(tier, ())]
    arrived = [0, *accumulate(targets for _, targets in arrivals.get(tier, ()))]
    worst: Gap | None = None
    last, between, sent = 0, 0, 0
    had_backlog = False
    for turn in turns:
        if turn.tier != tier:
            between += turn.targets
            continue
        if last and between and had_backlog:
            gap = Gap(between, ratio * last + others, turn.at_us)
            worst = gap if worst is None or gap.ratio > worst.ratio else worst
        last, between, sent = turn.targets, 0, sent + turn.targets
        had_backlog = arrived[bisect_right(arrived_us, turn.at_us)] > sent
    return worst


class CapSince(NamedTuple):
    """A cap, and the time from which it applies."""

    from_us: int
    cap: Cap


def overshoot(amounts: Sequence[TimedTargets], caps: Sequence[CapSince], envelopes: int) -> tuple[int, float] | None:
    """Return the targets granted and the limit of the second that comes closest to its limit; None if nothing was
    granted under a cap.

    The limit is cap x 1 s, the allowance, and one largest envelope per tier (`envelopes` in total). A cap that changed
    within the second counts for its part of it.
    """
    worst: tuple[int, float] | None = None
    total, first = 0, 0
    for at_us, targets in amounts:
        total += targets
        while amounts[first][0] <= at_us - SECOND_US:
            total -= amounts[first][1]
            first += 1
        limit = _limit(caps, at_us - SECOND_US, at_us)
        if limit is not None:
            limit += envelopes
            if worst is None or total / limit > worst[0] / worst[1]:
                worst = (total, limit)
    return worst


def _limit(caps: Sequence[CapSince], from_us: int, to_us: int) -> float | None:
    """Return the targets that a cap allows in [from, to], without the envelopes; None if it was off for some of it."""
    limit, allowance = 0.0, 0.0
    for index, (since_us, cap) in enumerate(caps):
        ends_us = caps[index + 1].from_us if index + 1 < len(caps) else to_us
        begins_us = from_us if index == 0 else max(since_us, from_us)
        if min(ends_us, to_us) < begins_us or (index and since_us > to_us):
            continue
        if not cap.rate:
            return None
        limit += cap.rate * (min(ends_us, to_us) - begins_us) / SECOND_US
        allowance = max(allowance, cap.allowance)
    return limit + allowance


def capacity_used(granted: Sequence[int], backlog: Sequence[int], worth: Sequence[int]) -> float | None:
    """Return the fraction of the capacity that was granted in windows with demand throughout; None if there were none.

    A window has demand throughout if more targets waited at its start and at its end than the capacity allows in it. By
    window: `granted`, `backlog` (at its end) and `worth` (the targets that the capacity allows, 0: no limit).
    """
    before = [0, *backlog]
    busy = [
        index
        for index in range(len(granted))
        if worth[index] and before[index] > worth[index] and backlog[index] > worth[index]
    ]
    if not busy:
        return None
    return sum(granted[index] for index in busy) / sum(worth[index] for index in busy)
