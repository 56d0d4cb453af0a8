"""The keys of a Redis, of five types, and their expiry by the clock that is passed in."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from redis.exceptions import ResponseError

WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


class Text(bytearray):
    """A string, or a bitmap."""


class Hash(dict[bytes, bytes]):
    """Fields and values, in the order they were added."""


class Set(dict[bytes, None]):
    """Members, in the order they were added."""


class SortedSet:
    """Members by score, then by bytes."""

    __slots__ = ("order", "scores")

    def __init__(self, other: "SortedSet | None" = None) -> None:
        self.scores: dict[bytes, float] = dict(other.scores) if other is not None else {}
        self.order: list[tuple[float, bytes]] = list(other.order) if other is not None else []

    def __len__(self) -> int:
        return len(self.scores)

    def put(self, member: bytes, score: float) -> bool:
        """Set a member's score. Return whether the member is new."""
        known = self.scores.get(member)
        if known is not None:
            if known == score:
                return False
            self.order.pop(self._index(known, member))
        self.scores[member] = score
        insort(self.order, (score, member))
        return known is None

    def remove(self, member: bytes) -> bool:
        """Remove a member. Return whether it existed."""
        score = self.scores.pop(member, None)
        if score is None:
            return False
        self.order.pop(self._index(score, member))
        return True

    def rank(self, member: bytes) -> int | None:
        """Return the rank from the lowest, from 0; None if the member does not exist."""
        score = self.scores.get(member)
        return None if score is None else self._index(score, member)

    def _index(self, score: float, member: bytes) -> int:
        return bisect_left(self.order, (score, member))


class Stream:
    """Entries by id, in order."""

    __slots__ = ("entries", "last")

    def __init__(self, other: "Stream | None" = None) -> None:
        self.entries: list[tuple[tuple[int, int], list[bytes]]] = list(other.entries) if other is not None else []
        self.last: tuple[int, int] = other.last if other is not None else (0, 0)

    def __len__(self) -> int:
        return len(self.entries)


Value = Text | Hash | Set | SortedSet | Stream
T = TypeVar("T", Text, Hash, Set, SortedSet, Stream)


class Store:
    """Keys and values. As in Redis, a key with an empty value no longer exists."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Create an empty store. `now_ms` returns the wall time by which keys expire."""
        self.now_ms = now_ms
        self._values: dict[bytes, Value] = {}
        self._expire_ms: dict[bytes, int] = {}

    # ------------------------------------------------------------- values
    def get(self, key: bytes, kind: type[T]) -> T | None:
        """Return the value, or None. Raises ResponseError if it is of another kind."""
        value = self._values.get(key)
        if value is None or (key in self._expire_ms and self._has_expired(key)):
            return None
        if type(value) is not kind:
            raise ResponseError(WRONG_TYPE)
        return value

    def make(self, key: bytes, kind: type[T]) -> T:
        """Return the value, and create it if it is missing. Raises ResponseError if it is of another kind."""
        value = self.get(key, kind)
        if value is None:
            self._values[key] = value = kind()
        return value

    def put(self, key: bytes, value: Value) -> None:
        """Store a value, replacing any other. It does not expire."""
        self._values[key] = value
        self._expire_ms.pop(key, None)

    def tidy(self, key: bytes, value: Value) -> None:
        """Remove the key if its value is empty."""
        if not value:
            self.delete(key)

    def delete(self, key: bytes) -> bool:
        """Delete a key. Return whether it existed."""
        existed = self.holds(key)
        self._values.pop(key, None)
        self._expire_ms.pop(key, None)
        return existed

    def holds(self, key: bytes) -> bool:
        """Return whether the key exists and has not expired."""
        return key in self._values and not self._has_expired(key)

    def kind(self, key: bytes) -> type[Value]:
        """Return the type of an existing key."""
        return type(self._values[key])

    def copy_key(self, source: bytes, target: bytes, *, replace: bool) -> bool:
        """Copy a value with its expiry. Return whether it was copied."""
        if not self.holds(source) or (self.holds(target) and not replace):
            return False
        self.put(target, _copied(self._values[source]))
        if source in self._expire_ms:
            self._expire_ms[target] = self._expire_ms[source]
        return True

    def live_keys(self) -> Iterator[bytes]:
        """Return an iterator over the existing keys."""
        return (key for key in list(self._values) if self.holds(key))

    # ------------------------------------------------------------- expiry
    def expires_ms(self, key: bytes) -> int | None:
        """Return the wall time when the key expires; None if it does not."""
        return self._expire_ms.get(key)

    def expire_at(self, key: bytes, at_ms: int) -> bool:
        """Set when a key expires; a time in the past deletes it. Return whether the key existed."""
        if not self.holds(key):
            return False
        self._expire_ms[key] = at_ms
        self._has_expired(key)
        return True

    def persist(self, key: bytes) -> bool:
        """Cancel a key's expiry. Return whether it had one."""
        return self.holds(key) and self._expire_ms.pop(key, None) is not None

    def _has_expired(self, key: bytes) -> bool:
        at_ms = self._expire_ms.get(key)
        if at_ms is None or at_ms > self.now_ms():
            return False
        del self._values[key], self._expire_ms[key]
        return True

    # ------------------------------------------------------------- all keys
    def clear(self) -> None:
        self._values.clear()
        self._expire_ms.clear()

    def snapshot(self) -> object:
        """Return a copy of the whole store, for `restore`."""
        return {key: _copied(value) for key, value in self._values.items()}, dict(self._expire_ms)

    def restore(self, snapshot: object) -> None:
        """Go back to a snapshot."""
        values, expire_ms = cast("tuple[dict[bytes, Value], dict[bytes, int]]", snapshot)
        self._values, self._expire_ms = {key: _copied(value) for key, value in values.items()}, dict(expire_ms)

    def contents(self) -> dict[bytes, tuple[object, int | None]]:
        """Return every key with its value in plain types and its expiry. Two stores are equal if these are."""
        return {key: (_plain(self._values[key]), self._expire_ms.get(key)) for key in self.live_keys()}


def _copied(value: Value) -> Value:
    return type(value)(value)  # type: ignore[arg-type]  # each type makes a copy of its own kind


def _plain(value: Value) -> object:
    if isinstance(value, Text):
        return bytes(value)
    if isinstance(value, Hash):
        return dict(value)
    if isinstance(value, Set):
        return frozenset(value)
    return list(value.order if isinstance(value, SortedSet) else value.entries)
