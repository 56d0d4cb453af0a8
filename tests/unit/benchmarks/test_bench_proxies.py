"""The proxies that cut workers off: they outlive the servers behind them, and can be cut for a single client."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from benchmarks.cuttable_proxy import cuttable_proxies, cuttable_proxy, named_proxy
from benchmarks.redis_server import free_port


@contextmanager
def echoing(port: int, says: bytes = b"") -> Iterator[None]:
    """A server that sends back what it gets, or always the same."""

    class Echo(BaseRequestHandler):
        def handle(self) -> None:
            while chunk := self.request.recv(1_000):
                self.request.sendall(says or chunk)

    class Server(ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    with Server(("127.0.0.1", port), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def asked(port: int, text: bytes) -> bytes:
    """The answer; empty if there is none."""
    with socket.create_connection(("127.0.0.1", port), 5) as end:
        return answer_to(end, text)


def answer_to(end: socket.socket, text: bytes) -> bytes:
    try:
        end.sendall(text)
        return end.recv(1_000)
    except ConnectionError:
        return b""


def test_a_proxy_whose_server_was_away_passes_on_once_it_is_there() -> None:
    port = free_port()
    with cuttable_proxy(port) as proxy:
        assert asked(proxy.port, b"hello") == b""
        with echoing(port):
            assert asked(proxy.port, b"hello") == b"hello"


def test_no_broker_of_a_cluster_names_another_one_around_its_proxy() -> None:
    first, second = free_port(), free_port()
    with cuttable_proxies(first, second) as (proxy, other), echoing(first, b"pulsar://127.0.0.1:%d" % second):
        assert asked(proxy.port, b"who has it?") == b"pulsar://127.0.0.1:%d" % other.port


@pytest.mark.parametrize("later", [False, True], ids=["a connection that is there", "a new one"])
def test_one_client_is_cut_off_by_its_name_and_the_others_go_on(later: bool) -> None:
    names = {name: b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$2\r\n%b\r\n" % name.encode() for name in ("w0", "w1")}
    port = free_port()
    with echoing(port), named_proxy(port) as proxy:
        with (
            socket.create_connection(("127.0.0.1", proxy.port), 5) as cut,
            socket.create_connection(("127.0.0.1", proxy.port), 5) as other,
        ):
            if not later:
                assert answer_to(cut, names["w0"]) == names["w0"]
            proxy.set_cut_of("w0", cut=True)
            assert (answer_to(cut, names["w0"]) if later else cut.recv(1)) == b""
            assert answer_to(other, names["w1"]) == names["w1"]
        proxy.set_cut_of("w0", cut=False)
        assert asked(proxy.port, names["w0"]) == names["w0"]
