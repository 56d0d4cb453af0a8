"""A server that answers each HTTP/1.1 POST after a given time, as cheaply as Python can. It reads no body.

Run as a process, as frame_server.
"""

import asyncio
import json
import re
import sys
import time

import msgspec

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class PostOrders(msgspec.Struct, frozen=True):
    """How to serve."""

    latency_ms: float


class Posts(asyncio.Protocol):
    """One connection."""

    answered = 0
    """Requests answered on all connections."""

    def __init__(self, latency_ms: float) -> None:
        self._delay_s = latency_ms / 1_000
        self._buffer = bytearray()
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._buffer, 0, end)
            size = end + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < size:
                return
            del self._buffer[:size]
            if self._delay_s:
                self._loop.call_later(self._delay_s, self._answer)
            else:
                self._answer()

    def _answer(self) -> None:
        Posts.answered += 1
        if not self._transport.is_closing():
            self._transport.write(ANSWER)  # type: ignore[attr-defined]  # uvloop's transports are no subclass


async def serve(orders: PostOrders) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Posts(orders.latency_ms), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps({"answered": Posts.answered, "cpu_s": time.process_time()}), flush=True)


if __name__ == "__main__":
    from benchmarks.delivery.cores import SERVER, run_on

    run_on(SERVER, serve(msgspec.json.decode(sys.argv[1], type=PostOrders)))
