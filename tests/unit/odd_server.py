"""A server that answers as no server should, and tells what it could send."""

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

JSON_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNK = b"x" * 65_536
Behavior = Callable[["Talk"], None]


@dataclass
class OddServer:
    """A running server."""

    port: int = 0
    sent: int = 0
    """Bytes that were taken from it."""
    connections: int = 0
    asked: list[bytes] = field(default_factory=list)
    """First lines of requests."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Talk:
    """One connection."""

    def __init__(self, server: OddServer, sock: socket.socket, over: threading.Event) -> None:
        self.server, self._sock, self.over = server, sock, over

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)
        self.server.sent += len(data)

    def sized(self, body: bytes, head: bytes = JSON_OK) -> None:
        """Send an answer of HTTP with this body."""
        self.send(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def stream(self, part: bytes = CHUNK) -> None:
        """Send it again and again."""
        while not self.over.is_set():
            self.send(part)

    def drip(self, part: bytes) -> None:
        """Send it again and again, a little later each time."""
        while not self.over.wait(0.05):
            self.send(part)


def _chunked(talk: Talk) -> None:
    talk.send(JSON_OK + b"Transfer-Encoding: chunked\r\n\r\n")
    talk.stream(b"10000\r\n" + CHUNK + b"\r\n")


def _headers(talk: Talk) -> None:
    talk.send(JSON_OK)
    talk.stream(b"X: " + b"y" * 1_000 + b"\r\n")


def _bomb(talk: Talk) -> None:
    talk.sized(gzip.compress(bytes(50 << 20), 1), JSON_OK + b"Content-Encoding: gzip\r\n")


def _wait(talk: Talk) -> None:
    talk.over.wait(60)


def _dripped(beginning: bytes, part: bytes) -> Behavior:
    def behave(talk: Talk) -> None:
        talk.send(beginning)
        talk.drip(part)

    return behave


def _streamed(beginning: bytes) -> Behavior:
    def behave(talk: Talk) -> None:
        talk.send(beginning)
        talk.stream()

    return behave


DEEP = b"[" * 100_000 + b"]" * 100_000
WEB: dict[str, Behavior] = {
    "an endless body": _streamed(JSON_OK + b"\r\n"),
    "an endless chunked body": _chunked,
    "a huge length": _streamed(JSON_OK + b"Content-Length: 99999999999\r\n\r\n"),
    "a huge chunk": _streamed(JSON_OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffffff\r\n"),
    "an endless error": _streamed(b"HTTP/1.1 503 No\r\n\r\n"),
    "an endless first line": _streamed(b"HTTP/1.1 200 "),
    "endless headers": _headers,
    "endless interim answers": lambda talk: talk.stream(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "no HTTP": _streamed(b""),
    "a body that drips": _dripped(JSON_OK + b"Content-Length: 99999\r\n\r\n", b"x"),
    "headers that drip": _dripped(JSON_OK, b"X"),
    "silence": _wait,
    "the end": lambda _talk: None,
    "deep nesting": lambda talk: talk.sized(DEEP),
    "a deep object": lambda talk: talk.sized(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "a page": lambda talk: talk.sized(b"<html>It works!</html>"),
    "nothing": lambda talk: talk.sized(b""),
    "a deep error": lambda talk: talk.sized(DEEP, b"HTTP/1.1 500 No\r\n"),
    "a list": lambda talk: talk.sized(b"[1]"),
    "a packed body": _bomb,
}
"""Answers of HTTP, by name."""
SENTINEL: dict[str, Behavior] = {
    "an endless text": _streamed(b"+"),
    "a huge text": _streamed(b"$99999999999\r\n"),
    "an endless list": lambda talk: talk.stream(b"*2000000000\r\n" + b"$1\r\nx\r\n" * 1_000),
    "endless nesting": lambda talk: talk.stream(b"*1\r\n" * 1_000),
    "a text that drips": _dripped(b"+", b"x"),
    "another protocol": lambda talk: talk.send(JSON_OK + b"\r\n"),
    "a number": lambda talk: talk.send(b":1\r\n:1\r\n"),
    "an error": lambda talk: talk.send(b"-ERR unknown command\r\n"),
    "no address": lambda talk: talk.send(b"*2\r\n$4\r\nname\r\n$1\r\nx\r\n*-1\r\n"),
    "a strange address": lambda talk: talk.send(b"*2\r\n$4\r\nname\r\n$1\r\nx\r\n*2\r\n$3\r\na\nb\r\n$5\r\n99999\r\n"),
    "no answer": _wait,
    "no words": lambda _talk: None,
}
"""Answers in the protocol of Redis, by name."""


@contextmanager
def odd_server(behave: Behavior) -> Iterator[OddServer]:
    """Serve on a free port. Every request is answered by `behave`, then the connection ends."""
    server, over = OddServer(), threading.Event()

    def serve(sock: socket.socket) -> None:
        with sock, suppress(OSError):
            server.asked.append(sock.recv(65_536).partition(b"\r\n")[0])
            behave(Talk(server, sock, over))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.port = listener.getsockname()[1]

        def accept() -> None:
            with suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    server.connections += 1
                    threading.Thread(target=serve, args=(sock,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
    thread.join()
