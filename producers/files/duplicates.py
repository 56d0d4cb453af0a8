"""Targets that come more than once in an audience: kept, counted or removed."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Literal

from producers.submit.validation import Accepted, digest_text

Duplicates = Literal["keep", "count", "remove"]
"""What becomes of them. count: among the first 100,000 targets, and they are kept. remove: the first of each is kept;
takes about 110 bytes of memory a target."""
COUNTED: Final = 100_000
"""Targets among which duplicates are counted: 8 ms. In an audience of millions, all of them would take a fifth of the
time of the submission."""


class DuplicateFilter:
    """found: duplicates so far; None if they are kept without being counted."""

    def __init__(self, rule: Duplicates) -> None:
        self.found: int | None = None if rule == "keep" else 0
        self._rule = rule
        self._left = COUNTED
        self._seen: set[int] | set[bytes] = set()

    def __call__(self, accepted: Accepted) -> Accepted:
        """Return what is to be submitted of these targets."""
        if self._rule == "remove":
            return self._without_repeated(accepted)
        if self._rule == "count" and self._left:
            self._count(accepted.addresses[: self._left])
        return accepted

    def _count(self, addresses: Sequence[str]) -> None:
        seen, before = self._seen, len(self._seen)
        seen.update(map(hash, addresses))  # type: ignore[arg-type]  # of numbers, where they are counted
        self.found = (self.found or 0) + len(addresses) - (len(seen) - before)
        self._left -= len(addresses)
        if not self._left:
            self._seen = set()

    def _without_repeated(self, accepted: Accepted) -> Accepted:
        addresses, variables, _ = accepted
        keys = [blake2b(address.encode(), digest_size=16).digest() for address in addresses]
        first = {key: index for index, key in reversed(list(enumerate(keys)))}
        kept = sorted(index for key, index in first.items() if key not in self._seen)
        self._seen.update(first)  # type: ignore[arg-type]  # of digests, where they are removed
        if len(kept) == len(addresses):
            return accepted
        self.found = (self.found or 0) + len(addresses) - len(kept)
        addresses = [addresses[index] for index in kept]
        own = None if variables is None else [variables[index] for index in kept]
        own = own if own is not None and any(own) else None
        return Accepted(addresses, own, digest_text(addresses, own))
