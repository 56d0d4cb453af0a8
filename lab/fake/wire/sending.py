"""The sending half of a connection of HTTP/2: one write for what comes together, and the client's windows."""

import asyncio

from lab.fake.wire.frames import (
    DEFAULT_WINDOW,
    MAX_FRAME_BYTES,
    MAX_WINDOW,
    Code,
    ConnectionFault,
    Flag,
    FrameKind,
    frame,
)


class FrameWriter:
    """Writes frames. Bodies wait for room in the windows of their stream and of the connection."""

    def __init__(self, transport: asyncio.BaseTransport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._out: list[bytes] = []
        self._is_scheduled = self._closed = False
        self._window = self._initial_window = DEFAULT_WINDOW
        self._grown: dict[int, int] = {}  # by stream: window beyond the initial one
        self._rests: dict[int, bytes] = {}

    def reply(self, stream: int, block: bytes, body: bytes) -> None:
        """Send a reply that ends its stream."""
        if self._closed:
            return
        if not body:
            self.write(frame(FrameKind.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, stream, block))
            self._grown.pop(stream, None)
        else:
            self.write(frame(FrameKind.HEADERS, Flag.END_HEADERS, stream, block))
            self._rests[stream] = body
            self._send_rest(stream)
        self.flush_soon()

    def write(self, data: bytes) -> None:
        """Send with the next flush."""
        if not self._closed:
            self._out.append(data)

    def flush(self) -> None:
        """Send now."""
        self._is_scheduled = False
        if self._out and not self._transport.is_closing():
            self._transport.write(b"".join(self._out))  # type: ignore[attr-defined]  # uvloop's are no subclass
        self._out.clear()

    def flush_soon(self) -> None:
        """Send with what else the loop does now."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self.flush)

    def close(self) -> None:
        """Write nothing from now on; what is waiting is lost."""
        self._closed = True
        self._out.clear()
        self._rests.clear()

    def drop(self, stream: int) -> None:
        """Forget a stream that the client has reset."""
        self._rests.pop(stream, None)
        self._grown.pop(stream, None)

    # ------------------------------------------------------------- windows
    def set_initial_window(self, size: int | None) -> None:
        """Follow the client's setting; None: it did not name one. Raises ConnectionFault."""
        if size is None:
            return
        if size > MAX_WINDOW:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window that is too large")
        self._initial_window = size
        self._send_rests()

    def grow(self, stream: int, size: int) -> None:
        """Follow a WINDOW_UPDATE; stream 0 is the connection."""
        if stream == 0:
            self._window += size
            self._send_rests()
        else:
            self._grown[stream] = self._grown.get(stream, 0) + size
            self._send_rest(stream)

    def _send_rests(self) -> None:
        for stream in list(self._rests):
            self._send_rest(stream)

    def _send_rest(self, stream: int) -> None:
        rest = self._rests.get(stream)
        if rest is None:
            return
        room = min(self._window, self._initial_window + self._grown.get(stream, 0))
        sent = 0
        while sent < len(rest) and room > sent:
            part = rest[sent : sent + min(MAX_FRAME_BYTES, room - sent)]
            sent += len(part)
            self.write(frame(FrameKind.DATA, Flag.END_STREAM if sent == len(rest) else 0, stream, part))
        self._window -= sent
        self._grown[stream] = self._grown.get(stream, 0) - sent
        self._rests[stream] = rest[sent:]
        if sent == len(rest):
            self.drop(stream)
