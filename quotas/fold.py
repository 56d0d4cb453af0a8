"""The fold in Redis: counts, final bits and cursor change in one script."""

from collections.abc import Sequence
from importlib.resources.abc import Traversable

import msgspec

from backends.passed_over import note_of
from backends.redis_client import lua_folder
from backends.redis_view import RedisView
from dispatcher.errors import Malformed
from dispatcher.outcome import Outcomes, read_outcomes
from dispatcher.ports import FoldResult

_encode = msgspec.msgpack.Encoder().encode


class RedisFold:
    """Implements dispatcher.ports.Fold. All methods raise Unreachable when Redis is gone; the call may be made again:
    the cursor tells whether the lost one was carried out."""

    def __init__(self, view: RedisView, folder: Traversable | None = None, reader: str = "") -> None:
        """folder: of the scripts, if not this package's. reader: this version, as PassedOver has it."""
        self._reader = reader
        self._scripts = view.scripts.of(folder or lua_folder("quotas"))
        self._prefix = view.keys.prefix

    def cursor(self, partition: int) -> str | None:
        cursor: bytes | None = self._scripts.call("fold_cursor", [self._prefix], [partition])
        return None if cursor is None else cursor.decode()

    def apply(
        self,
        partition: int,
        expected: str | None,
        cursor: str,
        records: Sequence[bytes],
        positions: Sequence[str] | None = None,
    ) -> FoldResult:
        """Fold records. One that cannot be read, or is of a later version, is counted (`malformed`), kept by its
        position and passed over: a fold must go on."""
        places = positions or [cursor] * len(records)
        readable = [self._for_script(body, place) for body, place in zip(records, places, strict=True)]
        args: list[str | bytes | int] = [partition, expected or "", cursor, *readable]
        applied, stands, *rest = self._scripts.call("fold", [self._prefix], args)
        finished = [task.decode() for task in rest[0]] if rest else []
        return FoldResult(applied == 1, stands.decode(), finished)

    def _for_script(self, body: bytes, position: str) -> bytes:
        try:
            return _readable(body)
        except Malformed as error:
            return _encode(["?", position, note_of(self._reader, error.cause)])


def _readable(body: bytes) -> bytes:
    """The record as Lua can read it: without fields that only others know, whose types its msgpack may not, and with
    codes as text (all are below 128), since it has no byte strings. What is for the journal alone is left out. Raises
    Malformed."""
    decoded = read_outcomes(body)
    if not isinstance(decoded, Outcomes):
        return _encode(decoded)
    mixed = [
        (m.writer, m.attempt, m.sequence, m.size, m.positions, m.codes.decode("ascii"), m.delay_s)
        for m in decoded.mixed
    ]
    runs = decoded.runs
    return _encode(("o", decoded.format, decoded.task, decoded.claim, decoded.at_ms, decoded.channel, runs, mixed))
