"""The fold in Redis: one script changes counts, final bits and cursor together."""

from collections.abc import Iterator, Sequence
from importlib.resources.abc import Traversable

import msgspec

from backends.redis.client import lua_folder
from backends.redis.skipped_records import note_of
from backends.redis.view import RedisView
from dispatcher.fold_cost import CALL_COST, cost_of, cut
from dispatcher.model.errors import Malformed
from dispatcher.ports import FoldResult
from dispatcher.wire.groups import MAX_TRIES, TargetGroup, all_positions, groups_within, pack_flags
from dispatcher.wire.outcome import UNSENT, Mixed, Outcome, OutcomeRecord, Outcomes, read_outcomes

_encode = msgspec.msgpack.Encoder().encode
_FINAL = len(Outcome)
_NOT_INCLUDED = 127
"""Code of a position that an attempt did not include; not a final code."""
_INCLUDED = bytes(0x30 if code == _NOT_INCLUDED else 0x31 for code in range(256))
_OPEN = bytes(0x31 if _FINAL <= code != _NOT_INCLUDED else 0x30 for code in range(256))

Call = tuple[str, list[bytes]]
"""A new cursor, and the records from the old cursor up to it."""


class RedisFold:
    """Folds outcome records into the view. All methods raise Unreachable when Redis is gone. Then read the cursor,
    which shows how much of the call was applied, and repeat the call."""

    def __init__(self, view: RedisView, folder: Traversable | None = None, reader: str = "") -> None:
        """folder: the scripts; the default is this package's. reader: names this version, as in SkippedRecords."""
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
        """Fold records, in as many script calls as dispatcher/fold_cost.py requires.

        A record that cannot be read, or is of a later version, must not stop the fold. It is counted (`malformed`) and
        skipped, and its position is kept.
        """
        position, finished = expected or "", []
        for reached, readable in self._calls(position, cursor, records, positions):
            args: list[str | bytes | int] = [partition, position, reached, *readable]
            applied, current, *rest = self._scripts.call("fold", [self._prefix], args)
            finished += [task.decode() for task in rest[0]] if rest else []
            position = current.decode()
            if applied != 1:
                return FoldResult(applied=False, cursor=position, finished=finished)
        return FoldResult(applied=True, cursor=position, finished=finished)

    def _calls(
        self, expected: str, cursor: str, records: Sequence[bytes], positions: Sequence[str] | None
    ) -> Iterator[Call]:
        """Split records into calls. The cursor stays before a split record until its last part is folded."""
        reached, cost, readable = expected, 0, list[bytes]()
        for body, position in zip(records, positions or [expected] * len(records), strict=True):
            for part_cost, part in self._parts(body, position or cursor):
                if readable and cost + part_cost > CALL_COST:
                    yield reached, readable
                    cost, readable = 0, []
                cost += part_cost
                readable.append(part)
            reached = max(reached, position)
        yield cursor, readable

    def _parts(self, body: bytes, position: str) -> Iterator[tuple[int, bytes]]:
        """Yield the parts of a record with their costs."""
        try:
            record = read_outcomes(body)
        except Malformed as error:
            yield 1, _encode(["?", position, note_of(self._reader, error.cause)])
            return
        for part in cut(record):
            yield cost_of(part), _for_script(part)


def _for_script(record: OutcomeRecord) -> bytes:
    """Encode a record for Lua: without byte strings, and without fields that Lua does not need and whose types its
    msgpack may not support. Fields for the journal only are left out."""
    if not isinstance(record, Outcomes):
        return _encode(record)
    mixed = [_mixed(each, record.at_ms) for each in record.mixed]
    return _encode(("o", record.format, record.task, record.claim, record.at_ms, record.channel, record.runs, mixed))


class _MixedRow(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """An envelope with different outcomes, in the order of `read_mixed` in records.lua."""

    writer: str
    attempt: int
    sequence: int
    size: int
    included: str
    """A flag for each target that the attempt included."""
    still_open: str
    """A flag for each target without a final outcome; empty if there is none."""
    by_code: list[int]
    codes: str
    groups: list[TargetGroup]
    """Groups of the targets without a final outcome."""
    sent: int
    """Number of targets that were sent; -1 for all."""


def _mixed(mixed: Mixed, at_ms: int) -> _MixedRow:
    codes = mixed.codes if mixed.positions is None else _by_position(mixed.positions, mixed.codes, mixed.size)
    if mixed.positions is None and len(codes) == mixed.size:
        included = all_positions(mixed.size)
    else:
        codes = codes.ljust(mixed.size, bytes((_NOT_INCLUDED,)))
        included = pack_flags(codes.translate(_INCLUDED))
    by_code = [codes.count(code) for code in range(_FINAL)]
    still_open = pack_flags(codes.translate(_OPEN)) if sum(by_code) < len(codes) else ""
    return _MixedRow(
        writer=mixed.writer,
        attempt=mixed.attempt,
        sequence=mixed.sequence,
        size=mixed.size,
        included=included,
        still_open=still_open,
        by_code=by_code,
        codes=codes.decode("ascii"),
        groups=groups_within(mixed.groups, still_open, _tried_in_each_round(mixed, at_ms)) if still_open else [],
        sent=len(mixed.codes) - unsent if (unsent := mixed.codes.count(UNSENT)) else -1,
    )


def _tried_in_each_round(mixed: Mixed, at_ms: int) -> TargetGroup:
    """Return the group of open targets that a record names in none, as those of other programs may."""
    tries = min(mixed.attempt + 1, MAX_TRIES)
    return TargetGroup(positions="f", tries=tries, due_ms=at_ms + 1000 * mixed.delay_s, first_ms=at_ms)


def _by_position(positions: Sequence[int], codes: bytes, size: int) -> bytes:
    by_position = bytearray((_NOT_INCLUDED,)) * max(size, max(positions, default=0) + 1)
    for position, code in zip(positions, codes, strict=True):
        by_position[position] = code
    return bytes(by_position)
