"""The digest of an audience whose order is not known: the same for the same targets, however they were spread."""

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

_MODULUS = 1 << 64


class AudienceDigest(NamedTuple):
    """targets: how many; sum: of a checksum of each target with its variables, modulo 2**64. Those of two parts of an
    audience are added."""

    targets: int = 0
    sum: int = 0

    def plus(self, other: "AudienceDigest") -> "AudienceDigest":
        """Of both together."""
        return AudienceDigest(self.targets + other.targets, (self.sum + other.sum) % _MODULUS)

    @property
    def text(self) -> str:
        """As the seal keeps it."""
        return f"sum:{self.sum:x}"


def digest_of(addresses: Sequence[str], variables: Sequence[bytes] | None) -> AudienceDigest:
    """variables: of each target, encoded the same for the same ones (empty: it has none); None: no target has any."""
    plain = map(str.encode, addresses)
    if variables is None:
        return AudienceDigest(len(addresses), sum(map(crc32, plain)))
    return AudienceDigest(len(addresses), sum(map(crc32, variables, map(crc32, plain))))
