"""A snapshot of the fold: the view as built from the control and outcome topics.

With it, a rebuild need not read the topics from their beginnings. Its records are `Begun`, chunks of parts, `Closed`.
The cursors are read before the parts. So the snapshot may include some records after the cursors, which change nothing
when they are folded again: control records never undo newer ones, and the first final outcome of each target counts.
Claims are not in it; they have ended before a rebuilt view grants.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from dispatcher.model.errors import Malformed
from dispatcher.model.view_form import FORM

FORMAT = FORM
"""Format of a snapshot. It follows the form of the view."""


class Cursors(NamedTuple):
    """Positions up to which the control and outcome topics (by partition) are folded; empty: nothing is folded."""

    control: str
    outcomes: list[str]


class TaskPart(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="t"):
    """All fields of a task in the view. They replace everything known of the task before. Parts with its
    envelopes follow."""

    task: str
    kept_ms: int
    """How long its tombstone is kept (-1: it has not ended)."""
    fields: list[bytes]
    """Fields and values alternating."""


class BitsPart(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="b"):
    """One bit per envelope, set if all its targets have an outcome, starting at byte `offset`."""

    task: str
    writer: str
    offset: int
    bits: bytes


class OpenPart(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="p"):
    """Envelopes recorded with open targets: names and states alternating."""

    task: str
    envelopes: list[bytes]


class SettingsPart(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="g"):
    """The service's settings: fields and values alternating."""

    fields: list[bytes]


class AccessPart(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="k"):
    """Keys, and policies of apps: fields and values alternating."""

    fields: list[bytes]


class AuditPart(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="c"):
    """Some of the audit: the changes that people and keys made."""

    entries: list[bytes]
    """Ids and packed entries alternating."""


class SkippedPart(msgspec.Struct, array_like=True, frozen=True, gc=False, tag="n"):
    """Records of a topic that were skipped. The cursors have passed them, so a newer version learns of them here."""

    topic: str
    """`control`, or the number of an outcome topic."""
    notes: list[bytes]
    """Positions and notes alternating."""


Part = TaskPart | BitsPart | OpenPart | SettingsPart | AccessPart | AuditPart | SkippedPart


class Begun(msgspec.Struct, array_like=True, frozen=True, tag="begun"):
    """The first record of a snapshot."""

    format: int
    at_ms: int
    cursors: Cursors
    """How far the topics are included in the snapshot."""


class Chunk(msgspec.Struct, array_like=True, frozen=True, tag="chunk"):
    """A record with some of a snapshot's parts."""

    number: int
    parts: bytes
    """Encoded, for the digest."""


class Closed(msgspec.Struct, array_like=True, frozen=True, tag="closed"):
    """The last record. A snapshot counts only if it has this record, and all its chunks together have this digest."""

    chunks: int
    tasks: int
    digest: bytes


Record = Begun | Chunk | Closed

encode = msgspec.msgpack.Encoder().encode
_decode_record = msgspec.msgpack.Decoder(Record).decode
_decode_parts = msgspec.msgpack.Decoder(list[Part]).decode


def parts_of(chunk: Chunk) -> list[Part]:
    """Decode the parts of a chunk. Raises Malformed."""
    try:
        parts: list[Part] = _decode_parts(chunk.parts)
    except msgspec.MsgspecError as error:
        raise Malformed(f"Chunk {chunk.number} is not readable ({error}).") from error
    return parts


class Packer:
    """Packs parts into chunks of about `chunk_bytes`, and closes the snapshot."""

    def __init__(self, chunk_bytes: int) -> None:
        self.tasks = 0
        self._chunk_bytes = chunk_bytes
        self._parts: list[bytes] = []
        self._bytes = 0
        self._chunks = 0
        self._digest = _new_digest()

    def add(self, parts: Iterable[Part]) -> Iterator[Chunk]:
        """Add parts. Yield the chunks that are now full; call `end` after the last part."""
        for part in parts:
            encoded = encode(part)
            self.tasks += isinstance(part, TaskPart)
            self._parts.append(encoded)
            self._bytes += len(encoded)
            if self._bytes >= self._chunk_bytes:
                yield self._chunk()

    def end(self) -> Iterator[Chunk | Closed]:
        """Yield the remaining chunk and the closing record."""
        if self._parts:
            yield self._chunk()
        yield Closed(self._chunks, self.tasks, self._digest.digest())

    def _chunk(self) -> Chunk:
        chunk = Chunk(self._chunks, encode([msgspec.Raw(part) for part in self._parts]))
        self._digest.update(chunk.parts)
        self._chunks += 1
        self._parts, self._bytes = [], 0
        return chunk


def records_of(bodies: Iterable[bytes]) -> Iterator[Record]:
    """Yield the records of a topic up to the closing one, without the copies that lost receipts cause. Raises Malformed
    for a record that cannot be read."""
    following = 0
    for body in bodies:
        try:
            record: Record = _decode_record(body)
        except msgspec.MsgspecError as error:
            raise Malformed(f"A record after chunk {following - 1} is not readable ({error}).") from error
        if isinstance(record, Chunk):
            if record.number != following:
                continue
            following += 1
        yield record
        if isinstance(record, Closed):
            return


def check(records: Iterable[Record], partitions: int) -> Begun:
    """Return the first record if the snapshot is complete and fits this version and number of outcome topics. Raises
    Malformed, with the reason."""
    begun, chunks, digest = None, 0, _new_digest()
    for record in records:
        match record:
            case Begun():
                begun = record
                _check_begun(begun, partitions)
            case Chunk():
                parts_of(record)
                digest.update(record.parts)
                chunks += 1
            case Closed():
                if begun is None or (record.chunks, record.digest) != (chunks, digest.digest()):
                    raise Malformed("Something in the middle of it is missing or was changed.")
                return begun
    raise Malformed("It was not written to its end.")


def _check_begun(begun: Begun, partitions: int) -> None:
    if not 1 <= begun.format <= FORMAT:
        raise Malformed(f"It has format {begun.format}; this version reads up to {FORMAT}.")
    if len(begun.cursors.outcomes) != partitions:
        raise Malformed(f"It was made of {len(begun.cursors.outcomes)} outcome topics; there are {partitions}.")


def _new_digest() -> blake2b:
    return blake2b(digest_size=16)
