"""A connection of HTTP/2: streams, windows, and the ends that rules ask for."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.fake.admin import side_reply
from lab.fake.messages import ClientFacts, Reply, Request
from lab.fake.site import FakeSite
from lab.fake.wire import frames
from lab.fake.wire.course import Step, break_connection, step_of
from lab.fake.wire.frames import Code, ConnectionFault, Flag, Frame, FrameKind, FrameSetting
from lab.fake.wire.header_blocks import MAX_BLOCK_BYTES, BadBlock, HeaderReader, RequestHead, written
from lab.fake.wire.sending import FrameWriter

OUR_WINDOW = 1_048_576
"""Bytes of a body that a client may send at first."""
MAX_BODY_BYTES = 256 * 1_048_576
"""The largest audience to judge; pushes are far smaller."""
_WAIT_FOR_UNTAKEN_S = 0.1
_LINGER_S = 1.0
"""Time for the client to read the last answers and the GOAWAY."""


@dataclass(slots=True, eq=False)
class _Stream:
    head: RequestHead
    step: Step
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False


class Http2Connection(asyncio.Protocol):
    """See OpenConnection."""

    def __init__(self, site: FakeSite, *, has_certificate: bool) -> None:
        self._site = site
        self._peer = ClientFacts(has_certificate=has_certificate)
        self._headers = HeaderReader()
        self._buffer = bytearray()
        self._begun = self._over = False
        self._streams: dict[int, _Stream] = {}
        self._allowed = 0
        self._pushes = 0  # requests that the rules count
        self._highest = self._last_taken = 0
        self._untaken = 0
        self._last: int | None = None  # of the GOAWAY that was sent
        self._block: tuple[Frame, bytearray] | None = None  # HEADERS whose CONTINUATION is to come
        self._unreturned = 0
        self._loop = asyncio.get_running_loop()
        self._acts: dict[int, Callable[[Frame], None]] = {
            FrameKind.DATA: self._on_data,
            FrameKind.HEADERS: self._on_headers,
            FrameKind.CONTINUATION: self._on_continuation,
            FrameKind.RST_STREAM: self._on_reset,
            FrameKind.SETTINGS: self._on_settings,
            FrameKind.PING: self._on_ping,
            FrameKind.WINDOW_UPDATE: self._on_window,
            FrameKind.PUSH_PROMISE: self._on_promise,
        }

    # ------------------------------------------------------------- asyncio's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._sending = FrameWriter(transport, self._loop)
        self._site.open.add(self)
        self._site.accounts.connections += 1
        self._allowed = self._site.streams_for(self._peer)
        values = {FrameSetting.MAX_CONCURRENT_STREAMS: self._allowed, FrameSetting.INITIAL_WINDOW_SIZE: OUR_WINDOW}
        grown = frames.window_update(0, OUR_WINDOW * 16 - frames.DEFAULT_WINDOW)
        self._sending.write(frames.settings(values) + grown)
        self._sending.flush()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._over = True
        self._sending.close()
        self._site.open.discard(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            if self._begun or self._has_preface():
                for each in frames.split(self._buffer):
                    self._take(each)
                    if self._over:
                        return
        except ConnectionFault as fault:
            self._fail(fault)
        self._sending.flush()

    def _has_preface(self) -> bool:
        size = min(len(self._buffer), len(frames.PREFACE))
        if self._buffer[:size] != frames.PREFACE[:size]:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "no preface of HTTP/2")
        self._begun = size == len(frames.PREFACE)
        if self._begun:
            del self._buffer[:size]
        return self._begun

    def _fail(self, fault: ConnectionFault) -> None:
        self._site.accounts.reasons[f"HTTP/2: {fault}"] += 1
        self._sending.write(frames.go_away(self._highest, fault.code, str(fault)))
        self._sending.flush()
        self._over = True
        self._transport.close()

    # ------------------------------------------------------------- Connection
    def follow_rules(self) -> None:
        """See OpenConnection."""
        allowed = self._site.streams_for(self._peer)
        if allowed != self._allowed:
            self._allowed = allowed
            self._sending.write(frames.settings({FrameSetting.MAX_CONCURRENT_STREAMS: allowed}))
            self._sending.flush_soon()

    def shut(self) -> None:
        """See OpenConnection."""
        self._over = True
        break_connection(self._transport)

    # ------------------------------------------------------------- frames
    def _take(self, frame: Frame) -> None:
        if self._block is not None and frame.kind != FrameKind.CONTINUATION:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a frame inside a header block")
        act = self._acts.get(frame.kind)
        if act is not None:
            act(frame)

    def _on_headers(self, frame: Frame) -> None:
        if frame.stream in self._streams:  # trailers
            if not frame.flags & Flag.END_STREAM:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "headers in the middle of a body")
        elif frame.stream % 2 == 0 or frame.stream <= self._highest:
            raise ConnectionFault(Code.STREAM_CLOSED, "headers on a stream that is not new")
        self._collect(frame, bytearray(frames.unpadded(frame)), frame.flags)

    def _on_continuation(self, frame: Frame) -> None:
        if self._block is None or self._block[0].stream != frame.stream:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        first, block = self._block
        block += frame.payload
        self._collect(first, block, frame.flags)

    def _collect(self, first: Frame, block: bytearray, flags: int) -> None:
        if len(block) > MAX_BLOCK_BYTES:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "headers that are too long")
        if not flags & Flag.END_HEADERS:
            self._block = first, block
            return
        self._block = None
        try:
            head = self._headers.read(bytes(block))
        except BadBlock as error:
            raise ConnectionFault(Code.COMPRESSION_ERROR, str(error)) from error
        self._begin(first.stream, head)
        if first.flags & Flag.END_STREAM:
            self._end(first.stream)

    def _on_data(self, frame: Frame) -> None:
        self._unreturned += len(frame.payload)
        if self._unreturned >= OUR_WINDOW:
            self._sending.write(frames.window_update(0, self._unreturned))
            self._unreturned = 0
        stream = self._streams.get(frame.stream)
        if stream is None:
            return
        stream.body += frames.unpadded(frame)
        if frame.flags & Flag.END_STREAM:
            self._end(frame.stream)
        elif len(stream.body) > MAX_BODY_BYTES:
            self._refuse(frame.stream, Code.ENHANCE_YOUR_CALM)
        elif frame.payload:
            self._sending.write(frames.window_update(frame.stream, len(frame.payload)))

    def _on_reset(self, frame: Frame) -> None:
        self._streams.pop(frame.stream, None)
        self._sending.drop(frame.stream)

    def _on_settings(self, frame: Frame) -> None:
        if not frame.flags & Flag.ACK:
            self._sending.set_initial_window(frames.read_settings(frame.payload).get(FrameSetting.INITIAL_WINDOW_SIZE))
            self._sending.write(frames.frame(FrameKind.SETTINGS, Flag.ACK, 0))

    def _on_ping(self, frame: Frame) -> None:
        if not frame.flags & Flag.ACK:
            self._sending.write(frames.frame(FrameKind.PING, Flag.ACK, 0, frame.payload))

    def _on_window(self, frame: Frame) -> None:
        self._sending.grow(frame.stream, int.from_bytes(frame.payload, "big") & frames.MAX_WINDOW)

    def _on_promise(self, _: Frame) -> None:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "PUSH_PROMISE of a client")

    # ------------------------------------------------------------- requests
    def _begin(self, number: int, head: RequestHead) -> None:
        if number in self._streams:
            return  # trailers
        self._highest = number
        if self._last is not None and number > self._last:
            return
        if len(self._streams) >= self._allowed:
            self._refuse(number, Code.REFUSED_STREAM)
        elif head.is_malformed:
            self._refuse(number, Code.PROTOCOL_ERROR)
        else:
            self._streams[number] = _Stream(head, self._step(number, head.fields[":path"]))

    def _step(self, number: int, path: str) -> Step:
        if not self._site.is_push(path):
            return Step.ANSWER
        self._pushes += 1
        step = step_of(self._pushes, self._site.rules)
        if step is not Step.UNTAKEN:
            self._last_taken = number
        return step

    def _refuse(self, number: int, code: Code) -> None:
        self._streams.pop(number, None)
        self._site.accounts.reasons[f"HTTP/2 stream: {code.name}"] += 1
        self._sending.write(frames.reset(number, code))

    def _end(self, number: int) -> None:
        """Take a complete request."""
        stream = self._streams.get(number)
        if stream is None or stream.ended:
            return
        stream.ended = True
        if stream.step is Step.UNTAKEN:
            self._hold()
            return
        reply, delay_s = self._reply(stream)
        if stream.step is Step.SILENT:
            self._sending.close()
        elif stream.step is Step.RESET:
            self.shut()
        elif delay_s:
            self._loop.call_later(delay_s, self._answer, number, reply)
        else:
            self._answer(number, reply)
        if stream.step is Step.LAST:
            self._go_away()

    def _reply(self, stream: _Stream) -> tuple[Reply, float]:
        fields, has_repeated = stream.head.fields, stream.head.has_repeated
        request = Request(fields[":method"], fields[":path"], fields, bytes(stream.body), has_repeated)
        if not self._site.is_push(request.path):
            return side_reply(self._site, request), 0.0
        was_trusted = self._peer.trusted
        handling = self._site.receive(request, self._peer)
        if self._peer.trusted and not was_trusted:
            self.follow_rules()
        return handling

    def _answer(self, number: int, reply: Reply) -> None:
        if self._over or self._streams.pop(number, None) is None:
            return
        self._sending.reply(number, written(reply.status, reply.headers), reply.body)
        if self._last is not None and not self._streams:
            self._loop.call_later(_LINGER_S, self._transport.close)

    # ------------------------------------------------------------- the end of a connection
    def _hold(self) -> None:
        """Keep a request that is not taken until there are enough for the GOAWAY."""
        self._untaken += 1
        goaway = self._site.rules.goaway
        if goaway is None or self._untaken >= goaway.untaken:
            self._go_away()
        elif self._untaken == 1:
            self._loop.call_later(_WAIT_FOR_UNTAKEN_S, self._go_away)

    def _go_away(self) -> None:
        if self._last is not None or self._over:
            return
        goaway = self._site.rules.goaway
        chosen = None if goaway is None else goaway.last_stream
        self._last = self._last_taken if chosen is None else chosen
        self._streams = {number: each for number, each in self._streams.items() if each.step is not Step.UNTAKEN}
        self._sending.write(frames.go_away(self._last, Code.NO_ERROR, "max_age"))
        self._sending.flush_soon()
        if not self._streams:
            self._loop.call_later(_LINGER_S, self._transport.close)
