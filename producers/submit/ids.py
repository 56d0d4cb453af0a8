"""Generate task ids for callers that do not choose their own."""

import secrets
from collections.abc import Callable

from dispatcher.clock import Clock

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_LETTERS = 10
_RANDOM_LETTERS = 16


def id_maker(clock: Clock) -> Callable[[], str]:
    """Return a function that makes ids of 26 letters and digits: time in milliseconds, then 80 random bits. Ids sort by
    time."""

    def new_id() -> str:
        return _letters(clock.wall_ms(), _TIME_LETTERS) + _letters(
            secrets.randbits(_RANDOM_LETTERS * 5), _RANDOM_LETTERS
        )

    return new_id


def _letters(number: int, count: int) -> str:
    return "".join(_ALPHABET[(number >> 5 * digit) & 31] for digit in reversed(range(count)))
