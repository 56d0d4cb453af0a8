"""Clusters on which Pulsar's shedders are compared: those that one is known to leave uneven, and a skewed one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from dispatcher.model.errors import InvalidInput
from estate.shedders import MIB, SHEDDERS, Bundle, Loads, Play, play

BYTES_OF_A_POINT = 10 * MIB
MESSAGES_OF_A_POINT = 2_000.0
"""Traffic per second that costs a broker one per cent of its usage."""
BUNDLES = 20
MAX_BUNDLES = 1_000

CASES: Mapping[str, tuple[float, ...]] = {
    "one-busy": (12.0, 2.0, 1.0, 1.0),
    "one-empty": (50.0, 50.0, 50.0, 50.0, 50.0, 0.0),
    "one-low": (*[80.0] * 10, 10.0),
    "two-thirds-on-one": (80.0, 10.0, 10.0, 10.0, 10.0),
}
"""Usage of the brokers in per cent, by name. The first three are PIP-220's, which ThresholdShedder leaves uneven."""


def cluster_of(usages: Sequence[float], bundles: int = BUNDLES) -> Loads:
    """Return brokers with these usages in per cent, each caused by equal bundles; none by an idle one.

    Raises InvalidInput.
    """
    if not usages or not all(isfinite(usage) and 0 <= usage <= 100 for usage in usages):
        raise InvalidInput("shedders: usages are one or more numbers between 0 and 100.")
    if not 1 <= bundles <= MAX_BUNDLES:
        raise InvalidInput(f"shedders: {bundles} bundles are not between 1 and {MAX_BUNDLES:,}.")
    return Loads(
        {
            f"broker-{index:02}": [
                Bundle(
                    name=f"bundle-{index:02}-{number}",
                    bytes=usage * BYTES_OF_A_POINT / bundles,
                    messages=usage * MESSAGES_OF_A_POINT / bundles,
                    usage=usage / bundles,
                )
                for number in range(bundles if usage else 0)
            ]
            for index, usage in enumerate(usages)
        }
    )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The results of all shedders on one cluster."""

    case: str
    usages: tuple[float, ...]
    """Usage of the brokers before, in per cent."""
    plays: Mapping[str, Play]
    """By the shedder's name."""


def compare_shedders(case: str, usages: Sequence[float], bundles: int, minutes: int) -> Comparison:
    """Play every shedder on the same cluster. Raises InvalidInput."""
    plays = {name: play(name, cluster_of(usages, bundles), minutes) for name in SHEDDERS}
    return Comparison(case=case, usages=tuple(usages), plays=plays)
