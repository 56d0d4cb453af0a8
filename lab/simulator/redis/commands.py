"""The commands that Fairlane's scripts and its client use, over a store.

Arguments and answers are those of RESP2: bytes, integers, None and lists. Errors of Redis raise ResponseError.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from redis.exceptions import ResponseError

from lab.simulator.redis.store import Store, T

Answer: TypeAlias = "bytes | int | list[Answer] | StatusReply | None"
Command = Callable[[Store, Sequence[bytes]], "Answer"]
Lookup: TypeAlias = Callable[[T, Sequence[bytes]], "Answer"]
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
SYNTAX = "ERR syntax error"
_LARGEST = 2**63


class StatusReply(bytes):
    """An answer such as OK, which Lua gets as a table with the field `ok`."""


OK = StatusReply(b"OK")


class Commands:
    """Commands by name, each with its minimum and maximum number of arguments."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, int, Command]] = {}

    def command(self, name: str, min_args: int, max_args: int | None = None) -> Callable[[Command], Command]:
        """Add a command with a minimum and a maximum number of arguments (None: any number)."""

        def add(command: Command) -> Command:
            self._known[name.encode()] = (min_args, 10**9 if max_args is None else max_args, command)
            return command

        return add

    def lookup(self, name: str, min_args: int, max_args: int | None, kind: type[T], look: Lookup[T]) -> None:
        """Add a command that only reads one value. `look` gets an empty one if the key is missing."""

        def command(store: Store, words: Sequence[bytes]) -> Answer:
            return look(store.get(words[0], kind) or kind(), words[1:])

        self.command(name, min_args, max_args)(command)

    def removal(self, name: str, kind: type[T], remove: Callable[[T, bytes], bool]) -> None:
        """Add a command that removes the named parts of a value, and returns how many there were."""

        def command(store: Store, words: Sequence[bytes]) -> Answer:
            value = store.get(words[0], kind)
            if value is None:
                return 0
            count = sum(remove(value, part) for part in words[1:])
            store.tidy(words[0], value)
            return count

        self.command(name, 2)(command)

    def include(self, others: "Commands") -> None:
        self._known.update(others._known)

    def call(self, store: Store, words: Sequence[bytes]) -> Answer:
        """Return the answer of a command. Raises ResponseError."""
        entry = self._known.get(words[0]) or self._known.get(words[0].upper())
        if entry is None:
            raise ResponseError(f"ERR unknown command '{words[0].decode(errors='replace')}'")
        min_args, max_args, command = entry
        if not min_args <= len(words) - 1 <= max_args:
            name = words[0].decode().lower()
            raise ResponseError(f"ERR wrong number of arguments for '{name}' command")
        return command(store, words[1:])


def parse_int(text: bytes) -> int:
    """Parse an integer as strictly as Redis does. Raises ResponseError."""
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or (digits[:1] == b"0" and text != b"0") or not -_LARGEST <= int(text) < _LARGEST:
        raise ResponseError(NOT_AN_INTEGER)
    return int(text)


def summed(value: bytes | None, by: int) -> int:
    """Return the sum of a number stored as text and `by`. Raises ResponseError."""
    total = (0 if value is None else parse_int(value)) + by
    if not -_LARGEST <= total < _LARGEST:
        raise ResponseError("ERR increment or decrement would overflow")
    return total


def paged(cursor: bytes, options: Sequence[bytes]) -> tuple[slice, dict[bytes, bytes]]:
    """Return the slice that a scan reads from a cursor, and the scan's options. Raises ResponseError."""
    if not cursor.isdigit():
        raise ResponseError("ERR invalid cursor")
    if len(options) % 2:
        raise ResponseError(SYNTAX)
    given = dict(zip((word.upper() for word in options[::2]), options[1::2], strict=True))
    count = parse_int(given.get(b"COUNT", b"10"))
    if count < 1 or not given.keys() <= {b"COUNT", b"MATCH"}:
        raise ResponseError(SYNTAX)
    return slice(int(cursor), int(cursor) + count), given


def number(text: bytes, error: str) -> float:
    """Parse a number, which may be infinite. Raises ResponseError with the given text."""
    try:
        value = float(text)
    except ValueError:
        raise ResponseError(error) from None
    if value != value or b"_" in text or text != text.strip():
        raise ResponseError(error)
    return value


def shown(score: float) -> bytes:
    """Return a score as Redis writes it."""
    if score in (float("inf"), float("-inf")):
        return b"inf" if score > 0 else b"-inf"
    return b"%d" % score if score == int(score) and abs(score) < 1e17 else repr(score).encode()
