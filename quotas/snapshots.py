"""Read a snapshot of the fold from Redis, and restore one."""

from collections.abc import Iterator, Sequence
from importlib.resources.abc import Traversable
from typing import Any, Generic, TypeVar

import msgspec

from backends.redis.client import Arg, lua_folder
from backends.redis.skipped_records import topics
from backends.redis.view import RedisView
from dispatcher.model.errors import Malformed, Unreachable
from dispatcher.wire.groups import MAX_TRIES, TargetGroup, groups_within, pack_positions, unpack_positions
from dispatcher.wire.snapshot import (
    AccessPart,
    AuditPart,
    BitsPart,
    Cursors,
    OpenPart,
    Part,
    SettingsPart,
    SkippedPart,
    TaskPart,
)

TASKS_AT_ONCE = 200
BITS_AT_ONCE = 1 << 19
OPEN_AT_ONCE = 1_000
AUDIT_AT_ONCE = 300
_SCAN = 1_000
P = TypeVar("P")
_encode = msgspec.msgpack.Encoder().encode


class _OpenState(msgspec.Struct, Generic[P], array_like=True, frozen=True, gc=False, kw_only=True):
    """The state of an open envelope. Its positions are a text in the view (quotas/lua/shared/envelopes.lua), and a list
    in snapshots of all versions."""

    recorded: int
    size: int
    positions: P
    claimed: int
    claim: str
    groups: list[TargetGroup] = []
    """Empty in snapshots up to form 3."""


_decode_kept = msgspec.msgpack.Decoder(_OpenState[str]).decode
_decode_stored = msgspec.msgpack.Decoder(_OpenState[list[int]]).decode


class RedisSnapshots:
    """Reads and restores the parts of a snapshot. Every method raises Unreachable if Redis cannot be reached."""

    def __init__(self, view: RedisView, folder: Traversable | None = None) -> None:
        """`folder` holds the scripts; the default is this package's."""
        self._view = view
        self._scripts = view.scripts.of(folder or lua_folder("quotas"))
        self._keys = view.keys

    def cursors(self, partitions: int) -> Cursors:
        """Return the cursors. Read them before the parts."""
        keys = self._keys
        cursors = [
            self._view.command("HGET", key, "cursor") for key in (keys.control, *map(keys.fold, range(partitions)))
        ]
        control, *outcomes = [(cursor or b"").decode() for cursor in cursors]
        return Cursors(control, outcomes)

    def parts(self) -> Iterator[list[Part]]:
        """Yield all parts, a page at a time: each call takes a few ms of Redis' time at most."""
        for part, key in ((SettingsPart, self._keys.globals), (AccessPart, self._keys.access)):
            fields = self._view.command("HGETALL", key)
            yield [part([item for pair in fields.items() for item in pair])] if fields else []
        yield from self._audit()
        yield list(self._skipped())
        for tasks in self._tasks():
            while tasks:
                rows = self._scripts.call("dump_tasks", [self._keys.prefix], tasks)
                tasks = tasks[len(rows) :]
                known = [row for row in rows if len(row) > 1]
                yield [part for row in known for part in _parts_of(row)]
                for name, *_, copied in known:
                    if copied:
                        yield from self._copied(name.decode(), copied)

    def begin_restore(self, epoch: str) -> str:
        """Take over the restore and return the new restorer's name; earlier restorers can write nothing from now on.
        Return '' if Redis now holds another view, or this one needs no restore."""
        restorer: bytes = self._scripts.call("begin_restore", [self._keys.prefix], [epoch])
        return restorer.decode()

    def restore_parts(self, restorer: str, parts: Sequence[Part]) -> bool:
        """Restore parts in this order, in one round trip. Return False if Redis now holds another view or another
        restorer took over."""
        keys = [self._keys.prefix]
        calls = [("restore_part", keys, [restorer, *args]) for part in parts for args in _arguments(part)]
        return all(self._scripts.call_many(calls)) if calls else True

    def end_restore(self, restorer: str, cursors: Cursors | None) -> bool:
        """End the restore: the folds continue from these cursors, or (None) from where they are."""
        args = [] if cursors is None else [cursors.control, *cursors.outcomes]
        return bool(self._scripts.call("end_restore", [self._keys.prefix], [restorer, *args]))

    def _audit(self) -> Iterator[list[Part]]:
        """Yield the changes made by people and keys, a page at a time."""
        cursor: Any = 0
        while True:
            cursor, page = self._view.command("HSCAN", self._keys.audit_entry, cursor, "COUNT", _SCAN)
            yield [AuditPart([item for pair in page.items() for item in pair])] if page else []
            if int(cursor) == 0:
                return

    def _skipped(self) -> Iterator[SkippedPart]:
        """Yield the skipped records. They are read after the cursors, so they include every one before the cursors."""
        partitions = int(self._view.command("HGET", self._keys.epoch, "partitions") or 0)
        for topic in topics(partitions):
            notes = self._view.command("HGETALL", self._keys.passed(topic))
            if notes:
                yield SkippedPart(topic, [word for pair in notes.items() for word in pair])

    def _tasks(self) -> Iterator[list[str]]:
        """Yield pages of tasks. Every task that is listed during the whole scan comes at least once."""
        cursor: Any = 0
        seen: set[bytes] = set()
        while True:
            cursor, page = self._view.command("ZSCAN", self._keys.index, cursor, "COUNT", TASKS_AT_ONCE)
            fresh = [task for task, _ in page if task not in seen]
            seen.update(fresh)
            if fresh:
                yield [task.decode() for task in fresh]
            if int(cursor) == 0:
                return

    def _copied(self, task: str, count: int) -> Iterator[list[Part]]:
        """Yield the open envelopes of a task that had many, from a copy. Raises Unreachable if some were not read."""
        copy = self._keys.dump(task)
        cursor: Any = 0
        while True:
            cursor, page = self._view.command("HSCAN", copy, cursor, "COUNT", _SCAN)
            count -= len(page)
            yield [OpenPart(task, list(_stored([item for pair in page.items() for item in pair])))]
            if int(cursor) == 0:
                break
        self._view.command("UNLINK", copy)
        if count > 0:
            raise Unreachable(
                f"{count:,} open envelopes of task {task} disappeared while they were read: "
                "another snapshot is being made.",
                "The next one is made automatically, or try again later.",
            )


def _parts_of(row: list[Any]) -> Iterator[Part]:
    name, kept_ms, fields, bits, envelopes, _copied = row
    task = name.decode()
    yield TaskPart(task, kept_ms, fields)
    for writer, bitmap in zip(bits[::2], bits[1::2], strict=True):
        for at in range(0, len(bitmap), BITS_AT_ONCE):
            yield BitsPart(task, writer.decode(), at, bitmap[at : at + BITS_AT_ONCE])
    for at in range(0, len(envelopes), 2 * OPEN_AT_ONCE):
        yield OpenPart(task, list(_stored(envelopes[at : at + 2 * OPEN_AT_ONCE])))


def _stored(envelopes: Sequence[bytes]) -> Iterator[bytes]:
    """Convert open envelopes (names and states alternating) to the form of snapshots."""
    for name, state in zip(envelopes[::2], envelopes[1::2], strict=True):
        kept = _decode_kept(state)
        yield name
        yield _encode(msgspec.structs.replace(kept, positions=unpack_positions(kept.positions)))


def _kept(envelopes: Sequence[bytes]) -> Iterator[bytes]:
    """Convert open envelopes from the snapshot format to that of the view. Raises Malformed."""
    for name, state in zip(envelopes[::2], envelopes[1::2], strict=True):
        try:
            stored = _decode_stored(state)
        except msgspec.MsgspecError as error:
            raise Malformed(f"An open envelope ({name!r}) is not readable ({error}).") from error
        yield name
        positions = pack_positions(stored.positions, stored.size)
        tried = TargetGroup(positions=positions, tries=min(stored.recorded + 1, MAX_TRIES), due_ms=0)
        groups = groups_within(stored.groups, positions, tried)
        yield _encode((stored.recorded, stored.size, positions, stored.claimed, stored.claim, groups, 0))


def _arguments(part: Part) -> Iterator[list[Arg]]:
    """Yield the arguments of the calls that restore a part."""
    match part:
        case TaskPart():
            yield ["task", part.task, part.kept_ms, *part.fields]
        case BitsPart():
            yield ["bits", part.task, part.writer, part.offset, part.bits]
        case OpenPart():
            for at in range(0, len(part.envelopes), 2 * OPEN_AT_ONCE):
                yield ["open", part.task, *_kept(part.envelopes[at : at + 2 * OPEN_AT_ONCE])]
        case SettingsPart():
            yield ["settings", *part.fields]
        case AccessPart():
            yield ["access", *part.fields]
        case AuditPart():
            for at in range(0, len(part.entries), 2 * AUDIT_AT_ONCE):
                yield ["audit", *part.entries[at : at + 2 * AUDIT_AT_ONCE]]
        case SkippedPart():
            yield ["passed", part.topic, *part.notes]
