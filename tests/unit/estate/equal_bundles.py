"""The bundles of a namespace as Pulsar cuts them, and how the partitions of a lane spread over them."""

from collections import Counter
from itertools import pairwise

from dispatcher.wire.topics import topics_of_lane
from estate.plans.placement import HASHES, BundleRange, hash_of


def equal_bundles(count: int) -> list[BundleRange]:
    """Return the bundles of a namespace that was created with this number of them."""
    bounds = [HASHES // count * number for number in range(count)] + [HASHES - 1]
    return [BundleRange(low, high) for low, high in pairwise(bounds)]


def name_of(bundle: BundleRange) -> str:
    """Return the name that REST paths and load reports have, as in 0x00000000_0x40000000."""
    return f"0x{bundle.low:08x}_0x{bundle.high:08x}"


def spread_of_lane(lane: str, partitions: int, count: int) -> dict[BundleRange, int]:
    """Return how many partitions of a lane each of `count` bundles holds. Bundles without any are left out."""
    bundles = equal_bundles(count)
    topics = topics_of_lane(lane, partitions)
    return Counter(bundle for topic in topics for bundle in bundles if bundle.holds(hash_of(topic)))
