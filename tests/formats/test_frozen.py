"""Records that a released version has stored are read by every later one.

`python -m tests.formats.test_frozen VERSION` writes the records of this version. Run it once, at its release.
"""

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from dispatcher.letters.marks import read_mark
from dispatcher.model.view import WorkerBeat
from dispatcher.ports import DeadLetter
from dispatcher.wire.checks.control_checks import read_control
from dispatcher.wire.control import ControlRecord, decode_control
from dispatcher.wire.envelope import decode_envelope
from dispatcher.wire.outcome import OutcomeRecord, read_outcomes
from dispatcher.wire.snapshot import Chunk, Part, Record, check, parts_of, records_of
from tests.formats import samples

HERE = Path(__file__).parent
VERSIONS = sorted(file.stem for file in HERE.glob("*.json"))
encode = msgspec.msgpack.Encoder().encode
plain = msgspec.msgpack.decode


class Stored(NamedTuple):
    """Records of one kind."""

    records: list[Any]
    """Those of this version."""
    read: Callable[[bytes], Any]
    """This version's reader. Raises, or returns None, for what it cannot read."""
    tags: Any = None
    """The union of the kinds, if there are several."""


def control(body: bytes) -> object:
    """Read a record that is valid."""
    read_control("", body)
    return decode_control(body)


STORED = {
    "control": Stored(samples.CONTROL, control, ControlRecord),
    "outcomes": Stored(samples.OUTCOMES, read_outcomes, OutcomeRecord),
    "envelopes": Stored(samples.ENVELOPES, decode_envelope),
    "letters": Stored(samples.LETTERS, msgspec.msgpack.Decoder(DeadLetter).decode),
    "marks": Stored(samples.MARKS, read_mark),
    "snapshot": Stored(samples.SNAPSHOT, msgspec.msgpack.Decoder(Record).decode, Record),
    "heartbeats": Stored(samples.HEARTBEATS, msgspec.msgpack.Decoder(WorkerBeat).decode),
}


def frozen(version: str, kind: str) -> list[bytes]:
    """The encoded records of one kind, as that version stored them."""
    return [base64.b64decode(text) for text in json.loads((HERE / f"{version}.json").read_text(encoding="utf-8"))[kind]]


EACH = [
    pytest.param(kind, body, id=f"{version}-{kind}-{number}")
    for version in VERSIONS
    for kind in STORED
    for number, body in enumerate(frozen(version, kind))
]


def extends(longer: Any, shorter: Any) -> bool:
    """Whether every list and every map has at least what the other has."""
    if isinstance(shorter, list):
        return isinstance(longer, list) and len(longer) >= len(shorter) and all(map(extends, longer, shorter))
    if isinstance(shorter, dict):
        return isinstance(longer, dict) and all(extends(longer.get(name), one) for name, one in shorter.items())
    return bool(longer == shorter)


@pytest.mark.parametrize(("kind", "body"), EACH)
def test_a_frozen_record_is_read_with_every_field(kind: str, body: bytes) -> None:
    record = STORED[kind].read(body)
    assert record is not None
    assert extends(plain(encode(record)), plain(body))


@pytest.mark.parametrize(("kind", "body"), [each for each in EACH if each.values[0] != "heartbeats"])
def test_fields_that_a_later_version_adds_at_the_end_are_ignored(kind: str, body: bytes) -> None:
    assert STORED[kind].read(encode([*plain(body), "a field of a later version", 7])) == STORED[kind].read(body)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [kind for kind, stored in STORED.items() if stored.tags])
def test_every_kind_of_record_is_frozen(version: str, kind: str) -> None:
    known = {one.__struct_config__.tag for one in get_args(STORED[kind].tags)}
    assert {plain(body)[0] for body in frozen(version, kind)} <= known
    assert {plain(encode(record))[0] for record in STORED[kind].records} == known


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frozen_snapshot_is_complete(version: str) -> None:
    records = list(records_of(frozen(version, "snapshot")))
    assert check(records, partitions=2).cursors.control
    parts = [part for record in records if isinstance(record, Chunk) for part in parts_of(record)]
    assert {type(part) for part in parts} == set(get_args(Part))


def main(version: str) -> None:
    bodies = {kind: map(encode, stored.records) for kind, stored in STORED.items()}
    kinds = {kind: [base64.b64encode(body).decode() for body in each] for kind, each in bodies.items()}
    (HERE / f"{version}.json").write_text(json.dumps(kinds, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
