"""Rates and backlog of the tiers, a row for each 10 s of the last 24 h. It is lost when Redis is emptied."""

from collections.abc import Sequence

import msgspec

from backends.redis.view import ViewPart
from dispatcher.model.errors import DECODING_ERRORS

EVERY_MS = 10_000
MAX_ROWS = 8_640
"""Rows that are kept: 24 h."""


class FigureRow(msgspec.Struct, frozen=True, array_like=True):
    """The figures of 10 s. Tiers are in the order of TIERS."""

    at_ms: int
    """Redis' time."""
    rates: tuple[float, ...]
    """Targets/s that were sent in these 10 s, by tier."""
    backlog: tuple[int, ...]
    """Targets that could have been sent then, by tier."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(FigureRow).decode


class FigureTable(ViewPart):
    """A ring of rows: each 10 s have a place of their own, so that two writers leave one row."""

    def keep(self, rates: Sequence[float], backlog: Sequence[int]) -> None:
        """Store the figures of the present 10 s. Raises Unreachable."""
        now_ms = self._view.now_ms()
        row = FigureRow(now_ms, tuple(round(rate, 1) for rate in rates), tuple(backlog))
        self._view.command("HSET", self._view.keys.figures, now_ms // EVERY_MS % MAX_ROWS, _encode(row))

    def rows(self, span_s: float) -> list[FigureRow]:
        """Return the rows of the last seconds, the oldest first. Raises Unreachable."""
        now_ms = self._view.now_ms()
        first_ms = now_ms - min(round(span_s * 1000), MAX_ROWS * EVERY_MS)
        slots = range(first_ms // EVERY_MS + 1, now_ms // EVERY_MS + 1)
        stored = self._view.command("HMGET", self._view.keys.figures, *(slot % MAX_ROWS for slot in slots))
        rows = (_row_of(packed) for packed in stored if packed is not None)
        return [row for row in rows if row is not None and first_ms < row.at_ms <= now_ms]


def _row_of(packed: bytes) -> FigureRow | None:
    try:
        return _decode(packed)
    except DECODING_ERRORS:
        return None
