"""The fakes speak HTTP/2 as the package h2 does, and end connections that do not."""

import asyncio
from contextlib import suppress
from unittest.mock import Mock

import pytest
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset
from hpack import Encoder
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, HeadersFrame, PushPromiseFrame, SettingsFrame
from hypothesis import given
from hypothesis import strategies as st

from lab.fake.fcm.access_tokens import AccessTokens
from lab.fake.fcm.provider import FakeFcmProvider
from lab.fake.rules import read_rules
from lab.fake.site import FakeSite
from lab.fake.wire.frames import frame
from lab.fake.wire.header_blocks import BadBlock, HeaderReader
from lab.fake.wire.http2 import Http2Connection
from tests.unit.lab.fake.playing import Playing
from tests.unit.lab.fake.raw_client import HEAD, connected

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


async def test_a_client_of_h2_is_served_in_small_windows(playing: Playing) -> None:
    playing.site.accounts.accepted.update({f"target-{number:050d}": 1 for number in range(5_000)})
    raw = await connected(playing)
    raw.h2.send_headers(1, [(":path", "/_fake/accepted"), *(one for one in HEAD if one[0] != ":path")], True)
    raw.writer.write(raw.h2.data_to_send())
    body, ended = b"", False
    while not ended:
        for event in await raw.events(DataReceived, StreamEnded):
            ended = ended or isinstance(event, StreamEnded)
            if isinstance(event, DataReceived):
                body += event.data
                raw.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        raw.writer.write(raw.h2.data_to_send())
    assert body.count(b"target-") == 5_000
    raw.h2.ping(b"12345678")
    raw.writer.write(raw.h2.data_to_send())
    raw.writer.close()


def frames(*given: Frame) -> bytes:
    return PREFACE + SettingsFrame(0).serialize() + b"".join(one.serialize() for one in given)


def headers(stream: int, head: list[tuple[str, str]] = HEAD, *flags: str) -> HeadersFrame:
    return HeadersFrame(stream, Encoder().encode(head), flags=["END_HEADERS", "END_STREAM", *flags])


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 1),
        (frames() + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", 6),
        (frames(headers(2)), 5),
        (frames(headers(3), headers(1)), 5),
        (frames(HeadersFrame(1, b"\xff\xff\xff\xff\xff\xff\xff\xff", flags=["END_HEADERS"])), 9),
        (frames(HeadersFrame(1, b"\x82"), DataFrame(1, b"x")), 1),
        (frames(ContinuationFrame(1, b"\x82")), 1),
        (frames(PushPromiseFrame(1, 2, flags=["END_HEADERS"])), 1),
        (PREFACE + b"\x00\x00\x03\x04\x00\x00\x00\x00\x00abc", 6),
    ],
)
async def test_a_client_that_breaks_the_protocol_is_told_so(playing: Playing, data: bytes, code: int) -> None:
    raw = await connected(playing)
    for stream in (1, 3):  # so that h2 knows them
        raw.h2.send_headers(stream, HEAD, True)
    raw.writer.write(data)
    found = await raw.events(ConnectionTerminated)
    assert [one.error_code for one in found if isinstance(one, ConnectionTerminated)] == [code]
    raw.writer.close()


async def test_a_malformed_request_ends_its_stream_only(playing: Playing) -> None:
    raw = await connected(playing)
    raw.h2.send_headers(1, HEAD, True)
    raw.h2.send_headers(3, HEAD, True)
    bad = [*HEAD, ("Upper", "case")]
    split = Encoder().encode(HEAD)
    given = [
        headers(1, bad),
        headers(3, HEAD[1:]),
        HeadersFrame(5, split[:2], flags=["END_STREAM"]),
        ContinuationFrame(5, split[2:], flags=["END_HEADERS"]),
    ]
    raw.h2.send_headers(5, HEAD, True)
    raw.writer.write(frames(*given))
    found = await raw.events(StreamEnded)
    assert {one.stream_id for one in found if isinstance(one, StreamReset)} == {1, 3}
    assert {one.stream_id for one in found if isinstance(one, ResponseReceived)} == {5}
    raw.writer.close()


# ---------------------------------------------------------------- any bytes
class Written:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def get_extra_info(self, _name: str) -> None:
        return None


ANY_FRAME = st.tuples(
    st.integers(0, 10),
    st.sampled_from([0, 1, 4, 5, 8, 13, 32, 45]),
    st.integers(0, 7),
    st.binary(max_size=20) | st.just(bytes(Encoder().encode(HEAD))),
)


@given(st.lists(ANY_FRAME, max_size=12), st.integers(1, 50))
def test_any_frames_are_taken_or_end_the_connection(given_frames: list[tuple[int, int, int, bytes]], step: int) -> None:
    data = PREFACE + b"".join(frame(*one) for one in given_frames)

    async def main() -> None:
        provider = FakeFcmProvider("demo", AccessTokens(Mock(), "", ""))
        site = FakeSite(provider, read_rules({"goaway": {"after": 2, "untaken": 2}}, provider.table))
        connection, transport = Http2Connection(site, has_certificate=False), Written()
        connection.connection_made(transport)  # type: ignore[arg-type]  # enough of one
        for at in range(0, len(data), step):
            if not transport.closed:
                connection.data_received(data[at : at + step])
        await asyncio.sleep(0)
        connection.connection_lost(None)
        assert not site.open
        assert not site.accounts.accepted

    asyncio.run(main())


# ---------------------------------------------------------------- header blocks
FIELDS = st.lists(
    st.tuples(
        st.sampled_from([":path", "authorization", "apns-id", "x-new", "content-length"]),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=300),
    ),
    max_size=6,
)


@given(st.lists(st.tuples(FIELDS, st.booleans()), max_size=6), st.sampled_from([4_096, 512, 0]))
def test_header_blocks_are_read_as_hpack_writes_them(
    blocks: list[tuple[list[tuple[str, str]], bool]], size: int
) -> None:
    encoder, reader = Encoder(), HeaderReader()
    encoder.header_table_size = size
    for fields, huffman in blocks:
        for _ in range(2):  # the second time from memory
            assert reader.read(encoder.encode(fields, huffman=huffman)).fields == dict(fields)


@given(st.binary(max_size=60))
def test_any_block_is_read_or_refused(block: bytes) -> None:
    with suppress(BadBlock):
        HeaderReader().read(block)
