"""Where Pulsar places topics: a namespace is cut into bundles by the CRC32 of its topics' full names.

CRC32 is linear, so the partitions of one topic differ by the same bits whatever the topic's name is. Eight partitions
are in exactly four bundles of a namespace with 4, 8, 16 or 32 bundles, and in eight of one with 64.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from zlib import crc32

from dispatcher.model.errors import InvalidInput

HASHES = 2**32
SPREADING_BUNDLES = 64
"""The smallest power of two at which eight partitions of a lane are in eight bundles."""
USUAL_BUNDLES = 4
"""With 4, 8, 16 or 32 bundles they are in four."""
_RANGE = re.compile(r"(0x[0-9a-f]{8})_(0x[0-9a-f]{8})")


def hash_of(topic: str) -> int:
    """Return the hash of a topic by its full name, persistent://tenant/namespace/name."""
    return crc32(topic.encode())


@dataclass(frozen=True)
class BundleRange:
    """The hashes of one bundle, from `low`. `high` is the first hash of the next bundle; the last bundle has it too."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high < HASHES:
            raise InvalidInput(f"bundle: {self.low:#x} to {self.high:#x} is not a range of hashes.")

    def holds(self, hashed: int) -> bool:
        return self.low <= hashed and (hashed < self.high or hashed == self.high == HASHES - 1)


def parse_range(name: str) -> BundleRange:
    """Parse a bundle's name. Raises InvalidInput."""
    parts = _RANGE.fullmatch(name)
    if parts is None:
        raise InvalidInput(f"bundle: {name!r} is not a range such as 0x00000000_0x40000000.")
    return BundleRange(int(parts[1], 16), int(parts[2], 16))


def bundles_for(brokers: int) -> int:
    """Return the number of bundles with which a lane of eight partitions reaches as many brokers as it can.

    That is less than it seems: partitions in different bundles may still be on one broker.
    """
    return USUAL_BUNDLES if brokers <= USUAL_BUNDLES else SPREADING_BUNDLES


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
