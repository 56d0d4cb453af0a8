"""Tiers and their weights in the sharing of capacity."""

from enum import StrEnum

from dispatcher.model.errors import InvalidInput

MILLI = 1000
"""Weights are stored in thousandths, as integers."""
MIN_WEIGHT = 0.001
MAX_WEIGHT = 1_000


class Tier(StrEnum):
    """A task's priority class, which sets its weight in the sharing of capacity."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


TIERS: tuple[Tier, ...] = (Tier.HIGH, Tier.MEDIUM, Tier.LOW)
DEFAULT_TIER_WEIGHTS: dict[Tier, int] = {Tier.HIGH: 6 * MILLI, Tier.MEDIUM: 3 * MILLI, Tier.LOW: 1 * MILLI}
"""Weights of the tiers in thousandths; 6:3:1 unless set otherwise."""
SHARED_BY = ("tasks", "apps")
"""How tasks share within a tier: by their own weights, or by the weights of apps and then of their tasks."""


def in_milli(name: str, weight: object) -> int:
    """Return a weight in thousandths. Raises InvalidInput with this name if the weight is not valid."""
    number = weight if isinstance(weight, int | float) and not isinstance(weight, bool) else 0
    if not MIN_WEIGHT <= number <= MAX_WEIGHT:
        raise InvalidInput(f"{name}: is {weight!r}; it must be {MIN_WEIGHT} to {MAX_WEIGHT:,}.")
    return round(number * MILLI)
