"""Compute the digest of an audience, which is the same for the same targets in any order and distribution."""

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

_MODULUS = 1 << 64


class AudienceDigest(NamedTuple):
    """Count and checksum of the targets of an audience, or of a part of it, in any order; `plus` joins two parts."""

    targets: int = 0
    sum: int = 0
    """The sum of a checksum of each target with its variables, modulo 2**64."""

    def plus(self, other: "AudienceDigest") -> "AudienceDigest":
        """Return the digest of both parts together."""
        return AudienceDigest(self.targets + other.targets, (self.sum + other.sum) % _MODULUS)

    @property
    def text(self) -> str:
        """Return the text that the seal keeps."""
        return f"sum:{self.sum:x}"


def digest_of(addresses: Sequence[str], variables: Sequence[bytes] | None) -> AudienceDigest:
    """Return the digest of these targets.

    variables: those of each target, with the same encoding for equal ones (empty: it has none). None: no target has
    any.
    """
    plain = map(str.encode, addresses)
    if variables is None:
        return AudienceDigest(len(addresses), sum(map(crc32, plain)))
    return AudienceDigest(len(addresses), sum(map(crc32, variables, map(crc32, plain))))
