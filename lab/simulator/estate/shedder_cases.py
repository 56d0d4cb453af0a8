"""Clusters on which Pulsar's shedders are compared: those that one is known to leave uneven, and a skewed one."""

from collections.abc import Mapping, Sequence
from math import isfinite

from dispatcher.model.errors import InvalidInput
from lab.simulator.estate.shedders import MIB, SHEDDERS, WEIGHTS, Bundle, Loads, Play, ShedderSettings, play

BYTES_OF_A_POINT = 10 * MIB
MESSAGES_OF_A_POINT = 2_000.0
"""Traffic per second that costs a broker one per cent of its most used resource."""
BUNDLES = 20
MAX_BUNDLES = 1_000

Usage = Sequence[float]
"""Usage of one broker in per cent: of its CPU and, if given, of the other resources in the order of WEIGHTS."""

CASES: Mapping[str, Sequence[Usage]] = {
    "one-busy": [(12.0,), (2.0,), (1.0,), (1.0,)],
    "one-empty": [*[(50.0,)] * 5, (0.0,)],
    "one-low": [*[(80.0,)] * 10, (10.0,)],
    "two-thirds-on-one": [(80.0,), *[(10.0,)] * 4],
    "two-overloaded": [(95.0,), (90.0,), (40.0,), (40.0,)],
}
"""Usages of the brokers by name. The first three are PIP-220's, which ThresholdShedder leaves uneven."""


def cluster_of(usages: Sequence[Usage], bundles: int = BUNDLES, settings: ShedderSettings | None = None) -> Loads:
    """Return brokers with these usages, each caused by equal bundles; none by an idle one. Raises InvalidInput."""
    if not usages or not all(isfinite(points) and 0 <= points <= 100 for usage in usages for points in usage):
        raise InvalidInput("shedders: usages are one or more numbers between 0 and 100.")
    if not all(1 <= len(usage) <= len(WEIGHTS) for usage in usages):
        raise InvalidInput(f"shedders: a broker has 1 to {len(WEIGHTS)} usages: {', '.join(WEIGHTS)}.")
    if not 1 <= bundles <= MAX_BUNDLES:
        raise InvalidInput(f"shedders: {bundles} bundles are not between 1 and {MAX_BUNDLES:,}.")
    return Loads(
        {f"broker-{index:02}": _equal_bundles(index, usage, bundles) for index, usage in enumerate(usages)},
        settings or ShedderSettings(),
    )


def _equal_bundles(index: int, usage: Usage, bundles: int) -> list[Bundle]:
    points = {resource: each / bundles for resource, each in zip(WEIGHTS, usage, strict=False)}
    return [
        Bundle(
            name=f"bundle-{index:02}-{number}",
            bytes=max(points.values()) * BYTES_OF_A_POINT,
            messages=max(points.values()) * MESSAGES_OF_A_POINT,
            usage=points,
        )
        for number in range(bundles if any(usage) else 0)
    ]


def compare_shedders(
    usages: Sequence[Usage], bundles: int, minutes: int, settings: ShedderSettings | None = None
) -> dict[str, Play]:
    """Play every shedder on the same cluster; return the results by the shedder's name. Raises InvalidInput."""
    return {name: play(name, cluster_of(usages, bundles, settings), minutes) for name in SHEDDERS}
