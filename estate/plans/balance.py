"""Plans of moves of bundles between brokers.

A broker of a plan either gives or takes, never both. So whichever moves are left out or fail, and in whatever order the
others are made, no broker ever carries more than the most loaded one did before. Only a drain may raise the largest
load: the bundles of the drained broker must go somewhere.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum

from dispatcher.model.errors import InvalidInput, Refused

CLOSE_ENOUGH = 0.1
"""Loads within this part of their mean are not moved any more: each move closes its lanes for up to half a second."""
MIN_GAIN = 0.01
"""A move that narrows the spread by less than this part of the mean load is not worth its pause."""
_ROUNDING = 1e-9


class Goal(StrEnum):
    """The load that a plan levels."""

    BYTES = "bytes"
    """Bytes per second in and out."""
    LANES = "lanes"
    """Number of topics."""
    CPU = "cpu"
    """CPU, as each broker's is divided between its bundles by their messages."""


@dataclass(frozen=True)
class WeightedBundle:
    """A bundle with the load that counts for the goal."""

    name: str
    """tenant/namespace/range."""
    broker: str
    """Its owner."""
    weight: float


@dataclass(frozen=True)
class Move:
    """One planned move."""

    bundle: str
    """tenant/namespace/range."""
    source: str
    """The broker that owns it."""
    target: str
    """The broker that should own it."""
    weight: float = 0.0


@dataclass(frozen=True)
class MovePlan:
    """Moves, largest first, and the load of each broker before and after them."""

    moves: tuple[Move, ...]
    before: Mapping[str, float]
    after: Mapping[str, float]

    def with_only(self, made: Collection[Move]) -> "MovePlan":
        """Return the plan as it was carried out: the loads afterwards are those of the moves that were made."""
        return replace(self, after=_after(made, self.before))

    @property
    def spread_before(self) -> float:
        return spread_of(self.before)

    @property
    def spread_after(self) -> float:
        return spread_of(self.after)


def spread_of(loads: Mapping[str, float]) -> float:
    """Return the difference between the largest and the smallest load, as a part of their mean; 0 without load."""
    mean = sum(loads.values()) / len(loads) if loads else 0.0
    return (max(loads.values()) - min(loads.values())) / mean if mean > 0 else 0.0


def loads_of(bundles: Iterable[WeightedBundle], brokers: Collection[str]) -> dict[str, float]:
    """Return the load of each broker, also of those without a bundle."""
    loads = dict.fromkeys(brokers, 0.0)
    for bundle in bundles:
        loads[bundle.broker] = loads.get(bundle.broker, 0.0) + bundle.weight
    return loads


# ---------------------------------------------------------------- balance
def plan_balance(
    bundles: Sequence[WeightedBundle], brokers: Collection[str], fixed: Mapping[str, float] | None = None
) -> MovePlan:
    """Return the moves that level the load of brokers, largest bundles first.

    No move can be left out of the plan without a wider spread that is not close enough either.
    brokers: those that may take and give; a bundle on another one stays. fixed: load of a broker that is not moved.
    Raises InvalidInput for weights that are negative or no number.
    """
    _check(bundles)
    before = loads_of((bundle for bundle in bundles if bundle.broker in brokers), brokers)
    for broker, load in (fixed or {}).items():
        if broker in before:
            before[broker] += load
    moves = _greedy([bundle for bundle in bundles if bundle.broker in brokers], dict(before))
    moves = _without_needless(moves, before)
    return _plan(moves, before)


def _check(bundles: Iterable[WeightedBundle]) -> None:
    for bundle in bundles:
        if not 0 <= bundle.weight < float("inf"):
            raise InvalidInput(f"balance: bundle {bundle.name} has the load {bundle.weight}.")


def _greedy(bundles: Sequence[WeightedBundle], loads: dict[str, float]) -> list[Move]:
    """Move from the most loaded giver to the least loaded taker until they are close, or no move helps."""
    left = {broker: [bundle for bundle in bundles if bundle.broker == broker] for broker in loads}
    moves: list[Move] = []
    givers, takers = set(loads), set(loads)
    while spread_of(loads) > CLOSE_ENOUGH:
        move = _best_move(left, loads, givers, takers)
        if move is None:
            return moves
        moves.append(move)
        _apply(move, loads)
        left[move.source] = [bundle for bundle in left[move.source] if bundle.name != move.bundle]
        givers.discard(move.target)
        takers.discard(move.source)
    return moves


def _best_move(
    left: Mapping[str, list[WeightedBundle]],
    loads: Mapping[str, float],
    givers: AbstractSet[str],
    takers: AbstractSet[str],
) -> Move | None:
    """Return the move that levels a pair of brokers best: from the most loaded one that has such a move."""
    for source in sorted(givers, key=lambda broker: (-loads[broker], broker)):
        for target in sorted(takers - {source}, key=lambda broker: (loads[broker], broker)):
            gap = loads[source] - loads[target]
            # A bundle of nearly the whole gap would only change the places of the two.
            fitting = [bundle for bundle in left[source] if 0 < bundle.weight < gap * (1 - MIN_GAIN)]
            if fitting:
                best = min(fitting, key=lambda bundle: (abs(gap / 2 - bundle.weight), -bundle.weight, bundle.name))
                return Move(best.name, source, target, best.weight)
    return None


def _apply(move: Move, loads: dict[str, float]) -> None:
    loads[move.source] -= move.weight
    loads[move.target] += move.weight


def _without_needless(moves: Sequence[Move], before: Mapping[str, float]) -> list[Move]:
    """Leave out moves, the smallest first, as long as the result is close enough or no worse without them."""
    kept = sorted(moves, key=lambda move: (-move.weight, move.bundle))
    bound = min(max(CLOSE_ENOUGH, spread_of(_after(kept, before)) + MIN_GAIN), spread_of(before))
    for move in reversed(list(kept)):
        fewer = [other for other in kept if other is not move]
        if spread_of(_after(fewer, before)) <= bound + _ROUNDING:
            kept = fewer
    return kept


def _after(moves: Iterable[Move], before: Mapping[str, float]) -> dict[str, float]:
    loads = dict(before)
    for move in moves:
        _apply(move, loads)
    return loads


def _plan(moves: Sequence[Move], before: Mapping[str, float]) -> MovePlan:
    ordered = sorted(moves, key=lambda move: (-move.weight, move.bundle))
    return MovePlan(tuple(ordered), dict(before), _after(ordered, before))


# ---------------------------------------------------------------- drain
def plan_drain(bundles: Sequence[WeightedBundle], brokers: Collection[str], drained: str) -> MovePlan:
    """Return the moves that empty a broker: largest bundles first, each to the least loaded of the others.

    Bundles without load are divided by number. brokers: those that may take. Raises Refused if there is no other one.
    """
    _check(bundles)
    takers = sorted(set(brokers) - {drained})
    if not takers:
        raise Refused(f"There is no broker but {drained} that could take its bundles.", "Start another one first.")
    before = loads_of((bundle for bundle in bundles if bundle.broker in {*takers, drained}), {*takers, drained})
    loads, counts = dict(before), Counter(bundle.broker for bundle in bundles)
    moves = []
    for bundle in sorted(bundles, key=lambda bundle: (-bundle.weight, bundle.name)):
        if bundle.broker != drained:
            continue
        target = min(takers, key=lambda broker: (loads[broker], counts[broker], broker))
        moves.append(Move(bundle.name, drained, target, bundle.weight))
        _apply(moves[-1], loads)
        counts[target] += 1
    return _plan(moves, before)


# ---------------------------------------------------------------- hot bundles
def hot_bundles(bundles: Sequence[WeightedBundle], plan: MovePlan) -> list[WeightedBundle]:
    """Return the bundles that keep a plan from levelling the load: only a split helps, largest first.

    They are the largest bundles of brokers that are above the mean after the plan, if they weigh more than the gap.
    """
    mean = sum(plan.after.values()) / len(plan.after) if plan.after else 0.0
    moved = {move.bundle: move.target for move in plan.moves}
    there = [replace(bundle, broker=moved.get(bundle.name, bundle.broker)) for bundle in bundles]
    hot = []
    for broker, load in plan.after.items():
        own = [bundle for bundle in there if bundle.broker == broker]
        largest = max(own, key=lambda bundle: bundle.weight, default=None)
        if largest is not None and load > mean * (1 + CLOSE_ENOUGH) and largest.weight > load - mean:
            hot.append(largest)
    return sorted(hot, key=lambda bundle: -bundle.weight)
