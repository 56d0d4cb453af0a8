"""A snapshot comes back as it was written, and one that is not whole is refused with the reason."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import Malformed
from dispatcher.wire.snapshot import (
    FORMAT,
    Begun,
    BitsPart,
    Chunk,
    Closed,
    Cursors,
    OpenPart,
    Packer,
    Part,
    Record,
    SettingsPart,
    TaskPart,
    check,
    encode,
    parts_of,
    records_of,
)

BEGUN = Begun(FORMAT, 7, Cursors("c", ["a", ""]))
PARTS: list[Part] = [
    SettingsPart([b"capacity", b"10"]),
    TaskPart("t", -1, [b"lane", b"x"]),
    BitsPart("t", "0", 0, b"\xff" * 50),
    OpenPart("t", [b"0:3", b"state"]),
    TaskPart("u", 5_000, [b"lane", b"y"]),
]


def written(parts: Iterable[Part] = PARTS, chunk_bytes: int = 20, begun: Begun = BEGUN) -> list[Record]:
    packer = Packer(chunk_bytes)
    return [begun, *packer.add(parts), *packer.end()]


def read(records: Iterable[Record]) -> list[Record]:
    return list(records_of(map(encode, records)))


some_parts = st.lists(
    st.one_of(
        st.builds(TaskPart, st.text(), st.integers(-1, 2**40), st.lists(st.binary())),
        st.builds(BitsPart, st.text(), st.text(), st.integers(0, 2**30), st.binary()),
        st.builds(OpenPart, st.text(), st.lists(st.binary())),
        st.builds(SettingsPart, st.lists(st.binary())),
    )
)


@given(parts=some_parts, chunk_bytes=st.integers(1, 200), data=st.data())
def test_what_is_written_is_read_whatever_comes_twice(parts: list[Part], chunk_bytes: int, data: st.DataObject) -> None:
    records = written(parts, chunk_bytes)
    stored: list[Record] = []
    while len(stored) < len(records) or stored[-1] != records[-1]:
        following = max((records.index(record) for record in stored), default=-1) + 1
        again = data.draw(st.integers(0, following)) if len(stored) < 30 else following
        stored += records[again : following + 1]  # from a lost receipt on, everything is published again
    found = read(stored)
    assert check(found, 2) == BEGUN
    assert [part for record in found if isinstance(record, Chunk) for part in parts_of(record)] == parts
    assert isinstance(found[-1], Closed)
    assert found[-1].tasks == sum(isinstance(part, TaskPart) for part in parts)


@given(cut=st.data())
def test_one_that_was_not_written_to_its_end_is_refused(cut: st.DataObject) -> None:
    records = written()
    kept = cut.draw(st.integers(0, len(records) - 1))
    with pytest.raises(Malformed, match="not written to its end"):
        check(read(records[:kept]), 2)


def test_one_that_lacks_something_in_the_middle_is_refused() -> None:
    records = written()
    assert len(records) > 4
    for missing in range(len(records) - 1):
        with pytest.raises(Malformed, match="missing or was changed"):
            check(read(records[:missing] + records[missing + 1 :]), 2)


def test_one_that_was_changed_is_refused() -> None:
    (_, changed, *_) = written([TaskPart("t", -1, [b"lane", b"z"])])
    records: list[Record] = [changed if isinstance(r, Chunk) and r.number == 0 else r for r in written()]
    with pytest.raises(Malformed, match="missing or was changed"):
        check(read(records), 2)


def test_bytes_that_are_no_record_or_no_parts_are_refused() -> None:
    with pytest.raises(Malformed, match="after chunk 0 is not readable"):
        list(records_of([*map(encode, written()[:2]), b"\xc1"]))
    with pytest.raises(Malformed, match="Chunk 3 is not readable"):
        parts_of(Chunk(3, b"\xc1"))


def test_another_format_or_number_of_topics_is_refused() -> None:
    with pytest.raises(Malformed, match="format 99"):
        check(read(written(begun=Begun(99, 7, BEGUN.cursors))), 2)
    with pytest.raises(Malformed, match="made of 2 outcome topics; there are 4"):
        check(read(written()), 4)
