"""Every stored form of an older version is read today, and what is written today is read by the older version."""

from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest

from dispatcher.ports import DeadLetter
from dispatcher.wire.control import ControlRecord, decode_control, encode_control
from dispatcher.wire.envelope import Envelope, decode_envelope, encode_envelope
from dispatcher.wire.outcome import OutcomeRecord, encode_record, read_record
from dispatcher.wire.snapshot import Chunk, check, parts_of, records_of
from tests.formats import v0_1_0
from tests.formats.frozen import VERSIONS, Frozen, frozen

plain = msgspec.msgpack.decode
encode = msgspec.msgpack.Encoder().encode
read_letter = msgspec.msgpack.Decoder(DeadLetter).decode

READERS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "control": (decode_control, encode_control, v0_1_0.read_control),
    "outcomes": (read_record, encode_record, v0_1_0.read_outcome),
    "envelopes": (decode_envelope, encode_envelope, v0_1_0.read_envelope),
    "dead_letters": (read_letter, encode, v0_1_0.read_letter),
}
"""By file: today's reader, today's writer, the reader of 0.1.0."""
FORMS = [
    pytest.param(kind, one, id=f"{version}-{kind}-{number}-{one.name}")
    for version in VERSIONS
    for kind in READERS
    for number, one in enumerate(frozen(version, kind))
]


def begins_with(longer: Any, shorter: Any) -> bool:
    """Whether every list is the same up to what was added at its end."""
    if isinstance(shorter, list):
        return isinstance(longer, list) and len(longer) >= len(shorter) and all(map(begins_with, longer, shorter))
    return bool(longer == shorter)


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_a_record_of_an_older_version_is_read_with_every_field(kind: str, form: Frozen) -> None:
    read, write, _ = READERS[kind]
    record = read(form.body)
    assert record is not None
    assert begins_with(plain(write(record)), form.says)


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_the_same_record_written_today_is_read_by_the_older_version(kind: str, form: Frozen) -> None:
    read, write, read_0_1_0 = READERS[kind]
    assert begins_with(form.says, plain(encode(read_0_1_0(write(read(form.body))))))


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_fields_added_at_the_end_are_ignored_by_the_older_version(kind: str, form: Frozen) -> None:
    more = encode([*form.says, "a field of a later version", 7])
    assert READERS[kind][2](more) == READERS[kind][2](form.body)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("kind", "union"), [("control", ControlRecord), ("outcomes", OutcomeRecord)])
def test_every_kind_of_an_older_version_is_frozen_and_still_known(kind: str, union: Any, version: str) -> None:
    of_old = get_args(v0_1_0.Control if kind == "control" else v0_1_0.Outcome)
    tags = {one.__struct_config__.tag for one in of_old}
    assert {one.says[0] for one in frozen(version, kind)} == tags
    assert tags <= {one.__struct_config__.tag for one in get_args(union)}


@pytest.mark.parametrize("read", [v0_1_0.read_control, v0_1_0.read_outcome])
def test_a_new_kind_of_record_is_passed_over_by_0_1_0(read: Callable[[bytes], Any]) -> None:
    """Its folds catch this error, log the record and go on."""
    with pytest.raises(msgspec.MsgspecError):
        read(encode(["a new kind", 1, "task"]))


PAIRS = [
    pytest.param(kind, old, id=kind.__name__)
    for today, before in ((ControlRecord, v0_1_0.Control), (OutcomeRecord, v0_1_0.Outcome))
    for kind in get_args(today)
    for old in get_args(before)
    if kind.__struct_config__.tag == old.__struct_config__.tag
]


@pytest.mark.parametrize(("kind", "old"), [*PAIRS, (Envelope, v0_1_0.Envelope), (DeadLetter, v0_1_0.DeadLetter)])
def test_what_was_added_since_0_1_0_stands_at_the_end_and_has_a_default(kind: Any, old: Any) -> None:
    known = old.__struct_fields__
    assert kind.__struct_fields__[: len(known)] == known
    assert all(not field.required for field in msgspec.structs.fields(kind)[len(known) :])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_snapshot_of_an_older_version_is_whole(version: str) -> None:
    records = list(records_of(one.body for one in frozen(version, "snapshot")))
    begun = check(records, 2)
    tasks = [part for record in records if isinstance(record, Chunk) for part in parts_of(record)]
    assert begun.cursors.control
    assert len([part for part in tasks if hasattr(part, "kept_ms")]) == 12
