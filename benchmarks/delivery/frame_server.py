"""A server that answers each HTTP/2 request after a given time, as cheaply as Python can. It reads no headers.

Run as a process: it prints its port, serves until its input ends, and then prints what it has done.
"""

import asyncio
import json
import ssl
import sys
import time
from pathlib import Path

import msgspec

PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 4, 6, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
BODY = b'{"name": "projects/demo/messages/0:1234567890123456%abcdef01234567"}'
STATUS_200 = b"\x88"  # HPACK: entry 8 of the static table
MAX_CONCURRENT_STREAMS = 3
RETURN_WINDOW_AT = 32_768


class Orders(msgspec.Struct, frozen=True):
    """How to serve."""

    folder: str
    """Holds server.pem and server.key."""
    latency_ms: float
    streams: int
    has_body: bool = True
    """Whether an answer has a body, as of FCM; APNs answers 200 without one."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


class Answering(asyncio.Protocol):
    """One connection."""

    answered = 0
    """Requests answered on all connections."""

    def __init__(self, orders: Orders) -> None:
        self._delay_s = orders.latency_ms / 1_000
        self._streams = orders.streams
        self._has_body = orders.has_body
        self._buffer = bytearray()
        self._begun = False
        self._unreturned = 0
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        limit = MAX_CONCURRENT_STREAMS.to_bytes(2, "big") + self._streams.to_bytes(4, "big")
        self._write(frame(SETTINGS, 0, 0, limit))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._begun:
            if len(self._buffer) < PREFACE:
                return
            self._begun = True
            del self._buffer[:PREFACE]
        ended = self._read_frames()
        if ended and self._delay_s:
            self._loop.call_later(self._delay_s, self._answer, ended)
        elif ended:
            self._answer(ended)

    def _read_frames(self) -> list[bytes]:
        """Return the streams whose request is complete, as bytes."""
        buffer, at, ended = self._buffer, 0, []
        while len(buffer) - at >= 9:
            size = int.from_bytes(buffer[at : at + 3], "big")
            if len(buffer) - at < 9 + size:
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            if kind in (DATA, HEADERS):
                self._unreturned += size if kind == DATA else 0
                if flags & END_STREAM:
                    ended.append(bytes(buffer[at + 5 : at + 9]))
            elif kind in (SETTINGS, PING) and not flags & ACK:
                self._write(frame(kind, ACK, 0, bytes(buffer[at + 9 : at + 9 + size]) if kind == PING else b""))
            at += 9 + size
        del buffer[:at]
        if self._unreturned >= RETURN_WINDOW_AT:
            self._write(frame(WINDOW_UPDATE, 0, 0, self._unreturned.to_bytes(4, "big")))
            self._unreturned = 0
        return ended

    def _answer(self, streams: list[bytes]) -> None:
        if not self._has_body:
            head = len(STATUS_200).to_bytes(3, "big") + bytes((HEADERS, END_HEADERS | END_STREAM))
            Answering.answered += len(streams)
            self._write(b"".join([head + stream + STATUS_200 for stream in streams]))
            return
        head = len(STATUS_200).to_bytes(3, "big") + bytes((HEADERS, END_HEADERS))
        body = len(BODY).to_bytes(3, "big") + bytes((DATA, END_STREAM))
        Answering.answered += len(streams)
        self._write(b"".join([head + stream + STATUS_200 + body + stream + BODY for stream in streams]))

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)  # type: ignore[attr-defined]  # uvloop's transports are no subclass


async def serve(orders: Orders) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(Path(orders.folder) / "server.pem", Path(orders.folder) / "server.key")
    context.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answering(orders), "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps({"answered": Answering.answered, "cpu_s": time.process_time()}), flush=True)


if __name__ == "__main__":
    from benchmarks.delivery.cores import SERVER, run_on

    run_on(SERVER, serve(msgspec.json.decode(sys.argv[1], type=Orders)))
