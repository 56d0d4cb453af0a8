"""A TCP proxy that can be cut: its connections break, and new ones are closed at once."""

import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

_CHUNK = 1 << 16
_SET_NAME = re.compile(rb"SETNAME\r\n\$\d+\r\n(\S+)\r\n")
Change = Callable[[socket.socket, bytes], bytes]
"""Rewrites bytes that a socket has sent before they are passed on."""
Proxy = TypeVar("Proxy", bound="CuttableProxy")


class CuttableProxy:
    """Passes bytes on in both directions.

    `cut` (see `set_cut`): whether it passes nothing. `to_port`: the destination of new connections.

    Pulsar's answer to a lookup names a broker's own address, which would bypass the proxy. `addresses` in the server's
    answers are replaced by others of the same length, so that lengths in the frames stay right.
    """

    def __init__(self, to_port: int, listener: socket.socket, addresses: dict[bytes, bytes]) -> None:
        self.port = int(listener.getsockname()[1])
        self.cut = False
        self.to_port = to_port
        self._listener = listener
        self._addresses = addresses
        self._ends: set[socket.socket] = set()

    def set_cut(self, *, cut: bool) -> None:
        """Break all connections and refuse new ones; or let connections through again."""
        self.cut = cut
        if cut:
            hang_up(self._ends)

    def accept(self) -> None:
        """Accept connections until it is closed."""
        with suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = None if self.cut else self._connected()
                if there is None:
                    here.close()
                else:
                    threading.Thread(target=self._serve, args=(here, there), daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        hang_up(self._ends)

    def _connected(self) -> socket.socket | None:
        """Return a connection to the server; None if there is no server."""
        try:
            return socket.create_connection(("127.0.0.1", self.to_port))
        except OSError:
            return None

    def _serve(self, here: socket.socket, there: socket.socket) -> None:
        """Pass bytes on until one end closes, then close both."""
        self._ends |= {here, there}
        back = threading.Thread(target=self._pass_on, args=(there, here, self._from_server), daemon=True)
        back.start()
        self._pass_on(here, there, self._from_client)
        back.join()
        self._ends -= {here, there}
        here.close()
        there.close()

    def _from_client(self, end: socket.socket, chunk: bytes) -> bytes:  # noqa: ARG002  # named proxies look at the end
        return chunk

    def _from_server(self, _end: socket.socket, chunk: bytes) -> bytes:
        for address, other in self._addresses.items():
            chunk = chunk.replace(address, other)
        return chunk

    def _pass_on(self, source: socket.socket, to: socket.socket, changed: Change) -> None:
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                to.sendall(changed(source, chunk))
        hang_up((source, to))


class NamedProxy(CuttableProxy):
    """A proxy of Redis that can be cut for single clients, identified by the name they give themselves."""

    def __init__(self, to_port: int, listener: socket.socket, addresses: dict[bytes, bytes]) -> None:
        super().__init__(to_port, listener, addresses)
        self._cut_names: set[str] = set()
        self._names: dict[socket.socket, str] = {}

    def set_cut_of(self, name: str, *, cut: bool) -> None:
        """Break the connections of the client with this name and refuse its new ones; or let them through again."""
        if not cut:
            self._cut_names.discard(name)
            return
        self._cut_names.add(name)
        hang_up([end for end, named in tuple(self._names.items()) if named == name])

    def _serve(self, here: socket.socket, there: socket.socket) -> None:
        super()._serve(here, there)
        self._names.pop(here, None)

    def _from_client(self, end: socket.socket, chunk: bytes) -> bytes:
        if end not in self._names and (named := _SET_NAME.search(chunk)):
            self._names[end] = named[1].decode()
        if self._names.get(end) in self._cut_names:
            raise ConnectionResetError
        return chunk


def _listener(digits: int) -> socket.socket:
    """Listen on a free port with this number of digits."""
    for port in range(10 ** (digits - 1) + 1_111, min(10**digits, 65_536)):
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise OSError("no port is free")


def hang_up(ends: Iterable[socket.socket]) -> None:
    """Shut connections down; the threads that serve them close them."""
    for end in tuple(ends):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def cuttable_proxy(to_port: int) -> Iterator[CuttableProxy]:
    """Yield a proxy whose port replaces the server's, for as long as the context lasts."""
    with cuttable_proxies(to_port) as (proxy,):
        yield proxy


@contextmanager
def cuttable_proxies(*to_ports: int) -> Iterator[list[CuttableProxy]]:
    """Yield a proxy for each server of a cluster; no server's address bypasses them."""
    listeners = {port: _listener(len(str(port))) for port in to_ports}
    addresses: dict[bytes, bytes] = {}
    for to_port, listener in listeners.items():
        port = int(listener.getsockname()[1])
        for start in (b"pulsar://127.0.0.1", b"pulsar://localhost", b"http://127.0.0.1", b"http://localhost"):
            addresses[b"%b:%d" % (start, to_port)] = b"%b:%d" % (start, port)
    with serving([CuttableProxy(port, listener, addresses) for port, listener in listeners.items()]) as proxies:
        yield proxies


@contextmanager
def named_proxy(to_port: int) -> Iterator[NamedProxy]:
    """Yield a proxy of Redis."""
    with serving([NamedProxy(to_port, _listener(len(str(to_port))), {})]) as (proxy,):
        yield proxy


@contextmanager
def serving(proxies: list[Proxy]) -> Iterator[list[Proxy]]:
    """Serve for as long as the context lasts."""
    for proxy in proxies:
        threading.Thread(target=proxy.accept, daemon=True).start()
    try:
        yield proxies
    finally:
        for proxy in proxies:
            proxy.close()
