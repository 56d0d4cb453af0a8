"""Repeated targets of an audience: kept, counted or removed."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Literal

from producers.submit.validation import Accepted, digest_text

Duplicates = Literal["keep", "count", "remove"]
"""Treatment of repeated targets. count: count them among the first 100,000 targets, and keep them. remove: keep the
first of each; takes about 110 bytes of memory per target."""
COUNTED: Final = 100_000
"""The number of targets among which duplicates are counted; this takes 8 ms. Counting all targets of an audience of
millions would take a fifth of the submission's time."""


class DuplicateFilter:
    """Applies the rule for duplicates. found: duplicates so far; None if they are kept without being counted."""

    def __init__(self, rule: Duplicates) -> None:
        self.found: int | None = None if rule == "keep" else 0
        self._rule = rule
        self._left = COUNTED
        self._seen: set[int] | set[bytes] = set()

    def __call__(self, accepted: Accepted) -> Accepted:
        """Return the targets that are to be submitted."""
        if self._rule == "remove":
            return self._without_repeated(accepted)
        if self._rule == "count" and self._left:
            self._count(accepted.addresses[: self._left])
        return accepted

    def _count(self, addresses: Sequence[str]) -> None:
        seen, before = self._seen, len(self._seen)
        seen.update(map(hash, addresses))  # type: ignore[arg-type]  # hashes, where duplicates are counted
        self.found = (self.found or 0) + len(addresses) - (len(seen) - before)
        self._left -= len(addresses)
        if not self._left:
            self._seen = set()

    def _without_repeated(self, accepted: Accepted) -> Accepted:
        addresses, variables, _ = accepted
        keys = [blake2b(address.encode(), digest_size=16).digest() for address in addresses]
        first = {key: index for index, key in reversed(list(enumerate(keys)))}
        kept = sorted(index for key, index in first.items() if key not in self._seen)
        self._seen.update(first)  # type: ignore[arg-type]  # digests, where duplicates are removed
        if len(kept) == len(addresses):
            return accepted
        self.found = (self.found or 0) + len(addresses) - len(kept)
        addresses = [addresses[index] for index in kept]
        own = None if variables is None else [variables[index] for index in kept]
        own = own if own is not None and any(own) else None
        return Accepted(addresses, own, digest_text(addresses, own))
