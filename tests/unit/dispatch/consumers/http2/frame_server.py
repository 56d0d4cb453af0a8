"""An HTTP/2 server over TLS that takes requests, then answers, refuses or cuts, and knows what it accepted."""

import asyncio
import enum
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, StreamEnded, StreamReset, WindowUpdated
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame


class Cut(enum.Enum):
    """How the server treats the requests that it holds, once they are enough."""

    TLS_END = "close_notify, then FIN"
    FIN = "FIN without close_notify"
    RESET = "TCP reset"
    GO_AWAY = "GOAWAY with a last stream id: streams above it are not taken, the others are answered"
    GO_AWAY_END = "GOAWAY with a last stream id, then the end of the connection"
    REFUSE = "RST_STREAM REFUSED_STREAM: none is taken"
    BREAK = "RST_STREAM with the plan's code: all are taken"
    HANG = "nothing more"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The course of a connection: `warm` answers, then `held` requests without one, the cut, then answers again."""

    cut: Cut | None = None
    """None: answer every request."""
    warm: int = 1
    held: int = 1
    taken: int = 0
    """The number of held requests, in the order of their streams, that are taken in spite of a GOAWAY."""
    cuts: int = 1_000_000
    """Connections with this plan; later ones answer every request."""
    streams: int = 100
    streams_later: int | None = None
    """The limit after the first answer on a connection."""
    window: int = 65_535
    """Bytes of a body that a client may send at first."""
    asks_for_certificate: bool = False
    """Whether a client has to show a certificate of ca.pem."""
    delay_s: float = 0.0
    """Time until an answer."""
    code: int = ErrorCodes.INTERNAL_ERROR
    """The error code of BREAK."""
    answer: bytes = b'{"name": "projects/p/messages/1"}'


@dataclass(kw_only=True)
class Seen:
    """A record of what reached the server. A request's id is its header `x-id`."""

    accepted: Counter[str] = field(default_factory=Counter)
    """Complete requests that were taken, by id."""
    arrived: Counter[str] = field(default_factory=Counter)
    """Complete requests that arrived, taken or not, by id."""
    connections: int = 0
    protocol_errors: list[str] = field(default_factory=list)
    most_streams: int = 0
    """The largest number of open streams on a connection."""
    too_many: int = 0
    """Streams that were refused since they were more than the plan allows."""
    bodies: dict[str, bytes] = field(default_factory=dict)
    """By id, of those that were taken."""
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    """By id, of those that were taken."""


@dataclass
class _Request:
    name: str
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)


class _Connection(asyncio.Protocol):
    def __init__(self, plan: Plan, seen: Seen, open_ones: "set[_Connection]") -> None:
        self._plan, self._seen, self._open = plan, seen, open_ones
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._requests: dict[int, _Request] = {}
        self._warmed = 0
        self._held: dict[int, str] = {}
        self._streams = plan.streams
        self._over = False  # the plan: answer what comes
        self._rests: dict[int, bytes] = {}
        self._last: int | None = None  # of the GOAWAY that was sent

    # ------------------------------------------------------------- asyncio's side
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass
        self._open.add(self)
        self._seen.connections += 1
        own = {
            SettingCodes.MAX_CONCURRENT_STREAMS: self._plan.streams,
            SettingCodes.INITIAL_WINDOW_SIZE: self._plan.window,
        }
        self._h2.local_settings = Settings(client=False, initial_values=own)
        self._h2.initiate_connection()
        self._h2.local_settings = Settings(client=False)  # h2 would end a connection with a stream too many
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)

    def data_received(self, data: bytes) -> None:
        try:
            events = self._h2.receive_data(data)
        except ProtocolError as error:
            self._seen.protocol_errors.append(repr(error))
            self._transport.abort()
            return
        for event in events:
            self._on(event)
        self._flush()
        if self._plan.cut is not None and not self._over and len(self._held) >= self._plan.held:
            self._cut(self._plan.cut)

    def shut(self) -> None:
        self._transport.abort()

    # ------------------------------------------------------------- requests
    def _on(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._begin(event.stream_id, {str(name): str(value) for name, value in event.headers})
        elif isinstance(event, DataReceived):
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if event.stream_id in self._requests:
                self._requests[event.stream_id].body += event.data
        elif isinstance(event, StreamEnded) and event.stream_id in self._requests:
            self._arrived(event.stream_id)
        elif isinstance(event, StreamReset):
            for streams in (self._requests, self._held, self._rests):
                streams.pop(event.stream_id, None)
        elif isinstance(event, WindowUpdated):
            self._send_rests()

    def _begin(self, stream: int, headers: dict[str, str]) -> None:
        if len(self._requests) >= self._streams:
            self._seen.too_many += 1
            self._h2.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
            return
        self._requests[stream] = _Request(headers.get("x-id", ""), headers)
        self._seen.most_streams = max(self._seen.most_streams, len(self._requests))

    def _arrived(self, stream: int) -> None:
        request = self._requests[stream]
        self._seen.arrived[request.name] += 1
        if self._last is not None and stream > self._last:
            return
        if self._plan.cut is None or self._over or self._warmed < self._plan.warm:
            self._warmed += 1
            self._take(stream, request.name)
            self._answer_later(stream)
        else:
            self._held[stream] = request.name

    def _take(self, stream: int, name: str) -> None:
        self._seen.accepted[name] += 1
        self._seen.bodies[name] = bytes(self._requests[stream].body)
        self._seen.headers[name] = self._requests[stream].headers

    def _answer_later(self, stream: int) -> None:
        if self._plan.delay_s:
            asyncio.get_running_loop().call_later(self._plan.delay_s, self._answer, stream)
        else:
            self._answer(stream)

    def _answer(self, stream: int) -> None:
        if self._requests.pop(stream, None) is None or self._transport.is_closing():
            return
        self._h2.send_headers(stream, [(":status", "200"), ("apns-id", str(stream)), ("retry-after", "7")])
        if self._plan.streams_later is not None and self._streams != self._plan.streams_later:
            self._streams = self._plan.streams_later
            self._h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: self._streams})
        self._rests[stream] = self._plan.answer
        self._send_rests()
        self._flush()

    def _send_rests(self) -> None:
        """Send what the windows of streams with an answer under way allow."""
        for stream, rest in list(self._rests.items()):
            while rest and (room := min(self._h2.local_flow_control_window(stream), 16_384)):
                self._h2.send_data(stream, rest[:room], end_stream=len(rest) <= room)
                rest = rest[room:]
            self._rests[stream] = rest
            if not rest:
                del self._rests[stream]

    def _flush(self) -> None:
        self._transport.write(self._h2.data_to_send())

    # ------------------------------------------------------------- cuts
    def _cut(self, cut: Cut) -> None:
        self._over = True
        held, self._held = dict(sorted(self._held.items())), {}
        taken = held
        if cut in (Cut.GO_AWAY, Cut.GO_AWAY_END):
            taken = dict(list(held.items())[: self._plan.taken])
            before = min(held) - 2
            self._last = max(taken, default=max(before, 0))
            self._transport.write(GoAwayFrame(0, last_stream_id=self._last).serialize())
        if cut is Cut.REFUSE:
            taken = {}
        for stream, name in taken.items():
            self._take(stream, name)
        self._end(cut, held, taken)

    def _end(self, cut: Cut, held: dict[int, str], taken: dict[int, str]) -> None:
        if cut is Cut.GO_AWAY:
            for stream in taken:
                self._answer_later(stream)
        elif cut in (Cut.REFUSE, Cut.BREAK):
            code = ErrorCodes.REFUSED_STREAM if cut is Cut.REFUSE else self._plan.code
            for stream in held:
                self._h2.reset_stream(stream, code)
                self._requests.pop(stream, None)
            self._flush()
        elif cut in (Cut.TLS_END, Cut.GO_AWAY_END):
            self._transport.close()
        elif cut is not Cut.HANG:
            self._break(reset=cut is Cut.RESET)

    def _break(self, *, reset: bool) -> None:
        raw = self._transport.get_extra_info("socket")
        if reset:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


class FrameServer:
    """A running server: its address, and what it has seen."""

    def __init__(self, port: int, seen: Seen, open_ones: set[_Connection]) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.port = port
        self.seen = seen
        self._open = open_ones

    def drop_connections(self) -> None:
        """Break the open connections."""
        for connection in list(self._open):
            connection.shut()

    @property
    def open_connections(self) -> int:
        return len(self._open)


@asynccontextmanager
async def serving(folder: Path, plan: Plan) -> AsyncIterator[FrameServer]:
    """Serve on a free port with the certificates of `folder`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.set_alpn_protocols(["h2"])
    if plan.asks_for_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.pem")
    seen, open_ones = Seen(), set[_Connection]()

    def connection() -> _Connection:
        return _Connection(plan if seen.connections < plan.cuts else Plan(streams=plan.streams), seen, open_ones)

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0, ssl=context)
    made = FrameServer(server.sockets[0].getsockname()[1], seen, open_ones)
    try:
        yield made
    finally:
        server.close()
        made.drop_connections()
