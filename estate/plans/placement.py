"""Where Pulsar places topics: a namespace is cut into bundles by the CRC32 of its topics' full names.

CRC32 is linear, so the partitions of one topic differ by the same bits whatever the topic's name is. Eight partitions
are in exactly four bundles of a namespace with 4, 8, 16 or 32 bundles, and in eight of one with 64.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from zlib import crc32

from dispatcher.model.errors import InvalidInput
from dispatcher.wire.topics import topics_of_lane

HASHES = 2**32
SPREADING_BUNDLES = 64
"""The smallest power of two at which eight partitions of a lane are in eight bundles."""
MAX_BUNDLES = 256
_RANGE = re.compile(r"(0x[0-9a-f]{8})_(0x[0-9a-f]{8})")


def hash_of(topic: str) -> int:
    """Return the hash of a topic by its full name, persistent://tenant/namespace/name."""
    return crc32(topic.encode())


@dataclass(frozen=True, order=True)
class BundleRange:
    """The hashes of one bundle, from `low`. `high` is the first hash of the next bundle; the last bundle has it too."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high < HASHES:
            raise InvalidInput(f"bundle: {self.low:#x} to {self.high:#x} is not a range of hashes.")

    @property
    def name(self) -> str:
        """Return the name that REST paths and load reports have, as in 0x00000000_0x40000000."""
        return f"0x{self.low:08x}_0x{self.high:08x}"

    def holds(self, hashed: int) -> bool:
        return self.low <= hashed and (hashed < self.high or hashed == self.high == HASHES - 1)


def parse_range(name: str) -> BundleRange:
    """Parse a bundle's name. Raises InvalidInput."""
    parts = _RANGE.fullmatch(name)
    if parts is None:
        raise InvalidInput(f"bundle: {name!r} is not a range such as 0x00000000_0x40000000.")
    return BundleRange(int(parts[1], 16), int(parts[2], 16))


def equal_bundles(count: int) -> list[BundleRange]:
    """Return the bundles of a namespace that was created with this number of them. Raises InvalidInput."""
    if not 1 <= count <= MAX_BUNDLES:
        raise InvalidInput(f"bundles: {count} is not between 1 and {MAX_BUNDLES}.")
    bounds = [HASHES // count * number for number in range(count)] + [HASHES - 1]
    return [BundleRange(low, high) for low, high in pairwise(bounds)]


def bundle_of(topic: str, bundles: Sequence[BundleRange]) -> BundleRange:
    """Return the bundle that holds a topic. bundles: all of its namespace, in order."""
    return bundles[bisect_right(bundles, hash_of(topic), key=lambda bundle: bundle.low) - 1]


def spread_of_lane(lane: str, partitions: int, bundles: Sequence[BundleRange]) -> dict[BundleRange, int]:
    """Return how many partitions of a lane each bundle holds. Bundles without any are left out."""
    return Counter(bundle_of(topic, bundles) for topic in topics_of_lane(lane, partitions))


def bundles_for(brokers: int, partitions: int = 8) -> int:
    """Return the smallest power of two at which the partitions of a lane are in as many bundles as there are brokers.

    That is less than it seems: partitions in different bundles may still be on one broker. partitions: of a large lane.
    """
    reachable = min(brokers, partitions)
    count = 4
    while count < MAX_BUNDLES and _reached(partitions, count) < reachable:
        count *= 2
    return count


def _reached(partitions: int, count: int) -> int:
    return len(spread_of_lane("persistent://fairlane/tasks-00/any", partitions, equal_bundles(count)))


def split_point(bundle: BundleRange, weights: Mapping[str, float]) -> int | None:
    """Return the first hash of the upper half, if a bundle is split so that its halves weigh as much as possible alike.

    weights: of its topics, by full name. None if all of its topics have one hash, which no split can part.
    """
    by_hash: dict[int, float] = {}
    for topic, weight in weights.items():
        hashed = hash_of(topic)
        if bundle.holds(hashed):
            by_hash[hashed] = by_hash.get(hashed, 0.0) + weight
    hashes = sorted(by_hash)
    if len(hashes) < 2:
        return None
    below = list(accumulate(by_hash[hashed] for hashed in hashes))
    best = min(range(1, len(hashes)), key=lambda index: abs(2 * below[index - 1] - below[-1]))
    low, high = hashes[best - 1], hashes[best]
    return low + (high - low + 1) // 2  # in the middle, so that topics of later may be on both sides
