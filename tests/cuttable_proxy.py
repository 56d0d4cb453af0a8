"""A TCP proxy that can be cut: connections break, and new ones are closed at once."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 1 << 16


class CuttableProxy:
    """Passes bytes on in both directions. cut: whether it does not; see `set_cut`. to_port: where connections lead to
    that are made from now on.

    Pulsar's answer to a lookup names its broker's own address, around the proxy. `addresses` in what the server says
    are replaced by others of the same length, so that lengths in the frames stay right.
    """

    def __init__(self, to_port: int, listener: socket.socket, addresses: dict[bytes, bytes]) -> None:
        self.port = int(listener.getsockname()[1])
        self.cut = False
        self.to_port = to_port
        self._listener = listener
        self._addresses = addresses
        self._ends: list[socket.socket] = []

    def set_cut(self, cut: bool) -> None:
        """Break all connections and refuse new ones; or let them through again."""
        self.cut = cut
        if cut:
            self._hang_up()

    def accept(self) -> None:
        """Until it is closed."""
        with suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                if self.cut:
                    here.close()
                    continue
                there = socket.create_connection(("127.0.0.1", self.to_port))
                self._ends += [here, there]
                threading.Thread(target=self._pass_on, args=(here, there, {}), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(there, here, self._addresses), daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._hang_up()
        for end in (self._listener, *self._ends):
            end.close()

    def _hang_up(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, source: socket.socket, to: socket.socket, addresses: dict[bytes, bytes]) -> None:
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                for address, other in addresses.items():
                    chunk = chunk.replace(address, other)
                to.sendall(chunk)
        for end in (source, to):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _listener(digits: int) -> socket.socket:
    """Listen on a free port with this number of digits."""
    for port in range(10 ** (digits - 1) + 1_111, min(10**digits, 65_536)):
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise OSError("no port is free")


@contextmanager
def cuttable_proxy(to_port: int) -> Iterator[CuttableProxy]:
    """Its port is there to be connected to instead, for as long as the context lasts."""
    listener = _listener(len(str(to_port)))
    port = int(listener.getsockname()[1])
    hosts = (b"127.0.0.1", b"localhost")
    addresses = {b"pulsar://%b:%d" % (host, to_port): b"pulsar://%b:%d" % (host, port) for host in hosts}
    proxy = CuttableProxy(to_port, listener, addresses)
    threading.Thread(target=proxy.accept, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
