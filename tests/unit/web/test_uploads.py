"""Bodies of uploads: they are complete, or reading them fails; and they take little memory."""

import asyncio
import gzip
import os
import threading
import tracemalloc
from itertools import repeat

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from producers.files.lines import Feed
from tests.unit.web.received import BROKEN, cut, members, received, whole
from web.problems import ProblemError
from web.uploads import Body

TEXT = b"".join(b'"target-%d"\n' % number for number in range(300))
PLACES = st.lists(st.integers(0, 10_000), max_size=30)


@given(PLACES)
@example(list(range(100)))
def test_body_is_the_same_however_it_is_cut(at: list[int]) -> None:
    assert received(cut(TEXT, at), whole) == TEXT


@given(PLACES, st.lists(st.binary(max_size=200), min_size=1, max_size=10))
@example(list(range(100)), [b"", b"a", b"", b"b" * 1_000])
def test_gzip_of_many_members_is_the_same_however_it_is_cut(at: list[int], parts: list[bytes]) -> None:
    assert received(cut(members(parts), at), whole, packed=True) == b"".join(parts)


@given(st.integers(0, len(TEXT)), PLACES)
def test_body_that_breaks_off_never_ends(length: int, at: list[int]) -> None:
    with pytest.raises(ProblemError, match="broken off"):
        received(cut(TEXT[:length], at), whole, failure=BROKEN)


@given(st.integers(0, len(gzip.compress(TEXT)) - 1), PLACES)
@example(0, [])
def test_truncated_gzip_never_ends_although_its_body_is_complete(length: int, at: list[int]) -> None:
    with pytest.raises(ProblemError, match="ends before its end"):
        received(cut(gzip.compress(TEXT)[:length], at), whole, packed=True)


@pytest.mark.parametrize("tail", [b"x", b"\0", TEXT, gzip.compress(TEXT)[:1], b"\x1f\x8b"])
def test_gzip_with_anything_after_its_end_is_refused(tail: bytes) -> None:
    with pytest.raises(ProblemError, match=r"no gzip|before its end"):
        received([gzip.compress(TEXT) + tail], whole, packed=True)


@given(st.integers(0, 8 * len(gzip.compress(TEXT)) - 1))
def test_gzip_with_a_wrong_bit_is_refused_or_means_the_same(bit: int) -> None:
    packed = bytearray(gzip.compress(TEXT, mtime=0))
    packed[bit // 8] ^= 1 << bit % 8
    try:
        found = received([bytes(packed)], whole, packed=True)
    except ProblemError:
        found = TEXT
    assert found == TEXT  # some bits of the header mean nothing


@pytest.mark.parametrize("made", [b"\n" * (64 << 20), b'"' + b"x" * (64 << 20), b"\n" * (1 << 20), b"\r" * (1 << 20)])
def test_gzip_bomb_is_refused_in_little_memory(made: bytes) -> None:
    packed = gzip.compress(made)
    tracemalloc.start()
    try:
        with pytest.raises(ProblemError) as refused:
            received(cut(packed, [1_000]), drained, packed=True)
        assert refused.value.kind.status == 413
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def drained(body: Feed) -> None:
    while body.read1(1 << 16):
        pass


def test_bodies_that_gain_little_are_no_bomb() -> None:
    text = b"".join(b'{"target": "%s", "vars": {"name": "Ann", "city": "Linz"}}\n' % os.urandom(16).hex().encode()
                    for _ in range(20_000))  # fmt: skip
    assert received([gzip.compress(text)], whole, packed=True) == text


def test_numbered_targets_are_no_bomb() -> None:
    text = b"".join(b'"%d"\n' % number for number in range(200_000))
    assert received([gzip.compress(text)], whole, packed=True) == text


async def test_body_takes_few_chunks_before_they_are_read() -> None:
    body = Body()
    for _ in range(4):
        await body.put(b"x")
    more = asyncio.create_task(body.put(b"x"))
    await asyncio.sleep(0)
    assert not more.done()
    assert await asyncio.to_thread(body.read1, 1) == b"x"
    await more


async def test_end_of_a_body_stays_its_end() -> None:
    for failure, other in ((None, BROKEN), (BROKEN, None)):
        body = Body()
        body.end(failure)
        first = await asyncio.to_thread(end_of, body)
        body.end(other)
        assert [await asyncio.to_thread(end_of, body) for _ in range(3)] == [first] * 3


def end_of(body: Body) -> object:
    try:
        return body.read1(1)
    except ProblemError as error:
        return error


async def test_reader_can_ask_whether_it_would_wait() -> None:
    body = Body()
    assert not body.poll(0)
    await body.put(b"x")
    assert body.poll(0)
    body.read1(1)
    assert not body.poll(0)
    body.end(None)
    assert body.poll(0)


async def test_many_small_chunks_arrive_in_order() -> None:
    body, read = Body(), bytearray()
    thread = threading.Thread(target=lambda: read.extend(whole(body)))
    thread.start()
    for number, chunk in enumerate(repeat(b"x", 3_000)):
        await body.put(chunk if number % 2 else b"y")
    body.end(None)
    await asyncio.to_thread(thread.join)
    assert bytes(read) == b"yx" * 1_500
