"""A TCP proxy that answers late: what the server says is passed on after a while, in order and at full width."""

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 1 << 16


class DelayingProxy:
    """delay_s: from now on; may be set at any time, from any thread."""

    def __init__(self, to_port: int, delay_s: float) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self.delay_s = delay_s
        self._to_port = to_port
        self._ends: list[socket.socket] = []

    def accept(self) -> None:
        """Until it is closed."""
        with suppress(OSError):
            while True:
                here, _ = self.listener.accept()
                there = socket.create_connection(("127.0.0.1", self._to_port))
                self._ends += [here, there]
                _start(self._pass_on, here, there)
                _start(self._pass_on_late, there, here)

    def close(self) -> None:
        for end in (self.listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _pass_on(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                to.sendall(chunk)
        _hang_up(to)

    def _pass_on_late(self, source: socket.socket, to: socket.socket) -> None:
        late: queue.Queue[tuple[float, bytes]] = queue.Queue()
        _start(_write_late, late, to)
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                late.put((time.monotonic() + self.delay_s, chunk))
        late.put((0.0, b""))


def _write_late(late: "queue.Queue[tuple[float, bytes]]", to: socket.socket) -> None:
    with suppress(OSError):
        while True:
            due_s, chunk = late.get()
            if not chunk:
                break
            time.sleep(max(0.0, due_s - time.monotonic()))
            to.sendall(chunk)
    _hang_up(to)


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


def _start(run: object, *args: object) -> None:
    threading.Thread(target=run, args=args, daemon=True).start()  # type: ignore[arg-type]


@contextmanager
def delaying_proxy(to_port: int, delay_s: float) -> Iterator[DelayingProxy]:
    """Its port is there to be connected to instead, for as long as the context lasts."""
    proxy = DelayingProxy(to_port, delay_s)
    _start(proxy.accept)
    try:
        yield proxy
    finally:
        proxy.close()
